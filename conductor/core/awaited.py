"""Which tasks running attempts wait for, near or far."""

from __future__ import annotations

from collections.abc import Iterable

from bus.wire import TaskId
from conductor.core.state import FINAL, Run, State, Task
from conductor.core.task import Backoff, Pending, Ready
from conductor.core.transitions import Phase
from conductor.core.waits import Wait


def targets(state: State) -> frozenset[int]:
    """Return the places in the plan of the tasks that somebody waits for: those that waits name, and those that victims
    of deadlocks waited for and will wait for again."""
    named = {TaskId(id) for wait in state.waits.values() if wait.kind == "task" for id in wait.what}
    named.update(id for wanted in state.wanted.values() for id in wanted)
    return frozenset(state.tasks[id].index for id in named if id in state.tasks)


def closure(state: State, indexes: Iterable[int]) -> frozenset[int]:
    """Return those of the tasks that have no end yet, and what they depend on, near or far, without an end."""
    found: set[int] = set()
    todo = list(indexes)
    while todo:
        index = todo.pop()
        if index not in found and not isinstance(state.order[index].status, FINAL):
            found.add(index)
            todo += state.graph.dependencies[index]
    return frozenset(found)


def needs_itself(state: State, task: Task) -> list[TaskId]:
    """Return the tasks that a victim of a deadlock waited for and that depend on it, near or far, or are itself: no
    other attempt can wait for them with more success."""
    wanted = (state.tasks[id] for id in state.wanted.get(task.id, ()) if id in state.tasks)
    return [other.id for other in wanted if task.index in closure(state, [other.index])]


def waits_in_vain(state: State, run: Run, task: Task) -> bool:
    """Tell whether the newest attempt of a task waits for one that is not started any more in this round."""
    return any(in_vain(state, run, wait) for wait in state.waits.values() if wait.attempt == task.attempt)


def in_vain(state: State, run: Run, wait: Wait) -> bool:
    """Tell whether something waits for a task that is not started any more in this round, and hears of that."""
    if wait.kind != "task" or (run.phase is Phase.RUNNING and run.gave_up is None):
        return False
    named = (state.tasks.get(TaskId(id)) for id in wait.what)
    return any(other is not None and isinstance(other.status, (Pending, Ready, Backoff)) for other in named)
