"""What `conductor plan` says of limits: those that hold, and what the plan may take at most."""

from __future__ import annotations

from conductor.cli.escape import one_line
from conductor.config_values import BUILT_IN
from conductor.core.task import Limits, Plan, PlanWarning, TaskSpec
from conductor.core.wording import duration, exact, few, plural
from conductor.core.worst_case import WorstCase, too_short


def bounds(limits: Limits, worst: WorstCase) -> list[str]:
    """Return the lines for people: the limits that somebody set, and the worst case of time."""
    lines = [f"Limits: {', '.join(_held(limits))}"]
    if worst.chain is None or worst.total is None:
        lines.append(f"Worst case: nothing bounds the time of {_tasks(worst)}")
    else:
        lines.append(
            f"Worst case, each of {plural(worst.attempts, 'attempt')} at its limit: {duration(worst.chain)} along the "
            f"longest chain, {duration(worst.total)} of work in all"
        )
    return lines


def tight(limits: Limits, worst: WorstCase) -> list[PlanWarning]:
    """Warn where the run may reach its limit of time before the plan is worked off."""
    message = too_short(limits.run_timeout, worst)
    return [] if message is None else [PlanWarning("run_timeout_short", message)]


def people(plan: Plan) -> list[str]:
    """Return the line that names the tasks which wait for a person; nothing where there are none."""
    asked = [f"{one_line(task.id)} ({'manual' if task.manual else task.approve})" for task in plan.tasks if _asks(task)]
    return [f"Waits for people: {few(asked, 10)}"] if asked else []


def _asks(task: TaskSpec) -> bool:
    return task.manual or task.approve is not None


def _held(limits: Limits) -> list[str]:
    found = [plural(limits.max_workers, "worker")] if limits.max_workers is not None else []
    found += [
        f"{name} {value:,}"
        for name in ("max_tasks", "max_fan_out", "max_join_width", "max_plan_bytes")
        if (value := getattr(limits, name)) not in (None, getattr(BUILT_IN, name, None))
    ]
    if limits.run_timeout is not None:
        found.append(f"run_timeout {exact(limits.run_timeout)}")
    if limits.budget_usd is not None:
        found.append(f"budget {limits.budget_usd:g} USD")
    return found


def _tasks(worst: WorstCase) -> str:
    number = plural(len(worst.unbounded), "task")
    return f"{number} ({few(worst.unbounded)})"
