"""`conductor status`: how a track stands, task by task."""

from __future__ import annotations

import sys
import time

import click

from conductor.cli import supervised
from conductor.cli.escape import one_line, shortened
from conductor.cli.failure import as_text as as_error
from conductor.cli.failure import describe
from conductor.cli.load import OPEN_STATES, Loaded, load, never_run, open_track
from conductor.cli.notices import Notices, lines_of, notices_of
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.output import (
    STATUS_GLYPH,
    STATUS_STYLE,
    counts_line,
    is_terminal,
    out,
    paint,
    print_json,
    table,
    terminal_width,
    wants_colour,
)
from conductor.cli.rows import rows_of
from conductor.cli.seen import as_seen
from conductor.cli.track import Track, resolve
from conductor.cli.view_data import never_run_data, status_data
from conductor.core.reasons import gave_up_line
from conductor.core.view import RunView
from conductor.core.why import SINCE, gave_up_text, state_text
from conductor.core.wording import duration, person, plural, sentence


@click.command(
    epilog=examples(("status my-track", "how it stands now"), ("status my-track --watch", "look on until it ends"))
)
@track_argument
@click.option("--watch", is_flag=True, help="Look on until the run ends (on a terminal).")
@json_option("One JSON object.")
@bus_dir_option
def status(track: str, watch: bool, as_json: bool, bus_dir: str | None) -> int:
    """Show how TRACK stands, task by task."""
    place = resolve(track, bus_dir)
    if watch and as_json:
        raise click.UsageError("--watch is for people; scripts follow `conductor events -f --json`")
    reader = open_track(place)
    if reader is None:
        _never_run(place, None, Notices(), as_json=as_json)
        return 0
    loaded = load(reader)
    if watch and is_terminal(sys.stdout) and loaded.view.id is not None:
        from conductor.cli.watching import watch_run

        watch_run(place, loaded)
        return 0
    notices = notices_of(reader, loaded)
    if loaded.view.id is None:
        _never_run(place, loaded, notices, as_json=as_json)
    elif as_json:
        print_json({**status_data(place, loaded), **notices.as_data()})
    else:
        out(as_text(place, loaded, notices, time.time(), colour=wants_colour(sys.stdout)))
    return 0


def _never_run(track: Track, loaded: Loaded | None, notices: Notices, *, as_json: bool) -> None:
    view, error = never_run(track)
    colour = wants_colour(sys.stdout)
    head = paint(loaded.no_run() if loaded else "never run", "bold", colour=colour)
    failure = describe(error) if error else None
    if as_json:
        print_json({**never_run_data(track, view, loaded, failure), **notices.as_data()})
        return
    if failure:
        page, then = f"{head}, and its plan cannot be run:\n\n{as_error(failure)}", f"Check it: {track.command('plan')}"
    else:
        page = f"{head}: {counts_line(view.counts, colour=colour)}\n\n{_listing(view, time.time(), colour=colour)}"
        then = f"Start it: {track.command('run')}"
        if loaded and loaded.journal_lost:
            then = f"Which tasks are done again: {track.command('doctor', options=['--repair'])}\n{then}"
    no_bus = "" if loaded else f"{sentence(track.no_bus())}.\n"
    odd = "".join(f"{line}\n" for line in lines_of(track, notices))
    out(f"{page}\n\n{odd}{no_bus}{then}")


def as_text(track: Track, loaded: Loaded, notices: Notices, now: float, *, colour: bool) -> str:
    """Return the page that people read; `now` is the wall clock."""
    view = as_seen(loaded.view, loaded.reader)
    head = _head(loaded, view, now, colour=colour)
    return "\n".join([head, "", _listing(view, now, colour=colour), *_foot(track, loaded, notices)])


def _listing(view: RunView, now: float, *, colour: bool) -> str:
    rows = rows_of(view, now)
    cells = [
        [
            f"{STATUS_GLYPH[row.status]} {row.status}",
            row.id,
            f"#{row.attempt}" if row.attempt > 1 else "",
            duration(row.elapsed) if row.elapsed is not None else "",
            f"{row.name}  ({row.note})".lstrip() if row.note else row.name,
        ]
        for row in rows
    ]
    width = terminal_width() if is_terminal(sys.stdout) else None
    styles = [STATUS_STYLE[row.status] for row in rows]
    used = [column for column in range(len(cells[0])) if any(row[column] for row in cells)] if cells else []
    cells = [[row[column] for column in used] for row in cells]
    return table(cells, styles=styles, width=width, colour=colour)


def _head(loaded: Loaded, view: RunView, now: float, *, colour: bool) -> str:
    running = loaded.holder if view.state in OPEN_STATES else None
    who = f" by {person(view.paused_by)}" if view.paused_by else ""
    who += f"{', conductor' if who else ' by'} pid {running.pid} on {shortened(running.host, 255)}" if running else ""
    reason = ""
    if view.reason and view.reason != view.state:
        reason = f" ({shortened(gave_up_text(view.reason, view.options))})"
    elif view.gave_up and view.ended_at is None:
        reason = f" ({shortened(gave_up_line(view.gave_up, view.options))})"
    span = ""
    if view.started_at is not None:
        ended = view.ended_at
        span = f", {duration((now if ended is None else ended) - view.started_at)}{SINCE if view.resumed else ''}"
        if ended is not None:
            span += f", ended {time.strftime('%Y-%m-%d %H:%M', time.localtime(ended))}"
    state = paint(state_text(view.state), "bold", colour=colour)
    return f"{state}{reason}{who}{span}: {counts_line(view.counts, colour=colour)}"


def _foot(track: Track, loaded: Loaded, notices: Notices) -> list[str]:
    """What is odd, and what to type next, where there is something to do."""
    lines = ["", *lines_of(track, notices), *supervised.lines_of(track, loaded)]
    if loaded.not_ingested and loaded.holder is None:
        waiting = plural(loaded.not_ingested, "message")
        lines.append(f"{waiting} handed in and not recorded yet: the next run does it")
    if loaded.view.state == "interrupted":
        alive = len(loaded.alive())
        works = f"; {plural(alive, 'worker')} of it still {'works' if alive == 1 else 'work'}" if alive else ""
        lines.append(f"The conductor is gone before the run ended{works}.")
        lines += [f"Go on: {track.command('run')}", f"End it: {track.command('stop')}"]
    elif loaded.view.state in OPEN_STATES:
        lines += [f"Look on: {track.command('status', options=['--watch'])}", f"End it: {track.command('stop')}"]
    else:
        failed = next((task.id for task in loaded.view.tasks if task.status == "failed"), None)
        if failed is not None:
            lines.append(f"Why: {track.command('why', one_line(failed))}")
        if loaded.view.counts.get("done", 0) < len(loaded.view.tasks):
            lines.append(f"Go on: {track.command('run')}")
    return lines if len(lines) > 1 else []
