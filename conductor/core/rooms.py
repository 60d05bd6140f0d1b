"""What holds a bounded number of running tasks: parallel groups, and resources that there are several of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bus.wire import TaskId
from conductor.core.task import MAX_GROUP_WORKERS, Group, Plan, RunOptions


@dataclass(frozen=True, slots=True)
class Room:
    """Something of which at most `size` tasks may run side by side."""

    kind: str
    """`group` or `resource`."""
    name: str
    size: int
    tasks: tuple[TaskId, ...]


def rooms_of(plan: Plan, options: RunOptions) -> list[Room]:
    """Return the rooms of a plan: its groups in plan order, then the resources with a count by name."""
    found = [Room("group", group.id, room_of(group, options), group.tasks) for group in plan.groups]
    takers: dict[str, list[TaskId]] = {name: [] for name in sorted(counted(options.resources))}
    for task in plan.tasks:
        for name in dict.fromkeys(task.resources):
            if name in takers:
                takers[name].append(task.id)
    return found + [Room("resource", name, options.resources[name], tuple(ids)) for name, ids in takers.items()]


def counted(resources: Mapping[str, int]) -> frozenset[str]:
    """Return the resources that more than one task may hold at once."""
    return frozenset(name for name, count in resources.items() if count > 1)


def room_of(group: Group, options: RunOptions) -> int:
    """Return how many tasks of a group may run side by side."""
    if options.group_workers is not None:
        return options.group_workers
    return MAX_GROUP_WORKERS if group.max_workers is None else group.max_workers
