"""`conductor why`: why a task is where it is, and what happened to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from bus import layout
from bus.wire import Record
from conductor.cli.escape import one_line, short_lines, shortened
from conductor.cli.events import record_line
from conductor.cli.load import OPEN_STATES, Loaded, check_planned, load, open_track, stream_of, tail_of
from conductor.cli.log_loss import loss_of
from conductor.cli.options import bus_dir_option, examples, json_option, task_argument, track_argument
from conductor.cli.output import STATUS_GLYPH, STATUS_STYLE, out, paint, print_json, wants_colour
from conductor.cli.seen import as_seen, seen_task
from conductor.cli.signs import beat_of, signs_text
from conductor.cli.supervised import ways_on
from conductor.cli.track import Track, resolve
from conductor.cli.view_data import task_data
from conductor.core import why as core
from conductor.core.view import TaskView
from conductor.core.wording import person, plural, sentence

TAIL_LINES = 12

MOST = 40
"""Records that are shown to people, the newest; `--json` has all."""


@click.command(epilog=examples(("why my-track 1.2", "")))
@track_argument
@task_argument
@json_option("One JSON object: the task as in `status --json`, its dependencies and its records.")
@bus_dir_option
def why(track: str, task: str, as_json: bool, bus_dir: str | None) -> int:
    """Say why TASK is where it is, what happened to it, and what to do."""
    place = resolve(track, bus_dir)
    reader = open_track(place)
    loaded = load(reader) if reader else None
    if reader is None or loaded is None or loaded.view.id is None:
        return _never_run(place, task, loaded, as_json=as_json)
    view = loaded.task(place, task)
    # How it stands follows from a snapshot and what came behind it. What happened to it stands in the journal alone,
    # from its first record on, so that is gone through as a whole, and only what is about this task is decoded.
    records = list(reader.records_of(task))
    if as_json:
        print_json(as_data(loaded, view, records))
    else:
        out(as_text(place, loaded, view, records, colour=wants_colour(sys.stdout)))
    return 0


def _never_run(track: Track, task: str, loaded: Loaded | None, *, as_json: bool) -> int:
    check_planned(track, task)
    if as_json:
        print_json(
            {"task": None, "state": "never_run", "depends_on": [], "why": [], "signs": None, "tail": "", "records": []}
        )
    else:
        out(f"{_no_run(track, task, loaded)}. Start it: {track.command('run')}")
    return 0


def _no_run(track: Track, task: str, loaded: Loaded | None) -> str:
    if loaded is None or not (loaded.journal_lost or loaded.view.reset_at):
        cause = "the track was never run" if loaded else track.no_bus()
        return f"{cause}, so nothing happened to task {one_line(task)}"
    if loaded.journal_lost:
        return f"{loaded.no_run()}: what happened to task {one_line(task)} is not known"
    before = track.command("events", options=["--task", task])
    return f"everything was {loaded.no_run()}, and no run has begun since. What happened before: `{before}`"


def as_data(loaded: Loaded, task: TaskView, records: Sequence[Record]) -> dict[str, Any]:
    """Return the object of `why --json`."""
    statuses = {other.id: other.status for other in loaded.view.tasks}
    return {
        "task": task_data(task, loaded.reader),
        "state": loaded.view.state,
        "depends_on": [{"id": need, "status": statuses[need]} for need in task.depends_on],
        "why": reasons(loaded, task),
        "signs": beat_of(loaded.reader, task.worker),
        "tail": tail_of(loaded.reader, task),
        "records": [
            {"seq": r.seq, "type": r.type, "timestamp": r.timestamp, "attempt": r.attempt, "payload": r.payload}
            for r in records
        ],
    }


def as_text(track: Track, loaded: Loaded, task: TaskView, records: Sequence[Record], *, colour: bool) -> str:
    """Return the page that people read."""
    status = seen_task(task, loaded.reader).status
    head = paint(f"{STATUS_GLYPH[status]} {status}", STATUS_STYLE[status], colour=colour)
    parts = [f"{head}  {one_line(task.id)} {shortened(task.name) if task.name != task.id else ''}".rstrip()]
    parts += [f"  {shortened(line)}" for line in reasons(loaded, task)]
    if task.to_do and task.status != "done":
        parts += ["", "What the plan says:", *(f"  {line}" for line in short_lines(task.to_do).splitlines())]
    tail = tail_of(loaded.reader, task)
    if (task.status != "done" or loss_of(loaded.reader, task.attempt)) and tail.strip():
        whole = f"all it printed: `{track.command('logs', task.id)}`"
        parts += ["", f"The end of its {stream_of(loaded.reader, task)} ({whole}):"]
        parts += [f"  {line}" for line in short_lines(tail).rstrip().splitlines()[-TAIL_LINES:]]
    if records:
        earlier = len(records) - MOST
        all_of_it = track.command("events", options=["--task", task.id])
        parts += ["", "What happened:"]
        parts += [f"  … {plural(earlier, 'record')} before these: `{all_of_it}`"] if earlier > 0 else []
        parts += [f"  {record_line(record, colour=colour, width=None)}" for record in records[-MOST:]]
    return "\n".join([*parts, *_next(track, loaded, task)])


def reasons(loaded: Loaded, task: TaskView) -> list[str]:
    """Say in sentences why the task has its status: what the picture tells, and whether anybody is there."""
    found = core.why(as_seen(loaded.view, loaded.reader), task.id, time.time())
    if (ordered := loaded.state.tasks[task.id].ordered) and ordered[1]:
        then = "the conductor carries it out" if loaded.holder else "the next run goes on with it"
        found.append(f"`{ordered[0]}` is ordered by {person(ordered[1])}; {then}.")
    if beat := beat_of(loaded.reader, task.worker):
        found += [text] if (text := signs_text(beat)) else []
    if loss := loss_of(loaded.reader, task.attempt):
        found.append(f"{sentence(loss.text)}.")
    if loaded.view.state == "interrupted" and task.status in core.OPEN:
        found.append("The conductor is gone before the run ended.")
    return found


def _next(track: Track, loaded: Loaded, task: TaskView) -> list[str]:
    found = ways_on(track, task, loaded.state)
    if task.ran:
        found.append(f"Output:   {track.command('logs', task.id)}")
    if task.attempt is not None:
        found.append(f"Files:    {track.bus / layout.attempt_dir(task.attempt)}/")
    if task.status == "blocked":
        found.append(f"Why:      {track.command('why', task.blocked_by[0])}")
    if task.status != "done" and loaded.view.state not in OPEN_STATES:
        found.append(f"Go on:    {track.command('run')}")
    return ["", *found] if found else []
