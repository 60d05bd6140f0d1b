"""Dependencies that can never be met."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.core.graph import find_cycle
from conductor.core.task import TaskSpec
from conductor.plan.errors import plan_error

_SHOWN = 12
"""Names at either end of a long cycle that a message spells out."""


def refuse_cycle(tasks: Sequence[TaskSpec]) -> None:
    """Raise PlanError `plan_cycle` where tasks wait for each other; the cycle is printed from its first task on."""
    cycle = find_cycle(tasks)
    if cycle is None:
        return
    names = [*map(str, cycle), str(cycle[0])]
    if len(names) > 2 * _SHOWN:
        names[_SHOWN:-_SHOWN] = [f"… {len(names) - 2 * _SHOWN:,} more …"]
    what = "a task depends on itself" if len(cycle) == 1 else "tasks wait for each other"
    error = plan_error("plan_cycle", f"{what}: {' → '.join(names)}", hint="Remove one of these dependencies.")
    error.line = next(task.line for task in tasks if task.id == cycle[0])
    raise error
