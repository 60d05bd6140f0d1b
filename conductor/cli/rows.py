"""From a run's view to the rows and totals of a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bus.contract import Reader
from bus.wire import TaskId
from conductor.cli.frame import Row, Totals
from conductor.cli.output import duration
from conductor.cli.phrases import reason, stopping_text
from conductor.cli.remaining import Work, remaining
from conductor.core.task import TaskSpec
from conductor.core.view import RunView, TaskView, WaitView
from conductor.plan import frozen


def rows_of(view: RunView, now: float) -> list[Row]:
    """Return a row for each task. `now` is the wall clock: ages are for people, nothing is decided by them."""
    return [_row(task, now) for task in view.tasks]


def _row(task: TaskView, now: float) -> Row:
    alive = task.worker is not None
    elapsed = max(now - task.started_at, 0.0) if alive and task.started_at is not None else task.seconds
    return Row(
        id=task.id,
        name=task.name,
        status=task.status,
        attempt=task.number,
        elapsed=elapsed,
        note=note_of(task, now),
        age=None if alive or task.ended_at is None else max(now - task.ended_at, 0.0),
    )


def note_of(task: TaskView, now: float) -> str:
    """Say what matters about a task now: progress, what it waits for, why it failed."""
    if task.stopping:
        return stopping_text(task.stopping)
    if task.waits_for:
        after = f" after {task.error.error_class}" if task.error else ""
        return waiting_text(task.waits_for[0], now) + (after if task.waits_for[0].kind == "backoff" else "")
    if task.status == "running":
        percent = f"{task.progress_pct:.0f} %" if task.progress_pct is not None else ""
        return " ".join(part for part in (percent, task.progress_text) if part)
    if task.status == "failed" and task.error:
        return error_text(task)
    if task.status == "blocked":
        return f"by {few(task.blocked_by)}"
    return task.reason or "" if task.status in ("skipped", "cancelled") else ""


def error_text(task: TaskView) -> str:
    """Say why a task failed: its class and, where that says more, the message."""
    return reason(task.error.error_class, task.error.message) if task.error else ""


def waiting_text(wait: WaitView, now: float) -> str:
    """Say what a task waits for."""
    if wait.kind == "backoff":
        return f"{wait.what} in {duration(wait.until - now)}" if wait.until is not None else wait.what
    if wait.kind == "group":
        return f"for a place in group {wait.what}"
    holder = f", in use by {wait.holder}" if wait.holder else ""
    return f"for {wait.what}{holder}"


def few(names: Sequence[str], most: int = 4) -> str:
    """List some names: `1, 2, 3, 4 and 7 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def totals_of(view: RunView, now: float, left: float | None) -> Totals:
    """Return the whole in numbers; `now` is the wall clock, `left` the expected seconds to the end."""
    end = now if view.ended_at is None else view.ended_at
    return Totals(
        counts=view.counts,
        elapsed=max(end - view.started_at, 0.0) if view.started_at is not None else 0.0,
        remaining=left,
        workers=sum(1 for task in view.tasks if task.worker is not None),
        max_workers=view.options.max_workers if view.options else 0,
        state=view.state,
    )


MOST_TASKS = 5000
"""Tasks up to which a plan's own estimates are used; reading a larger plan again would take too long."""


class Estimator:
    """Guesses the time that is left; makes a new guess when the work that is done changed, and counts down between."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._plan: str | None = None
        self._specs: Mapping[TaskId, TaskSpec] = {}
        self._basis: object = None
        self._guess: float | None = None
        self._at = 0.0

    def left(self, view: RunView, now: float) -> float | None:
        """Return the expected seconds to the end; None where nothing tells, or where the run will leave work undone."""
        if view.state != "running":
            return None
        basis = (view.id, *view.counts.values())
        if basis != self._basis:
            self._learn(view)
            workers = view.options.max_workers if view.options else 1
            self._basis, self._at = basis, now
            self._guess = remaining([self._work(task, now) for task in view.tasks], workers)
        return None if self._guess is None else max(self._guess - (now - self._at), 0.0)

    def _learn(self, view: RunView) -> None:
        """Read the estimates and dependencies of a plan that is new to us."""
        if view.plan_sha is None or view.plan_sha == self._plan:
            return
        self._plan, self._specs = view.plan_sha, {}
        if len(view.tasks) <= MOST_TASKS:
            plan = frozen.parse(self._reader.load_plan(view.plan_sha))
            self._specs = {task.id: task for task in plan.tasks}

    def _work(self, task: TaskView, now: float) -> Work:
        spec = self._specs.get(task.id)
        running = task.worker is not None and task.started_at is not None
        spent = max(now - (task.started_at or now), 0.0) if running else task.seconds or 0.0
        status = "running" if running else task.status
        return Work(task.id, spec.depends_on if spec else (), spec.estimate if spec else None, status, spent)
