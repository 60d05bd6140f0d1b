"""What cannot be had together with `--parallel pure-read`, where only pure reads run side by side.

That other tasks wait for each other is what it asks for, and no error. Refused, before any work, is a contradiction: a
task that calls itself a pure read and names files that it makes or writes, and a group whose own `max_workers` wants
its tasks side by side, no two of which may be. `--max-workers` is the cap of all groups, so it settles the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from conductor.core.graph import Graph, build
from conductor.core.task import PURE_READ, Group, Plan, RunOptions, TaskSpec
from conductor.core.wording import few
from conductor.errors import PlanError


def written_by_reader(task: TaskSpec) -> tuple[str, ...]:
    """Return what a task makes or writes although it calls itself a pure read."""
    return (*task.files, *task.outputs) if task.effect == PURE_READ else ()


def enforce(plan: Plan, options: RunOptions) -> None:
    """Raise PlanError `concurrent_effect_denied` for the first contradiction; see above."""
    if options.parallel != "pure-read":
        return
    for task in plan.tasks:
        if written := written_by_reader(task):
            message = f"task {task.id} is to run beside others as a pure read, and it writes {few(written)}"
            hint = "give it effect: write, or take its files and outputs away"
            raise _denied(plan, message, task.line, hint)
    if options.group_workers is not None:
        return
    graph = build(plan.tasks)
    of = {task.id: task for task in plan.tasks}
    for group in plan.groups:
        members = [of[task] for task in group.tasks if not of[task].manual]
        pair = _hindered(group, members, graph)
        if pair is not None:
            one, other = pair
            message = (
                f"group {group.id} asks for {group.max_workers} of its tasks side by side, and no two of them may: "
                f"{one.id} ({one.effect}) and {other.id} ({other.effect}) run alone, as all but pure reads do"
            )
            hint = "take max_workers from the group, or say --max-workers, which holds for all groups"
            raise _denied(plan, message, next((task.line for task in pair if task.effect != PURE_READ), 0), hint)


def _hindered(group: Group, members: Sequence[TaskSpec], graph: Graph) -> tuple[TaskSpec, TaskSpec] | None:
    """Return two tasks that only their effects keep from running side by side, where no two of the group may."""
    if group.max_workers is None or group.max_workers < 2:
        return None
    readers = [task for task in members if task.effect == PURE_READ]
    if next(_unordered(readers, graph), None) is not None:
        return None
    return next(_unordered(members, graph), None)


def _unordered(tasks: Sequence[TaskSpec], graph: Graph) -> Iterator[tuple[TaskSpec, TaskSpec]]:
    """Yield neighbours, in an order that fits `depends_on`, of which neither needs the other: none in a chain."""
    ordered = sorted(tasks, key=lambda task: graph.position[task.index])
    return ((one, other) for one, other in pairwise(ordered) if not _needs(other.index, one.index, graph))


def _needs(task: int, wanted: int, graph: Graph) -> bool:
    """Whether a task depends on another, near or far."""
    seen = {task}
    todo = [task]
    for index in todo:  # grows while it is walked
        for dependency in graph.dependencies[index]:
            if dependency == wanted:
                return True
            if dependency not in seen and graph.position[dependency] > graph.position[wanted]:
                seen.add(dependency)
                todo.append(dependency)
    return False


def _denied(plan: Plan, message: str, line: int, hint: str) -> PlanError:
    return PlanError("concurrent_effect_denied", message, path=plan.source, line=line or None, hint=hint)
