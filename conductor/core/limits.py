"""Limits that are checked before any work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bus.wire import TaskId
from conductor.core.task import Plan
from conductor.core.wording import plural
from conductor.errors import PlanError


def enforce(plan: Plan) -> None:
    """Raise PlanError for the first limit that the plan breaks, saying how many more there are."""
    broken = check(plan)
    if not broken:
        return
    code, message, line = broken[0]
    more = f" (and {plural(len(broken) - 1, 'more such place')})" if len(broken) > 1 else ""
    hint = "change the plan, or raise the limit: under `limits:` in the plan, or in conductor.toml"
    raise PlanError(code, message + more, path=plan.source, line=line or None, hint=hint)


def check(plan: Plan) -> list[tuple[str, str, int]]:
    """Return (code, message, line of the task or 0) wherever the plan breaks a limit, in plan order per code.

    `max_plan_bytes` is the reader's to check; the limits of time and money are checked while the run lasts.
    """
    limits = plan.limits
    broken: list[tuple[str, str, int]] = []
    if limits.max_tasks is not None and len(plan.tasks) > limits.max_tasks:
        broken.append(("task_count_exceeded", f"{len(plan.tasks)} tasks, at most {limits.max_tasks} are allowed", 0))
    fan_out = Counter(wanted for task in plan.tasks for wanted in set(task.depends_on))
    join_width = {task.id: len(set(task.depends_on)) for task in plan.tasks}
    return [
        *broken,
        *_above(
            plan,
            fan_out,
            limits.max_fan_out,
            "fan_out_exceeded",
            "{count} tasks depend on task {id}, at most {most} may",
        ),
        *_above(
            plan,
            join_width,
            limits.max_join_width,
            "join_width_exceeded",
            "task {id} depends on {count} tasks, at most {most} are allowed",
        ),
    ]


def _above(
    plan: Plan, counts: Mapping[TaskId, int], most: int | None, code: str, message: str
) -> list[tuple[str, str, int]]:
    if most is None:
        return []
    return [
        (code, message.format(id=task.id, count=counts[task.id], most=most), task.line)
        for task in plan.tasks
        if counts[task.id] > most
    ]
