"""Which tasks running attempts wait for, near or far."""

from __future__ import annotations

from collections.abc import Iterable

from bus.wire import TaskId
from conductor.core.state import FINAL, State


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
