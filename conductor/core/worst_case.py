"""How long a plan can take at most, as far as its limits of time say: every attempt used, each up to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bus.wire import TaskId
from conductor.core.graph import build
from conductor.core.policy import allowed
from conductor.core.task import Plan, RunOptions, TaskSpec
from conductor.core.wording import duration, exact


@dataclass(frozen=True, slots=True)
class WorstCase:
    """Seconds; None where nothing bounds them: a task without a limit of time, or one that waits for a person."""

    attempts: int
    """Attempts that may be started, those at no cost left out."""
    chain: float | None
    """Of the longest chain of dependencies: with workers enough, no two tasks in each other's way."""
    total: float | None
    """Of all tasks one after the other: what one worker takes at most."""
    unbounded: tuple[TaskId, ...]
    """The tasks that nothing bounds, in plan order."""


def worst_case(plan: Plan, options: RunOptions, *, grace: float) -> WorstCase:
    """Add up what each task may take; `grace` is the time that an attempt over its limit has to end, in seconds."""
    seconds = {task.id: _of_task(task, options, grace) for task in plan.tasks}
    unbounded = tuple(task for task, limit in seconds.items() if limit is None)
    bounded = {task: limit for task, limit in seconds.items() if limit is not None}
    return WorstCase(
        attempts=sum(0 if task.manual else 1 + allowed(task, options) for task in plan.tasks),
        chain=None if unbounded else _chain(plan, bounded),
        total=None if unbounded else sum(bounded.values()),
        unbounded=unbounded,
    )


def too_short(run_timeout: float | None, worst: WorstCase) -> str | None:
    """Say that the run may reach its limit of time before the plan is worked off; None where it cannot."""
    if run_timeout is None or (worst.chain is not None and worst.chain <= run_timeout):
        return None
    longest = f"may take {duration(worst.chain)}" if worst.chain is not None else "has no limit of its own"
    return (
        f"the longest chain of tasks {longest}, and after {exact(run_timeout)} (run_timeout) nothing more is started: "
        "what is left is skipped"
    )


def _of_task(task: TaskSpec, options: RunOptions, grace: float) -> float | None:
    limit = options.timeout if task.timeout is None and not task.manual else task.timeout
    if not limit or task.approve is not None:
        return None
    if task.manual:
        return limit
    retries = allowed(task, options)
    waits = sum(min(options.retry_delay * 2.0**number, options.retry_delay_max) for number in range(min(retries, 64)))
    waits += max(retries - 64, 0) * options.retry_delay_max
    return (1 + retries) * (limit + grace) * (1 + len(task.verify)) + waits


def _chain(plan: Plan, seconds: Mapping[TaskId, float]) -> float:
    graph = build(plan.tasks)
    ends = [0.0] * len(plan.tasks)
    for index in graph.order:
        before = max((ends[dependency] for dependency in graph.dependencies[index]), default=0.0)
        ends[index] = before + seconds[plan.tasks[index].id]
    return max(ends, default=0.0)
