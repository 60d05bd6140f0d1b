"""How the events of a round change the state: its beginning, the orders to it, its end."""

from __future__ import annotations

from bisect import bisect_left

from conductor.core import budget, orders
from conductor.core.changes import Moment, cell, ignore, illegal, let_go
from conductor.core.events import ControlReceived, PlanEdited, RunEnded, RunResumed, RunStarted
from conductor.core.gates import holds_work, release_work
from conductor.core.policy import FAIL_FAST, UNKILLABLE
from conductor.core.resets import count_open, forget, take_back
from conductor.core.state import Run, State, Task
from conductor.core.supervision import RunGaveUp
from conductor.core.task import Backoff, Failed, Pending, Ready, Running
from conductor.core.transitions import (
    IGNORED,
    ILLEGAL,
    RESET,
    RESET_ALL,
    RUN_TABLE,
    TASK_TABLE,
    IllegalTransition,
    Phase,
)

RESTART_INTENSITY = "restart_intensity"

_VERBS = {"drain": "DRAIN", "stop": "STOP", "reset": RESET}


def _next_phase(state: State, name: str) -> Phase | None:
    found = RUN_TABLE[state.phase, name]
    if found is ILLEGAL:
        raise IllegalTransition(name, state.phase.value)
    return found if isinstance(found, Phase) else None


def run_started(state: State, event: RunStarted, moment: Moment) -> None:
    """Begin a round with a plan."""
    _next_phase(state, event.TYPE)
    for known in state.order:
        cell(known, event.TYPE)
    before = state.tasks
    plan = event.plan
    state.follow(plan)
    state.run = Run(event.run, event.plan_sha, event.project, event.options, moment.wall, source_sha=event.source_sha)
    state.run.since, state.run.paused_by, state.paused_ahead = moment.now, state.paused_ahead, None
    state.providers = {}
    for health in state.health.values():
        health.in_a_row = health.strikes = 0
    planned = {spec.id for spec in plan.tasks}
    state.retired.update((id, task.number) for id, task in before.items() if id not in planned and task.number)
    state.tasks = {}
    for spec in plan.tasks:
        task = before.get(spec.id)
        if task is None:
            task = Task(spec, open=0, number=state.retired.pop(spec.id, 0))
        else:
            task.spec = spec
            _renew(task)
        task.number = max(task.number, event.taken.get(spec.id, 0))
        state.tasks[spec.id] = task
    state.order = list(state.tasks.values())
    count_open(state)
    state.running, state.reconciling, state.reset_at = {}, {}, None
    state.grants, state.waits, state.deadlocks, state.wanted, state.unkillable = {}, {}, {}, {}, {}


def _renew(task: Task) -> None:
    """Begin a round: what is done stays done; what had ended otherwise gets fresh budgets; the rest keeps its own."""
    release_work(task)
    if cell(task, RunStarted.TYPE) is IGNORED or holds_work(task):
        return
    if not isinstance(task.status, (Pending, Ready)):
        task.used, task.uncounted = 0, {}
    task.status = Pending()
    task.progress = None


def run_resumed(state: State, event: RunResumed, moment: Moment) -> None:
    """Let another conductor go on with the round."""
    run, phase = _current_run(state, event.TYPE)
    run.told = run.heard = False
    run.phase, run.stopping, run.stopped_by = phase, False, None  # a stop binds the conductor that it was meant for
    run.worked += run.seen - run.since
    run.since, run.paused_by, state.paused_ahead = moment.now, state.paused_ahead, None
    run.options = event.options
    run.resumed += 1
    failed = state.tally[Failed] > 0
    kept = run.gave_up if run.gave_up == UNKILLABLE else None  # what is left of it keeps what it holds
    run.gave_up = kept or (FAIL_FAST if event.options.fail_fast and failed else too_many_restarts(run, moment))
    budget.heed(state, run)
    run.said = run.said if run.said == run.gave_up else None
    state.reconciling = {id: None for id in state.running if isinstance(state.tasks[id].status, Running)}


def _current_run(state: State, name: str) -> tuple[Run, Phase]:
    phase = _next_phase(state, name)
    assert state.run is not None
    assert phase is not None
    return state.run, phase


def control(state: State, event: ControlReceived, moment: Moment) -> None:
    """Follow an operator's order, if it is one that the machine knows and means something now."""
    run, name = state.run, _VERBS.get(event.verb)
    if name is None:
        _ordered(state, event, moment)
        return
    if name == RESET and event.target is None:
        name = RESET_ALL
    phase = _next_phase(state, name)
    if run is None or phase is None:
        ignore(state, event.TYPE)
    elif name == RESET_ALL:
        forget(state, moment.wall)
    elif name == RESET:
        take_back(state, event)
    else:
        run.phase = phase
        run.stopping = run.stopping or event.verb == "stop"
        run.stopped_by = event.who


def _ordered(state: State, event: ControlReceived, moment: Moment) -> None:
    """Follow an operator's other orders; `refused` of an older record may be missing, the reason is there still."""
    if event.refused is not None or orders.refusal(state, event) is not None:
        ignore(state, event.TYPE)
    else:
        orders.obey(state, event, moment)
        run = state.run
        if event.verb == "retry" and run is not None and run.gave_up == FAIL_FAST and not state.tally[Failed]:
            run.gave_up = run.said = None  # what it gave up for is taken back
        if event.verb == "retry" and run is not None:
            run.told = run.heard = False  # whoever waits for a task hopes again, and is told anew where that is in vain


def run_gave_up(state: State, event: RunGaveUp, moment: Moment) -> None:
    """Start nothing more in this round."""
    run, _ = _current_run(state, event.TYPE)
    run.gave_up = run.gave_up or event.reason
    run.told, run.said = True, run.gave_up


def plan_edited(state: State, event: PlanEdited, moment: Moment) -> None:
    """Remember that the plan is another one on disk; this round does not follow it."""
    if state.run is None or state.phase is Phase.ENDED:
        ignore(state, event.TYPE)
        return
    state.run.source_sha, state.run.edited = event.sha256, event.changes


def run_ended(state: State, event: RunEnded, moment: Moment) -> None:
    """End the round."""
    run, phase = _current_run(state, event.TYPE)
    busy = [task for task in state.order if TASK_TABLE[type(task.status), event.TYPE] is ILLEGAL]
    if busy:
        raise illegal(busy[0], event.TYPE)
    run.phase, run.end, run.reason, run.ended_at = phase, event.state, event.reason, moment.wall
    if state.tally[Backoff]:
        for task in state.order:
            if isinstance(task.status, Backoff):
                let_go(state, task, moment)


def too_many_restarts(run: Run, moment: Moment) -> str | None:
    """Forget the restarts that the window has passed; return the reason to give up if too many are left."""
    limit = run.options.restart_intensity
    del run.restarts[: bisect_left(run.restarts, moment.now - run.options.restart_window)]
    return RESTART_INTENSITY if limit is not None and len(run.restarts) > limit else None


def run_of(state: State) -> Run:
    """Return the round that a decision belongs to: there is always one."""
    assert state.run is not None
    return state.run
