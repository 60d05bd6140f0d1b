"""Facts about `depends_on`: levels, cycles, expected durations, the critical path. All linear and iterative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bus.wire import TaskId
from conductor.core.task import Plan, TaskSpec

UNKNOWN_DURATION = 1800.0
"""Seconds that a task is taken to last where no task of the plan has an estimate."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The dependencies of a plan by place in the plan (`TaskSpec.index`)."""

    dependencies: tuple[tuple[int, ...], ...]
    dependants: tuple[tuple[int, ...], ...]
    """In plan order."""
    order: tuple[int, ...]
    """All tasks, each behind its dependencies. Tasks on a cycle are missing."""
    position: tuple[int, ...]
    """Place of each task in `order`."""


def build(tasks: Sequence[TaskSpec]) -> Graph:
    """Index the dependencies. Unknown ones are left out; a doubled one counts once."""
    place = {task.id: index for index, task in enumerate(tasks)}
    dependencies = tuple(
        tuple(dict.fromkeys(place[wanted] for wanted in task.depends_on if wanted in place)) for task in tasks
    )
    dependants: list[list[int]] = [[] for _ in tasks]
    for index, wanted in enumerate(dependencies):
        for dependency in wanted:
            dependants[dependency].append(index)
    missing = [len(wanted) for wanted in dependencies]
    order = [index for index, count in enumerate(missing) if count == 0]
    for index in order:  # grows while it is walked
        for dependant in dependants[index]:
            missing[dependant] -= 1
            if missing[dependant] == 0:
                order.append(dependant)
    position = [0] * len(tasks)
    for number, index in enumerate(order):
        position[index] = number
    return Graph(dependencies, tuple(map(tuple, dependants)), tuple(order), tuple(position))


def levels(plan: Plan) -> list[list[TaskId]]:
    """Return the waves: a task stands one level behind its furthest dependency. Plan order within a level."""
    graph = build(plan.tasks)
    level = [0] * len(plan.tasks)
    for index in graph.order:
        level[index] = max((level[dependency] + 1 for dependency in graph.dependencies[index]), default=0)
    waves: list[list[TaskId]] = [[] for _ in range(max(level, default=-1) + 1)]
    for index, task in enumerate(plan.tasks):
        waves[level[index]].append(task.id)
    return waves


def find_cycle(tasks: Sequence[TaskSpec]) -> list[TaskId] | None:
    """Return the tasks of one cycle, each depending on the next and the last on the first; None where there is none."""
    graph = build(tasks)
    if len(graph.order) == len(tasks):
        return None
    on_or_behind = set(range(len(tasks))) - set(graph.order)
    index = min(on_or_behind)
    seen: dict[int, None] = {}
    while index not in seen:  # whoever could not be ordered depends on another such task
        seen[index] = None
        index = next(dependency for dependency in graph.dependencies[index] if dependency in on_or_behind)
    path = list(seen)
    cycle = path[path.index(index) :]
    first = cycle.index(min(cycle))
    return [tasks[place].id for place in cycle[first:] + cycle[:first]]


def durations(plan: Plan) -> dict[TaskId, float]:
    """Return the expected seconds of each task: its estimate, else the median of the known ones."""
    known = sorted(task.estimate for task in plan.tasks if task.estimate is not None)
    middle = len(known) // 2
    unknown = (known[middle] + known[~middle]) / 2 if known else UNKNOWN_DURATION
    return {task.id: unknown if task.estimate is None else task.estimate for task in plan.tasks}


def tails(plan: Plan, graph: Graph) -> list[float]:
    """Return for each task the expected seconds from its start to the end of the longest chain that begins with it."""
    seconds = durations(plan)
    tail = [seconds[task.id] for task in plan.tasks]
    for index in reversed(graph.order):
        tail[index] += max((tail[dependant] for dependant in graph.dependants[index]), default=0.0)
    return tail


def ranks(plan: Plan, graph: Graph) -> list[int]:
    """Return each task's priority, 0 first: the critical path first, ties in plan order."""
    tail = tails(plan, graph)
    rank = [0] * len(tail)
    for number, index in enumerate(sorted(range(len(tail)), key=lambda index: (-tail[index], index))):
        rank[index] = number
    return rank


def critical_path(plan: Plan) -> list[TaskId]:
    """Return the chain of tasks with the longest expected duration, in order; ties go by plan order."""
    graph = build(plan.tasks)
    tail = tails(plan, graph)
    path: list[TaskId] = []
    choices: Sequence[int] = range(len(tail))
    while choices:
        index = max(choices, key=lambda index: (tail[index], -index))
        path.append(plan.tasks[index].id)
        choices = graph.dependants[index]
    return path
