"""Limits that are checked before any work."""

from __future__ import annotations

from collections import Counter

from conductor.core.task import Limits, Plan


def check(plan: Plan, limits: Limits) -> list[tuple[str, str, int]]:
    """Return (code, message, line of the task or 0) for each limit that the plan breaks, in plan order per code.

    `max_plan_bytes` is the reader's to check; the limits of time and money are checked while the run lasts.
    """
    broken: list[tuple[str, str, int]] = []
    if limits.max_tasks is not None and len(plan.tasks) > limits.max_tasks:
        broken.append(("task_count_exceeded", f"{len(plan.tasks)} tasks, at most {limits.max_tasks} are allowed", 0))
    fan_out = Counter(wanted for task in plan.tasks for wanted in set(task.depends_on))
    if (most := limits.max_fan_out) is not None:
        broken += [
            (
                "fan_out_exceeded",
                f"{fan_out[task.id]} tasks depend on task {task.id}, at most {most} may",
                task.line,
            )
            for task in plan.tasks
            if fan_out[task.id] > most
        ]
    if (most := limits.max_join_width) is not None:
        broken += [
            (
                "join_width_exceeded",
                f"task {task.id} depends on {len(set(task.depends_on))} tasks, at most {most} are allowed",
                task.line,
            )
            for task in plan.tasks
            if len(set(task.depends_on)) > most
        ]
    return broken
