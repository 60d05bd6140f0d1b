"""How the words about grants, waits, deadlocks and lives change the state.

Grants and waits stay in the state until their files are gone, also behind the end of their attempt; whoever asks what
stands in the way looks only at attempts that hold a slot.
"""

from __future__ import annotations

from bus.wire import TaskId
from conductor.core.changes import Moment, cell, current, ignore, tell
from conductor.core.state import State
from conductor.core.task import Running
from conductor.core.wait_events import (
    AttemptLife,
    DeadlockDetected,
    DeadlockResolved,
    GrantGone,
    GrantSeen,
    WaitBegan,
    WaitEnded,
)
from conductor.core.waits import Deadlock, Grant, Life, Wait, name_of


def grant_seen(state: State, event: GrantSeen, moment: Moment) -> None:
    """Note what an attempt holds."""
    if task := current(state, event.TYPE, event.task, event.attempt):
        state.grants[name_of(event.attempt, event.grant)] = Grant(
            event.grant, event.task, event.attempt, event.keys, event.shared, event.token, moment.wall
        )
        moment.listener.rewired()
        tell(task, event.TYPE, *event.keys[:3])


def grant_gone(state: State, event: GrantGone, moment: Moment) -> None:
    """Note that it is held no longer. What was taken by force makes all that its attempt achieves count for nothing."""
    if state.grants.pop(name_of(event.attempt, event.grant), None) is None:
        ignore(state, event.TYPE)
        return
    moment.listener.rewired()
    task = state.tasks.get(event.task)
    if task is not None and task.attempt == event.attempt and isinstance(task.status, Running):
        task.stale = task.stale or event.how == "taken"
        moment.listener.suspect(task)
        tell(task, event.TYPE, event.how)


def wait_began(state: State, event: WaitBegan, moment: Moment) -> None:
    """Note what an attempt waits for."""
    if task := current(state, event.TYPE, event.task, event.attempt):
        state.waits[name_of(event.attempt, event.wait)] = Wait(
            event.wait,
            event.task,
            event.attempt,
            event.kind,
            event.what,
            event.shared,
            event.ticket,
            event.text,
            moment.wall,
        )
        moment.listener.rewired()
        tell(task, event.TYPE, event.kind, *event.what[:3])


def wait_ended(state: State, event: WaitEnded, moment: Moment) -> None:
    """Note that it does not wait for it any more."""
    if state.waits.pop(name_of(event.attempt, event.wait), None) is None:
        ignore(state, event.TYPE)
        return
    moment.listener.rewired()


def life_judged(state: State, event: AttemptLife, moment: Moment) -> None:
    """Note what the evidence says of a running attempt."""
    if task := current(state, event.TYPE, event.task, event.attempt):
        task.life = Life(event.life, event.detail, event.evidence, moment.wall)
        moment.listener.suspect(task)
        tell(task, event.TYPE, event.life)


def deadlock_detected(state: State, event: DeadlockDetected, moment: Moment) -> None:
    """Note who waits for whom, and who is to be stopped for it. What it waited for is done before it tries again."""
    task = state.tasks[event.task]
    cell(task, event.TYPE)
    state.deadlocks[event.id] = Deadlock(event.id, event.victim, event.task, event.members, event.rule, moment.wall)
    waits = [wait for wait in state.waits.values() if wait.attempt == event.victim and wait.kind == "task"]
    if waits:
        state.wanted[task.id] = tuple(dict.fromkeys(TaskId(id) for wait in waits for id in wait.what))
    moment.listener.suspect(task)
    tell(task, event.TYPE)


def deadlock_resolved(state: State, event: DeadlockResolved, moment: Moment) -> None:
    """Forget it: its victim has ended."""
    state.deadlocks.pop(event.id, None)
    tell(state.tasks[event.task], event.TYPE)
