"""What the members of a group share (`shared_resources`), put into the tasks, where schedule and workers find it.

Who uses a shared thing is said by the tasks' `files`, `reads` and `resources`. Where fewer than two say so, any member
may use it, and none of them does so beside another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bus.wire import TaskId
from conductor.core.conflicts import overlap
from conductor.core.task import Group, TaskSpec

FILE_LOCK = "file_lock"
"""The strategy by which workers lock what they share, instead of being started one after the other."""


def shared_among(tasks: Sequence[TaskSpec], groups: Sequence[Group]) -> tuple[TaskSpec, ...]:
    """Return the tasks with what their groups make them hold: as `resources`, or with `file_lock` as `locks`."""
    found: dict[TaskId, TaskSpec] = {task.id: task for task in tasks}
    for group in groups:
        members = [found[task] for task in group.tasks]
        locks = group.coordination_strategy == FILE_LOCK
        for task in members if locks else ():
            found[task.id] = replace(task, locks=())
        for name in group.shared_resources:
            users = [task for task in members if _uses(task, name)]
            if len(users) < 2:
                users = members
            elif not locks:
                continue  # what they declare keeps them apart
            for task in users:
                found[task.id] = _holding(found[task.id], name, locks=locks)
    return tuple(found.values())


def _uses(task: TaskSpec, name: str) -> bool:
    return name in task.resources or any(overlap(name, pattern) for pattern in (*task.files, *task.reads))


def _holding(task: TaskSpec, name: str, *, locks: bool) -> TaskSpec:
    if locks:
        return replace(task, locks=(*(task.locks or ()), name))
    return replace(task, resources=tuple(dict.fromkeys((*task.resources, name))))
