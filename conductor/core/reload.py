"""An edited plan in the middle of a round: what is done, fails or runs stays so, all else follows the new plan."""

from __future__ import annotations

from conductor.core.changes import Moment, cell, ignore, tell
from conductor.core.gates import holds_work, lets_go, release_work
from conductor.core.resets import count_open
from conductor.core.state import ALIVE, State, Task
from conductor.core.supervision import PlanReloaded
from conductor.core.task import Blocked, Done, Pending, Plan, Status
from conductor.core.transitions import IGNORED, RELOADED, RUN_TABLE
from conductor.core.wording import few

_SETTLED = (Done, *ALIVE)


def refusal(state: State, plan: Plan) -> str | None:
    """Return why a plan cannot be taken in now; None where it can."""
    planned = {task.id for task in plan.tasks}
    if gone := [id for id in state.running if id not in planned]:
        return f"the plan leaves out what is running: {few(gone)}"
    return None


def plan_reloaded(state: State, event: PlanReloaded, moment: Moment) -> None:
    """Go on with the new plan. A task that now depends on something that is not done waits for it, unless it runs."""
    run, before = state.run, state.tasks
    if run is None or RUN_TABLE[run.phase, event.TYPE] is IGNORED:
        ignore(state, event.TYPE)
        return
    planned = {spec.id for spec in event.plan.tasks}
    state.follow(event.plan)
    state.retired.update((id, task.number) for id, task in before.items() if id not in planned and task.number)
    state.tasks = {}
    for spec in event.plan.tasks:
        task = before.get(spec.id) or Task(spec, open=0, number=state.retired.pop(spec.id, 0))
        task.spec = spec
        state.tasks[spec.id] = task
    state.order = list(state.tasks.values())
    for task in state.order:
        release_work(task)
        if _must_wait(state, task) or lets_go(task):
            task.status = _after(task)
            tell(task, RELOADED)
    count_open(state)
    groups = {group.id for group in event.plan.groups}
    run.groups_expired = [id for id in run.groups_expired if id in groups]
    run.groups_since = {id: since for id, since in run.groups_since.items() if id in groups}
    run.reloaded += 1
    run.plan_sha, run.source_sha, run.edited = event.plan_sha, event.source_sha, ()


def _must_wait(state: State, task: Task) -> bool:
    """Blocked ones are looked at anew in any case: what blocked them may not be among their dependencies any more."""
    if isinstance(task.status, Blocked):
        return True
    if isinstance(task.status, (_SETTLED, Pending)) or holds_work(task):
        return False
    return any(not isinstance(dependency.status, Done) for dependency in state.dependencies(task))


def _after(task: Task) -> Status:
    found = cell(task, RELOADED)
    return found() if found is Pending else task.status
