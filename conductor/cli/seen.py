"""The picture of a run as it can be seen, where the journal is behind: an attempt that it calls running may have no
worker yet, as its launch is held back, or none any more, as its end is not recorded yet."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bus.contract import Reader
from bus.errors import BusError
from conductor.core.view import RunView, TaskView, WaitView

_STARTED = WaitView("launch", "its worker to be started")
_RECORDED = WaitView("record", "its end to be recorded")
_FOUND_OUT = WaitView("record", "a look at what became of its worker")


def as_seen(view: RunView, reader: Reader) -> RunView:
    """Return the picture for people: of `view`, no task runs whose worker does not live."""
    tasks = tuple(seen_task(task, reader) for task in view.tasks)
    if all(seen is task for seen, task in zip(tasks, view.tasks, strict=True)):
        return view
    changed = Counter(task.status for task in tasks)
    return replace(view, tasks=tasks, counts={word: changed[word] for word in view.counts})


def seen_task(task: TaskView, reader: Reader) -> TaskView:
    """Return one task of such a picture; the very same where the journal is not behind."""
    worker = task.worker
    if worker is None:
        return task
    try:
        if reader.is_live(worker):
            return task
        exit = reader.read_exit(worker)
        wait = _RECORDED if exit else _FOUND_OUT if reader.read_proc(worker) else _STARTED
    except (OSError, BusError):  # it cannot be told now
        return task
    seconds = exit.seconds if exit else None
    task = replace(task, status="waiting", worker=None, waits_for=(wait,), seconds=seconds)
    return replace(task, stopping=None, error=None, last_error=None)
