"""The JSON of `status` and of a run's result: shapes that scripts read."""

from __future__ import annotations

from typing import Any

from bus.contract import Reader
from bus.times import utc
from conductor.cli.failure import Failure, as_data
from conductor.cli.load import Loaded
from conductor.cli.supervised import supervised_data
from conductor.cli.track import Track
from conductor.core.state import State
from conductor.core.view import RunView, TaskView, WaitView


def status_data(track: Track, loaded: Loaded) -> dict[str, Any]:
    """Return the object of `status --json` for a track that was run."""
    view, holder = loaded.view, loaded.holder
    run = {
        "id": view.id,
        "state": view.state,
        "epoch": loaded.epoch,
        "conductor": {"pid": holder.pid, "host": holder.host} if holder else None,
        "durability": view.options.durability if view.options else None,
        "started_at": _time(view.started_at),
        "ended_at": _time(view.ended_at),
        "reason": view.reason or view.gave_up,
        "paused_by": view.paused_by,
        "not_ingested": loaded.not_ingested,
        "reset_at": None,
        "journal_lost": False,
    }
    return _status(track, run, view, loaded)


def never_run_data(track: Track, view: RunView, loaded: Loaded | None, failure: Failure | None) -> dict[str, Any]:
    """Return the object of `status --json` for a track without a run; `failure` is what is wrong with its plan.

    `loaded` is its bus, where there is one.
    """
    run = dict(_NO_RUN)
    if loaded:
        lost, reset_at = loaded.journal_lost, _time(loaded.view.reset_at)
        run |= {"not_ingested": loaded.not_ingested, "journal_lost": lost, "reset_at": reset_at}
    data = _status(track, run, view, loaded)
    return {**data, "plan_error": as_data(failure) if failure else None}


_NO_RUN: dict[str, Any] = {
    "id": None,
    "state": "never_run",
    "epoch": 0,
    "conductor": None,
    "durability": None,
    "started_at": None,
    "ended_at": None,
    "reason": None,
    "paused_by": None,
    "not_ingested": 0,
    "reset_at": None,
    "journal_lost": False,
}


def _status(track: Track, run: dict[str, Any], view: RunView, loaded: Loaded | None) -> dict[str, Any]:
    return {
        "track": str(track.dir),
        "bus": {"path": str(track.bus), "exists": loaded is not None},
        "project": view.project,
        "run": run,
        "counts": dict(view.counts),
        "tasks": [task_data(task, loaded.reader if loaded else None) for task in view.tasks],
        "plan_error": None,
        **supervised_data(loaded.state if loaded else State()),
    }


def task_data(task: TaskView, reader: Reader | None) -> dict[str, Any]:
    """Return one entry of `tasks`. `worker` is the newest attempt; whether it lives is asked only while it may."""
    alive = reader.is_live(task.worker) if reader and task.worker else False if task.attempt else None
    return {
        "id": task.id,
        "name": task.name,
        "status": task.status,
        "attempts": task.attempts,
        "worker": task.attempt,
        "alive": alive,
        "started_at": _time(task.started_at),
        "ended_at": _time(task.ended_at),
        "exit": {"code": task.exit.get("code"), "signal": task.exit.get("signal")} if task.exit else None,
        "error": {"class": task.error.error_class, "message": task.error.message} if task.error else None,
        "blocked_by": list(task.blocked_by),
        "waits_for": [_wait(wait) for wait in task.waits_for],
        "ordered": {"verb": task.ordered[0], "who": task.ordered[1]} if task.ordered else None,
        "life": _life(task),
        "reason": task.reason,
        "progress_pct": task.progress_pct,
        "progress_text": task.progress_text,
        "usage": dict(task.usage) if task.usage else None,
        "commit": task.commit,
        "evidence": dict(task.evidence) if task.evidence else None,
    }


def _wait(wait: WaitView) -> dict[str, Any]:
    return {"kind": wait.kind, "what": wait.what, "holder": wait.holder, "until": _time(wait.until)}


def _life(task: TaskView) -> dict[str, Any] | None:
    """What is known of the life of an attempt that has a slot; until something else was seen, it works."""
    if task.worker is None:
        return None
    if task.life is None:
        return {"state": "working", "detail": "", "since": None}
    return {"state": task.life.life, "detail": task.life.detail, "since": _time(task.life.since)}


def _time(wall: float | None) -> str | None:
    return None if wall is None else utc(wall)
