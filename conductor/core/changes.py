"""What every change of the state is made of: the cell of the table, the status set and told, the listener informed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from bus.wire import AttemptId, TaskId
from conductor.core.state import ALIVE, MAX_STORY, State, Task
from conductor.core.task import Pending, Ready, Status
from conductor.core.transitions import IGNORED, ILLEGAL, TASK_TABLE, IllegalTransition


class Listener(Protocol):
    """Told of every change of a task's status, after it."""

    def changed(self, task: Task, before: Status) -> None:
        """`task.status` was `before`."""

    def rewired(self) -> None:
        """A grant or a wait came or went."""

    def suspect(self, task: Task) -> None:
        """There may be a new reason to stop the task's attempt."""


class NobodyListens:
    """For a replay."""

    def changed(self, task: Task, before: Status) -> None:
        """Do nothing."""

    def rewired(self) -> None:
        """Do nothing."""

    def suspect(self, task: Task) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event was journaled, and who follows its changes."""

    now: float
    wall: float
    listener: Listener


def cell(task: Task, name: str) -> Any:
    """Return what an event means for a task. Raises IllegalTransition where it is impossible."""
    found = TASK_TABLE[type(task.status), name]
    if found is ILLEGAL:
        raise illegal(task, name)
    return found


def illegal(task: Task, name: str) -> IllegalTransition:
    """Return the error of an impossible event, with the task's story."""
    return IllegalTransition(name, type(task.status).__name__.lower(), task=task.id, story=task.story)


def ignore(state: State, name: str) -> None:
    """Count an event that means nothing now."""
    state.ignored[name] = state.ignored.get(name, 0) + 1


def current(state: State, name: str, id: TaskId, attempt: AttemptId) -> Task | None:
    """Return the task of a fact about its newest attempt; None, counted, where the fact is late or means nothing."""
    task = state.tasks.get(id)
    if task is None or task.attempt != attempt or cell(task, name) is IGNORED:
        ignore(state, name)
        return None
    return task


def decided(state: State, name: str, id: TaskId, attempt: AttemptId | None = None) -> Task:
    """Return the task of a decision. Decisions are never late: what does not fit is impossible."""
    task = state.tasks.get(id)
    if task is None:
        raise IllegalTransition(name, "a plan without it", task=id)
    if attempt is not None and task.attempt != attempt:
        raise illegal(task, f"{name} of attempt {attempt}")
    cell(task, name)
    return task


def set_status(state: State, task: Task, status: Status, moment: Moment) -> None:
    """Give a task another status, and keep what follows from it."""
    before = task.status
    task.status = status
    state.tally[type(before)] -= 1
    state.tally[type(status)] += 1
    if isinstance(status, ALIVE):
        state.running.setdefault(task.id)
    elif isinstance(before, ALIVE):
        del state.running[task.id]
    moment.listener.changed(task, before)


def let_go(state: State, task: Task, moment: Moment) -> None:
    """Let a task be ready for another attempt. A plan that was read again may have given it something to wait for."""
    set_status(state, task, Pending() if task.open else Ready(), moment)


def tell(task: Task, name: str, *words: object) -> None:
    """Add an event to a task's story."""
    task.story = (*task.story[-MAX_STORY + 1 :], _line(name, *map(str, words)))


@lru_cache(maxsize=1024)
def _line(*words: str) -> str:
    """The stories of a hundred thousand tasks are nearly the same, and share their texts."""
    return " ".join(words)
