"""`conductor why`: why a task is where it is, and what happened to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from bus import layout
from bus.errors import BusError
from conductor.cli.escape import lines, one_line
from conductor.cli.events import record_line
from conductor.cli.load import Loaded, load, open_track
from conductor.cli.options import bus_dir_option, json_option, task_argument, track_argument
from conductor.cli.output import STATUS_GLYPH, STATUS_STYLE, duration, out, paint, plural, print_json, wants_colour
from conductor.cli.phrases import ending, stopping_text
from conductor.cli.rows import error_text, few, waiting_text
from conductor.cli.track import Track, resolve
from conductor.cli.view_data import task_data
from conductor.core.view import TaskView
from conductor.errors import ConductorError

TAIL_LINES = 12


@click.command()
@track_argument
@task_argument
@json_option("One JSON object: the task as in `status --json`, its dependencies and its records.")
@bus_dir_option
def why(track: str, task: str, as_json: bool, bus_dir: str | None) -> int:
    """Say why TASK is where it is, what happened to it, and what to do."""
    place = resolve(track, bus_dir)
    reader = open_track(place)
    loaded = load(reader, task=task) if reader else None
    if loaded is None or loaded.view.id is None:
        return _never_run(place, task, as_json=as_json)
    view = loaded.task(place, task)
    if as_json:
        print_json(as_data(loaded, view))
    else:
        out(as_text(place, loaded, view, colour=wants_colour(sys.stdout)))
    return 0


def _never_run(track: Track, task: str, *, as_json: bool) -> int:
    if as_json:
        print_json({"task": None, "state": "never_run", "depends_on": [], "tail": "", "records": []})
    else:
        out(f"the track was never run, so nothing happened to task {one_line(task)}. Start it: {track.command('run')}")
    return 0


def as_data(loaded: Loaded, task: TaskView) -> dict[str, Any]:
    """Return the object of `why --json`."""
    statuses: dict[str, str] = {other.id: other.status for other in loaded.view.tasks}
    return {
        "task": task_data(task, loaded.reader),
        "state": loaded.state,
        "depends_on": [{"id": need, "status": statuses.get(need)} for need in _needs(loaded, task)],
        "tail": _tail(loaded, task),
        "records": [
            {"seq": r.seq, "type": r.type, "timestamp": r.timestamp, "attempt": r.attempt, "payload": r.payload}
            for r in loaded.records
        ],
    }


def as_text(track: Track, loaded: Loaded, task: TaskView, *, colour: bool) -> str:
    """Return the page that people read."""
    head = paint(f"{STATUS_GLYPH[task.status]} {task.status}", STATUS_STYLE[task.status], colour=colour)
    parts = [f"{head}  {one_line(task.id)} {one_line(task.name)}", *(f"  {line}" for line in reasons(loaded, task))]
    tail = _tail(loaded, task)
    if task.status != "done" and tail.strip():
        parts += ["", "The end of what it printed:"]
        parts += [f"  {line}" for line in lines(tail).rstrip().splitlines()[-TAIL_LINES:]]
    if loaded.records:
        parts += ["", "What happened:"]
        parts += [f"  {record_line(record, colour=colour, width=None)}" for record in loaded.records]
    return "\n".join([*parts, *_next(track, loaded, task)])


def reasons(loaded: Loaded, task: TaskView) -> list[str]:
    """Say in sentences why the task has its status."""
    found = []
    if task.worker is not None:
        found.append(_running(loaded, task))
    for wait in task.waits_for:
        verb = "Tries again:" if wait.kind == "backoff" else "Waits"
        found.append(f"{verb} {waiting_text(wait, time.time())}.")
    if task.status == "pending":
        statuses: dict[str, str] = {other.id: other.status for other in loaded.view.tasks}
        open_needs = [f"{need} ({statuses.get(need)})" for need in _needs(loaded, task) if statuses.get(need) != "done"]
        found.append(f"Depends on {few(open_needs, 10)}.")
    elif task.status == "ready":
        found.append("All it depends on is done; it waits for a free worker.")
    elif task.status == "blocked":
        found += [f"Blocked by {line}" for line in _causes(loaded, task)]
    elif task.status in ("skipped", "cancelled") and task.reason:
        found.append(f"{task.status.capitalize()}: {task.reason}.")
    if task.error is not None:
        found.append(f"Attempt {task.number} failed: {error_text(task)}{_ending(task)}.")
    elif task.status == "done":
        tries = f" in {plural(task.attempts, 'attempt')}" if task.attempts > 1 else ""
        took = f" after {duration(task.seconds)}" if task.seconds is not None else ""
        found.append(f"Done{took}{tries}{f', commit {task.commit}' if task.commit else ''}.")
    return [one_line(line) for line in [*found, *_evidence(task.evidence)]]


def _running(loaded: Loaded, task: TaskView) -> str:
    assert task.worker is not None
    if not loaded.reader.is_live(task.worker):
        return f"Attempt {task.number} has no living worker; a conductor will find out what became of it."
    since = f" for {duration(time.time() - task.started_at)}" if task.started_at is not None else ""
    stopping = f", {stopping_text(task.stopping)}" if task.stopping else ""
    progress = f", at {task.progress_pct:.0f} %" if task.progress_pct is not None else ""
    text = f": {task.progress_text}" if task.progress_text else ""
    return f"Attempt {task.number} runs{since}{stopping}{progress}{text}."


def _causes(loaded: Loaded, task: TaskView) -> list[str]:
    views = {other.id: other for other in loaded.view.tasks}
    found = []
    for id in task.blocked_by:
        cause = views[id]
        text = f": {error_text(cause)}" if cause.error else ""
        found.append(f"{id} {cause.name} ({cause.status}{text}).")
    return found


def _ending(task: TaskView) -> str:
    how = ending(task.exit)
    return f" ({how})" if how and task.error is not None and how not in task.error.message else ""


def _evidence(evidence: Mapping[str, Any] | None) -> list[str]:
    """Name what spoke against the attempt: verify commands that failed, outputs that are missing."""
    if not evidence:
        return []
    found = []
    for step in evidence.get("verify") or ():
        if how := ending(step):
            argv = " ".join(str(word) for word in step.get("argv", ()))
            if how != "exit 0":
                found.append(f"Verify failed: {argv} ({how}).")
    found += [f"Missing output: {o.get('path')}." for o in evidence.get("outputs") or () if not o.get("exists", True)]
    return found


def _needs(loaded: Loaded, task: TaskView) -> tuple[str, ...]:
    specs = loaded.plan.tasks if loaded.plan else ()
    return next((spec.depends_on for spec in specs if spec.id == task.id), ())


def _tail(loaded: Loaded, task: TaskView) -> str:
    if task.attempt is None:
        return ""
    try:
        exit = loaded.reader.read_exit(task.attempt)
    except (BusError, ConductorError):
        return ""
    return exit.tail if exit else ""


def _next(track: Track, loaded: Loaded, task: TaskView) -> list[str]:
    found = []
    if task.attempt is not None:
        found.append(f"Output:   {track.command('logs', task.id)}")
        found.append(f"Files:    {track.bus / layout.attempt_dir(task.attempt)}/")
    if task.status == "blocked":
        found.append(f"Why:      {track.command('why', task.blocked_by[0])}")
    if task.status in ("failed", "blocked", "skipped", "cancelled") or loaded.state == "interrupted":
        found.append(f"Go on:    {track.command('run')}")
    return ["", *found] if found else []
