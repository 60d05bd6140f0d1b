"""Tasks of a plan that a run would refuse, because nothing says how to run them."""

from __future__ import annotations

from conductor.core.task import Plan, PlanWarning, RunOptions, TaskSpec
from conductor.core.wording import few, plural

COMMAND = "my-worker {prompt_file}"
"""An example of a command for all tasks."""


def warnings_of(plan: Plan, options: RunOptions) -> list[PlanWarning]:
    """Return `no_worker` and `agent_missing`, which `run` would refuse, as warnings."""
    tasks = [task for task in plan.tasks if task.run is None and not task.manual]
    warnings = []
    of_agents = [task for task in tasks if task.agent is not None]
    if of_agents:
        message = "no agents are started by this version: replace `agent:` by a `run:` that starts it"
        warnings.append(_warning("agent_missing", of_agents, message))
    others = [task for task in tasks if task.agent is None]
    if others and options.command is None:
        message = f"give each a `run:`, or all the same one with --command '{COMMAND}'"
        warnings.append(_warning("no_worker", others, message))
    return warnings


def _warning(code: str, tasks: list[TaskSpec], what_to_do: str) -> PlanWarning:
    names = few([task.id for task in tasks])
    has = "has" if len(tasks) == 1 else "have"
    message = f"{plural(len(tasks), 'task')} {has} no command ({names}), and `run` would refuse the plan; {what_to_do}"
    return PlanWarning(code, message, tasks[0].line)
