"""`conductor doctor`: whether this machine, this mount and this bus are as a run needs them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from conductor.cli.escape import shortened
from conductor.cli.exit_codes import Exit
from conductor.cli.options import bus_dir_option, examples, json_option, optional_track_argument
from conductor.cli.output import out, paint, print_json, wants_colour
from conductor.cli.terminal import orderly
from conductor.cli.track import Track, resolve, spoken
from conductor.core.wording import plural

if TYPE_CHECKING:
    from conductor.cli.examine.finding import Finding

MOST = 20
"""Details of one finding that are shown to people; `--json` has all."""

STYLE = {"ok": "green", "note": "yellow", "problem": "red"}


@click.command(
    epilog=examples(
        ("doctor", "this machine"),
        ("doctor my-track", "its file system and its bus, too"),
        ("doctor my-track --verify", "compare all with the journal"),
        ("doctor my-track --repair", "mend a damaged bus"),
    )
)
@optional_track_argument
@click.option("--verify", is_flag=True, help="Also read the whole journal and compare all that follows from it.")
@click.option("--repair", is_flag=True, help="Save what can be saved of a damaged bus; says what was lost.")
@json_option("One JSON object.")
@bus_dir_option
def doctor(track: str | None, verify: bool, repair: bool, as_json: bool, bus_dir: str | None) -> int:
    """Look at this machine and, with TRACK, at its file system and its bus. Only --repair changes anything."""
    if track is None and (verify or repair or bus_dir is not None):
        raise click.UsageError("--verify, --repair and --bus-dir are about a track: name it")
    place = resolve(track, bus_dir) if track is not None else None
    with orderly():  # what is made to try a file system is removed, also where TERM cuts that short
        return show(_findings(place, verify=verify, repair=repair), place, as_json=as_json)


def _findings(place: Track | None, *, verify: bool, repair: bool) -> Iterator[Finding]:
    if place is None:
        from conductor.cli.examine.machine import machine

        return machine()
    if repair:
        from conductor.cli.examine.mend import mend

        return mend(place)
    from conductor.cli.examine.tour import tour

    return tour(place, verify=verify)


def show(findings: Iterable[Finding], track: Track | None, *, as_json: bool) -> int:
    """Print findings as they come, what is odd at the end, where it is seen; return the exit code."""
    colour = wants_colour(sys.stdout)
    seen = []
    for found in findings:
        if track:
            hint = spoken(found.hint, track.label, track.bus_dir) if found.hint else None
            found = replace(found, text=spoken(found.text, track.label, track.bus_dir), hint=hint)
        seen.append(found)
        if not as_json and found.level == "ok":
            out(as_text(found, colour=colour))
    problems = sum(found.level == "problem" for found in seen)
    if as_json:
        print_json({"findings": [found.as_data() for found in seen], "problems": problems})
    else:
        out(f"\n{closing(seen, colour=colour)}")
    return Exit.BUS if problems else Exit.OK


def closing(found: Sequence[Finding], *, colour: bool) -> str:
    """Sum up: the problems, then the notes, each once."""
    problems, notes = ([one for one in found if one.level == level] for level in ("problem", "note"))
    if not problems and not notes:
        return "no problem"
    head = f"{plural(len(problems), 'problem') if problems else 'no problem'}, {plural(len(notes), 'note')}"
    return "\n".join([f"{head}:", *(as_text(one, colour=colour) for one in (*problems, *notes))])


def as_text(found: Finding, *, colour: bool) -> str:
    """Return `LEVEL  CODE  text`, the details below it, and what to do next."""
    head = paint(found.level.ljust(7), STYLE[found.level], colour=colour)
    lines = [f"{head}  {found.code.ljust(20)}  {shortened(found.text)}"]
    lines += [f"{'':11}{shortened(detail)}" for detail in found.details[:MOST]]
    if len(found.details) > MOST:
        lines.append(f"{'':11}… and {len(found.details) - MOST} more (--json has all)")
    if found.hint:
        lines.append(f"{'':9}→ {shortened(found.hint)}")
    return "\n".join(lines)
