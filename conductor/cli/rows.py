"""From a run's view to the rows and totals of a screen."""

from __future__ import annotations

from collections.abc import Mapping

from bus.wire import TaskId
from conductor.cli.escape import LONG
from conductor.cli.frame import Row, Totals
from conductor.cli.remaining import Work, remaining
from conductor.core.liveness import WORKING
from conductor.core.view import RunView, TaskView
from conductor.core.why import error_text, gave_up_text, stopping_text, waiting_text
from conductor.core.wording import few, person, plural

PEOPLE = frozenset({"approval", "manual", "answer"})
"""Kinds of waits that end when a person says so."""

NOT_STARTED = "not started: the run gave up"
"""What is said of a task that could start, did the run not leave it."""

Tasks = Mapping[TaskId, TaskView]


def rows_of(view: RunView, now: float) -> list[Row]:
    """Return a row for each task. `now` is the wall clock: ages are for people, nothing is decided by them."""
    tasks = {task.id: task for task in view.tasks}
    workers = view.options.max_workers if view.options else 0
    full = view.state == "running" and sum(1 for task in view.tasks if task.worker is not None) >= workers > 0
    gave_up = view.gave_up is not None and view.ended_at is None
    ready = NOT_STARTED if gave_up else "for a free worker" if full else ""
    return [_row(task, tasks, now, ready) for task in view.tasks]


def _row(task: TaskView, tasks: Tasks, now: float, ready: str) -> Row:
    """`ready` is what is said of a task that could start, where there is nothing else to say."""
    alive = task.worker is not None
    elapsed = max(now - task.started_at, 0.0) if alive and task.started_at is not None else task.seconds
    return Row(
        id=task.id,
        name=task.name[:LONG] if task.name != task.id else "",
        status=task.status,
        attempt=task.number,
        elapsed=elapsed,
        note=(_note(task, tasks, now) or (ready if task.status == "ready" else ""))[:LONG],
        age=None if alive or task.ended_at is None else max(now - task.ended_at, 0.0),
    )


def _note(task: TaskView, tasks: Tasks, now: float) -> str:
    """Say what matters about a task now: progress, what it waits for, why it failed."""
    life = _life(task)
    if task.ordered and task.worker is None:
        return ordered_text(task.ordered)
    if task.stopping:
        return "; ".join(filter(None, (stopping_text(task.stopping), life)))
    if task.waits_for:
        return "; ".join(filter(None, (life, _wait(task, tasks, now))))
    if task.status == "running":
        percent = f"{task.progress_pct:.0f} %" if task.progress_pct is not None else ""
        before = f"again after: {error_text(task.last_error)}" if task.last_error else ""
        return "; ".join(filter(None, (life, " ".join(filter(None, (percent, task.progress_text))), before)))
    if task.status == "failed" and task.error:
        return error_text(task.error)
    if task.status == "blocked":
        return f"by {few(task.blocked_by)}"
    if task.status == "skipped":
        return skipped_text(task) + (f": {error_text(task.last_error)}" if task.last_error else "")
    return f"by {person(task.reason)}" if task.status == "cancelled" and task.reason else ""


def ordered_text(ordered: tuple[str, str, str]) -> str:
    """Say what an operator ordered of a task that no worker has: `approved by mary, the next run goes on with it`."""
    verb, who, _ = ordered
    return f"{_ORDERED.get(verb, verb)} by {person(who)}, the next run goes on with it"


_ORDERED: Mapping[str, str] = {
    "approve": "approved",
    "reject": "rejected",
    "complete": "said to be done",
    "fail": "said to have failed",
    "cancel": "cancelled",
}


def _life(task: TaskView) -> str:
    """Say what is seen of a running attempt, where it does not just work."""
    if task.life is None or task.life.life == WORKING:
        return ""
    return f"{task.life.life}: {task.life.detail}" if task.life.detail else task.life.life


def _wait(task: TaskView, tasks: Tasks, now: float) -> str:
    wait = task.waits_for[0]
    before = f"{error_text(task.error)}; " if task.error and wait.kind == "backoff" else ""
    tied = "in a deadlock, " if task.deadlock else ""
    first = f": {task.to_do.splitlines()[0]}" if task.to_do and wait.kind in ("manual", "approval") else ""
    return tied + before + waiting_text(wait, None if wait.holder is None else tasks.get(wait.holder), now) + first


def skipped_text(task: TaskView) -> str:
    """Say why a task has no end: it was tried before the run gave up, or was never begun."""
    if task.last_error and task.attempts:
        return f"given up after {plural(task.attempts, 'attempt')}"
    return gave_up_text(task.reason or "")


def totals_of(view: RunView, now: float, left: float | None, hint: str = "") -> Totals:
    """Return the whole in numbers; `now` is the wall clock, `left` the expected seconds to the end.

    `hint` is what can be done while the run drains.
    """
    end = now if view.ended_at is None else view.ended_at
    return Totals(
        counts=view.counts,
        elapsed=max(end - view.started_at, 0.0) if view.started_at is not None else 0.0,
        remaining=left,
        workers=sum(1 for task in view.tasks if task.worker is not None),
        max_workers=view.options.max_workers if view.options else 0,
        state=view.state,
        hint=_hint(view, hint),
    )


def _hint(view: RunView, draining: str) -> str:
    """Say what can be done in this state."""
    if view.state == "paused":
        return f"by {person(view.paused_by or '')}"
    if view.state == "running" and view.gave_up:
        return "gave up, nothing new is started"
    return draining if view.state == "draining" and not any(task.stopping for task in view.tasks) else ""


def seconds_left(view: RunView, now: float) -> float | None:
    """Return the expected seconds to the end; None where nothing tells, where people are waited for, or where the run
    will leave work undone."""
    if (
        view.state != "running"
        or view.gave_up
        or any(wait.kind in PEOPLE for task in view.tasks for wait in task.waits_for)
    ):
        return None
    return remaining([_work(task, now) for task in view.tasks], view.options.max_workers if view.options else 1)


def _work(task: TaskView, now: float) -> Work:
    running = task.worker is not None and task.started_at is not None
    spent = max(now - (task.started_at or now), 0.0) if running else task.seconds or 0.0
    return Work(task.id, task.depends_on, task.estimate, "running" if running else task.status, spent)
