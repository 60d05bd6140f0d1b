"""Why a running attempt is to be stopped, read from the state alone. Who stands first in the list wins."""

from __future__ import annotations

from bus.wire import TaskId
from conductor.core.awaited import needs_itself, waits_in_vain
from conductor.core.ends import expired_group
from conductor.core.giving_up import WAITS_FOR_PEOPLE
from conductor.core.liveness import QUIET, STUCK
from conductor.core.policy import OVERRIDING, STOPPED
from conductor.core.state import ALIVE, State, Task
from conductor.core.task import Running
from conductor.core.waits import DEADLOCK_VICTIM, HUNG, STALE_TOKEN, Deadlock
from conductor.core.wording import few, person

TIMEOUT = "timeout"

CANCELLED = "cancelled"


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
    if task.ordered and task.ordered[0] == "cancel":
        return CANCELLED
    if deadlock_of(state, task) is not None:
        return DEADLOCK_VICTIM
    if task.life is not None and task.life.life == QUIET and task.spec.stale_after:
        return HUNG
    if task.life is not None and task.life.life == STUCK and task.life.evidence.get("overdue") is True:
        return TIMEOUT
    if expired_group(state, task) is not None:
        return TIMEOUT
    return STOPPED if _run_wants_it_ended(state, task) else None


def _run_wants_it_ended(state: State, task: Task) -> bool:
    """Whoever waits in a run that was told not to wait for people waits for one, near or far."""
    run = state.run
    if run is None or run.stopping:
        return run is not None
    if run.heard and waits_in_vain(state, run, task):
        return True
    return run.gave_up == WAITS_FOR_PEOPLE and any(wait.attempt == task.attempt for wait in state.waits.values())


def deadlock_of(state: State, task: Task) -> Deadlock | None:
    """Return the deadlock whose victim is the task's newest attempt."""
    return next((one for one in state.deadlocks.values() if one.victim == task.attempt), None)


def ended_victim(state: State) -> Deadlock | None:
    """Return a deadlock whose victim has ended; None where there is none."""
    for one in state.deadlocks.values():
        task = state.tasks[one.victim_task]
        if task.attempt != one.victim or not isinstance(task.status, ALIVE):
            return one
    return None


def because(state: State, task: Task, reason: str) -> str:
    """Say why an attempt was stopped, where there is more to say than the reason itself."""
    if reason == STALE_TOKEN:
        return "a lock was taken from it by force"
    life = task.life
    if reason == HUNG:
        return f"it hung, with {life.detail}" if life and life.life == QUIET else "it hung"
    if reason == DEADLOCK_VICTIM and (deadlock := deadlock_of(state, task)):
        others = [TaskId(one["task"]) for one in deadlock.members if one["task"] != task.id]
        return f"to end a deadlock with {few(others)}" if others else _alone(state, task, deadlock)
    if reason == TIMEOUT and (group := expired_group(state, task)):
        return f"its group {group} has run out of time"
    if reason == TIMEOUT and life and life.life == STUCK:
        return f"it had longer than its time limit, and {life.detail}"
    if reason == CANCELLED and task.ordered:
        return f"cancelled by {person(task.ordered[1])}"
    run = state.run
    if reason == STOPPED and run is not None and not run.stopping and waits_in_vain(state, run, task):
        return "it waited for a task that is not started any more"
    return "" if reason == STOPPED else reason


def _alone(state: State, task: Task, deadlock: Deadlock) -> str:
    """Say for what a victim waited that stood in nobody else's way."""
    if in_vain := needs_itself(state, task):
        others = [id for id in in_vain if id != task.id]
        needs = f"{few(others)}, which {'need' if len(others) > 1 else 'needs'} {task.id}"
        return f"it waited for {needs if others else 'itself'}"
    waits = [wait for one in deadlock.members if one["task"] == task.id for wait in one["waits_for"]]
    names = dict.fromkeys(str(wait["what"]) for wait in waits if wait["kind"] != "pool")
    lacking = any(wait["kind"] == "pool" for wait in waits)
    return f"it waited for {few(list(names))}, {'for which no worker was free' if lacking else 'which could not come'}"
