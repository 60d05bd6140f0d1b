"""Dependencies by index: levels, or the cycle that stands against them."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.core.task import TaskSpec
from conductor.plan.errors import plan_error, shown

_SHOWN = 12


def levels(tasks: Sequence[TaskSpec]) -> list[int]:
    """Return each task's level, 0 for those without dependencies; raises PlanError `plan_cycle`. Linear."""
    index = {task.id: task.index for task in tasks}
    dependencies = [[index[wanted] for wanted in task.depends_on] for task in tasks]
    dependants: list[list[int]] = [[] for _ in tasks]
    for task, wanted in enumerate(dependencies):
        for dependency in wanted:
            dependants[dependency].append(task)
    missing = [len(wanted) for wanted in dependencies]
    level = [0] * len(tasks)
    reached = [task for task, count in enumerate(missing) if count == 0]
    for task in reached:  # grows while it is walked
        for dependant in dependants[task]:
            level[dependant] = max(level[dependant], level[task] + 1)
            missing[dependant] -= 1
            if missing[dependant] == 0:
                reached.append(dependant)
    if len(reached) < len(tasks):
        _refuse_cycle(tasks, _find_cycle(dependencies, missing))
    return level


def _find_cycle(dependencies: list[list[int]], missing: list[int]) -> list[int]:
    """Return one cycle, beginning with its first task in plan order.

    A task that was not reached depends on another that was not; following those must come back.
    """
    at = next(task for task, count in enumerate(missing) if count)
    seen: dict[int, int] = {}
    path: list[int] = []
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = next(dependency for dependency in dependencies[at] if missing[dependency])
    cycle = path[seen[at] :]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def _refuse_cycle(tasks: Sequence[TaskSpec], cycle: list[int]) -> None:
    names = [str(tasks[task].id) for task in cycle]
    names.append(names[0])
    if len(names) > 2 * _SHOWN:
        names[_SHOWN:-_SHOWN] = [f"… {len(names) - 2 * _SHOWN} more …"]
    error = plan_error(
        "plan_cycle",
        f"{shown(names[0])} depends on itself: {names[0]} → {names[0]}"
        if len(cycle) == 1
        else f"tasks wait for each other: {' → '.join(names)}",
        hint="Remove one of these dependencies.",
    )
    error.line = tasks[cycle[0]].line
    raise error
