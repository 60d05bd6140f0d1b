"""Why a running attempt is to be stopped, read from the state alone. Who stands first in the list wins."""

from __future__ import annotations

from bus.wire import TaskId
from conductor.core.liveness import QUIET, STUCK
from conductor.core.policy import OVERRIDING, STOPPED
from conductor.core.state import State, Task
from conductor.core.task import Running
from conductor.core.waits import DEADLOCK_VICTIM, HUNG, STALE_TOKEN, Deadlock
from conductor.core.wording import few

TIMEOUT = "timeout"


def due(state: State, task: Task) -> str | None:
    """Return the reason of the STOP that is due for a task; None where none is.

    A stop that is under way is replaced only by one whose reason makes the attempt's work count for nothing.
    """
    status = task.status
    if not isinstance(status, Running):
        return None
    found = _reason(state, task, status)
    if status.stopping is None or (found in OVERRIDING and status.stopping not in OVERRIDING):
        return found
    return None


def _reason(state: State, task: Task, status: Running) -> str | None:
    if task.stale:
        return STALE_TOKEN
    if deadlock_of(state, task) is not None:
        return DEADLOCK_VICTIM
    if task.life is not None and task.life.life == QUIET and task.spec.stale_after:
        return HUNG
    if task.life is not None and task.life.life == STUCK and task.life.evidence.get("overdue") is True:
        return TIMEOUT
    return STOPPED if state.run is not None and state.run.stopping else None


def deadlock_of(state: State, task: Task) -> Deadlock | None:
    """Return the deadlock whose victim is the task's newest attempt."""
    return next((one for one in state.deadlocks.values() if one.victim == task.attempt), None)


def because(state: State, task: Task, reason: str) -> str:
    """Say why an attempt was stopped, where there is more to say than the reason itself."""
    if reason == STALE_TOKEN:
        return "a lock was taken from it by force"
    if reason == HUNG and task.life is not None:
        return f"it hung, with {task.life.detail}"
    if reason == DEADLOCK_VICTIM and (deadlock := deadlock_of(state, task)):
        others = [TaskId(one["task"]) for one in deadlock.members if one["task"] != task.id]
        return f"to end a deadlock with {few(others)}" if others else "it waited for what could not come"
    return "" if reason == STOPPED else reason
