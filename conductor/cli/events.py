"""`conductor events`: the journal, one record a line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

import click

from bus.errors import BusGone
from bus.wire import Record, encode_record
from conductor.cli.escape import json_text, one_line, shortened
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.output import err, fit, is_terminal, out, pad, paint, terminal_width, wants_colour
from conductor.cli.phrases import phrase
from conductor.cli.polling import pause
from conductor.cli.track import resolve
from conductor.core.wording import few

TYPE_STYLE = {
    "TASK_COMPLETE": "green",
    "TASK_FAILED": "red",
    "TASK_BLOCKED": "yellow",
    "ATTEMPT_ENDED": "bold",
    "WORKER_DISPATCHED": "blue",
    "RUN_STARTED": "bold",
    "RUN_RESUMED": "bold",
    "RUN_ENDED": "bold",
    "PLAN_EDITED": "yellow",
    "FOREIGN_WRITE": "red",
    "QUARANTINED": "red",
    "CONTROL": "cyan",
}


@click.command(
    epilog=examples(
        ("events my-track --task 1.2", "what happened to a task"), ("events my-track -f --json", "for scripts")
    )
)
@track_argument
@click.option("-f", "--follow", is_flag=True, help="Go on with what is recorded from now on.")
@click.option("--type", "types", multiple=True, metavar="T", help="Only records of this type (may be given again).")
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Only records of this task (may be given again).")
@click.option("--since", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only records after this one.")
@json_option("One JSON object a line, as in the journal.")
@bus_dir_option
def events(
    track: str,
    follow: bool,
    types: tuple[str, ...],
    tasks: tuple[str, ...],
    since: int,
    as_json: bool,
    bus_dir: str | None,
) -> int:
    """Show the journal of TRACK, line by line."""
    from bus.reader import open_reader

    place = resolve(track, bus_dir)
    try:
        reader = open_reader(place.bus)
    except BusGone:
        if not place.bus.exists():
            err(f"there are no events: {place.no_bus()}. Start it: {place.command('run')}")
            return 0
        raise

    matched = False
    met: tuple[dict[str, None], dict[str, None]] = {}, {}

    def fresh() -> Iterable[Record]:
        nonlocal since, matched
        for record in reader.records(since):
            since = record.seq
            met[0][record.type] = None
            met[1][record.task or "-"] = None
            if (not types or record.type in types) and (not tasks or record.task in tasks):
                matched = True
                yield record

    print_records(fresh(), as_json=as_json)
    if not matched and (types or tasks):
        err(_no_match(types, tasks, *map(list, met)))
    while follow:
        sys.stdout.flush()
        pause(0.25)
        print_records(fresh(), as_json=as_json)
    return 0


def _no_match(types: Sequence[str], tasks: Sequence[str], seen: Sequence[str], seen_tasks: Sequence[str]) -> str:
    """Say that nothing was found, and what there is to be found."""
    there = []
    if types:
        there.append(f"types: {', '.join(sorted(seen)) or 'none'}")
    if tasks:
        there.append(f"tasks: {few([task for task in seen_tasks if task != '-'], 20) or 'none'}")
    return one_line(f"nothing matches. There are these {'; '.join(there)}")


def print_records(records: Iterable[Record], *, as_json: bool) -> None:
    """Print records: the journal's own lines, or columns for people."""
    if as_json:
        for record in records:
            sys.stdout.write(json_text(encode_record(record).decode()))
        return
    colour = wants_colour(sys.stdout)
    width = terminal_width() if is_terminal(sys.stdout) else None
    for record in records:
        out(record_line(record, colour=colour, width=width))


def record_line(record: Record, *, colour: bool, width: int | None) -> str:
    """Return `SEQ  TIME  TYPE  TASK  words` for one record, at most `width` columns wide (None: any)."""
    clock = time.strftime("%H:%M:%S", time.localtime(record.t.wall))
    # A task's id is as long as its author liked; only what fits the column is lined up.
    head = f"{record.seq:>5}  {clock}  "
    kind = pad(one_line(record.type), 17)
    rest = f"{pad(one_line(record.task or '-'), 8)}  {shortened(phrase(record))}".rstrip()
    if width is not None:
        rest = fit(rest, max(width - len(head) - len(kind) - 2, 20))
    style = TYPE_STYLE.get(record.type)
    return f"{paint(head, 'dim', colour=colour)}{paint(kind, style, colour=colour) if style else kind}  {rest}"
