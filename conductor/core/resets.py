"""Starting over: the whole track, or single tasks and all that depends on them. Only while no round is under way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from bus.wire import TaskId
from conductor.core.changes import cell, tell
from conductor.core.events import ControlReceived
from conductor.core.state import State, Task
from conductor.core.task import Blocked, Cancelled, Done, Failed, Pending, Ready
from conductor.core.transitions import RESET


def affected(state: State, named: Iterable[TaskId]) -> tuple[TaskId, ...]:
    """Return the tasks that a reset of `named` takes back, in plan order: these and all that depend on them.

    What is blocked by a failed task that is not among them stays blocked, and is left out.
    """
    found = {state.tasks[id].index for id in named}
    kept: set[int] = set()
    for index in state.graph.order:
        needs = state.graph.dependencies[index]
        if index not in found and not any(need in found for need in needs):
            continue
        found.add(index)
        if not isinstance(state.order[index].status, Blocked) or not causes(state, state.order[index], kept):
            kept.add(index)
    return tuple(state.order[index].id for index in sorted(kept))


def forget(state: State, at: float) -> None:
    """Begin anew, but for the numbers of attempts, which are never used twice, and for what nothing could end.

    `at`: wall clock.
    """
    numbers = {id: task.number for id, task in state.tasks.items() if task.number}
    _become(state, State(retired={**state.retired, **numbers}, unkillable=state.unkillable, reset_at=at))


def take_back(state: State, event: ControlReceived) -> None:
    """Let the tasks be as if they had never run, but for the numbers of their attempts and their story.

    The round that is over is one with work left then: stopped by whoever reset the tasks.
    """
    named = set(event.tasks)
    tasks = {state.tasks[id].index: state.tasks[id] for id in event.tasks if id in state.tasks}
    for task in tasks.values():
        cell(task, RESET)
        _become(task, Task(task.spec, open=0, number=task.number, story=task.story))
        tell(task, RESET)
    for task in (state.order[index] for index in state.graph.order):
        if task.index in tasks or (isinstance(task.status, Blocked) and not named.isdisjoint(task.status.by)):
            found = causes(state, task)
            task.status = Blocked(found) if found else Pending()
    count_open(state)
    if tasks and state.run:
        state.run.end, state.run.reason, state.run.stopped_by = "stopped", "reset", event.who


def count_open(state: State) -> None:
    """Count for each task the dependencies that are not done, and let those without one be ready."""
    for task in state.order:
        task.open = sum(1 for dependency in state.dependencies(task) if not isinstance(dependency.status, Done))
        if task.open == 0 and isinstance(task.status, Pending):
            task.status = Ready()
    state.recount()


def causes(state: State, task: Task, but: Iterable[int] = ()) -> tuple[TaskId, ...]:
    """Return the failed and cancelled tasks that block a task by a direct dependency other than `but`."""
    found: dict[TaskId, None] = {}
    for dependency in state.dependencies(task):
        if dependency.index in but:
            continue
        if isinstance(dependency.status, Blocked):
            found |= dict.fromkeys(dependency.status.by)
        elif isinstance(dependency.status, (Failed, Cancelled)):
            found[dependency.id] = None
    return tuple(found)


def _become(old: State | Task, new: State | Task) -> None:
    for one in fields(old):
        setattr(old, one.name, getattr(new, one.name))
