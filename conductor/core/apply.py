"""How each event changes the state. Nothing else changes it; nothing is decided here.

An event is checked against the transition table before anything is touched, so an impossible one leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.core import budget, gates, providers, timers
from conductor.core.changes import Moment, cell, current, decided, illegal, let_go, set_status, tell
from conductor.core.events import (
    AttemptAdopted,
    AttemptEnded,
    ControlReceived,
    Event,
    LaunchFailed,
    PlanEdited,
    ProgressReceived,
    ReportReceived,
    ResultReceived,
    RetryScheduled,
    RunEnded,
    RunResumed,
    RunStarted,
    StopDecided,
    TaskBlocked,
    TaskCompleted,
    TaskFailed,
    TaskSkipped,
    TimerFired,
    WorkerDispatched,
    WorkerGone,
)
from conductor.core.health import PROVIDER_CLASSES
from conductor.core.policy import BLAMELESS, FAIL_FAST, FREE, UNKILLABLE
from conductor.core.reload import plan_reloaded
from conductor.core.rounds import (
    control,
    plan_edited,
    run_ended,
    run_gave_up,
    run_of,
    run_resumed,
    run_started,
    too_many_restarts,
)
from conductor.core.state import MAX_PROGRESS, State
from conductor.core.supervision import (
    ApprovalAsked,
    ManualOpened,
    PlanReloaded,
    ProviderPaused,
    ProviderResumed,
    RunGaveUp,
    TaskCancelled,
    UsageReported,
)
from conductor.core.task import (
    Backoff,
    Blocked,
    Done,
    Ended,
    Exited,
    Failed,
    NotLaunched,
    Outcome,
    Ready,
    Running,
    Skipped,
    Vanished,
)
from conductor.core.transitions import ATTEMPT_GIVEN_UP, ATTEMPT_STOPPED, DEPENDENCIES_DONE
from conductor.core.wait_changes import (
    deadlock_detected,
    deadlock_resolved,
    grant_gone,
    grant_seen,
    life_judged,
    wait_began,
    wait_ended,
)
from conductor.core.wait_events import (
    AttemptLife,
    DeadlockDetected,
    DeadlockResolved,
    GrantGone,
    GrantSeen,
    WaitBegan,
    WaitEnded,
)

_NO_RESTART = PROVIDER_CLASSES | BLAMELESS
"""Classes of failures behind which another attempt says nothing of how the run does."""


def apply(state: State, event: Event, moment: Moment) -> None:
    """Change the state by one event of the journal. Raises IllegalTransition, having changed nothing."""
    _APPLY[type(event)](state, event, moment)
    if state.run is not None and not (isinstance(event, ControlReceived) and event.ahead):
        state.run.seen = moment.now


# --- attempts -------------------------------------------------------------------------------------------------------


def _dispatched(state: State, event: WorkerDispatched, moment: Moment) -> None:
    task = decided(state, event.TYPE, event.task)
    if event.number <= task.number:
        raise illegal(task, f"{event.TYPE} with number {event.number}")
    task.attempt, task.number = event.attempt, event.number
    task.report = task.progress = task.usage = task.commit = task.ended_at = task.life = None
    task.stale = False
    task.started_at, task.letters = moment.wall, {}
    run = run_of(state)
    for group in state.timed.get(task.id, ()):
        run.groups_since.setdefault(group.id, run.clock(moment.now))
    providers.dispatched(state, run, task)
    set_status(state, task, Running(event.attempt, event.number), moment)
    if state.wanted.pop(task.id, None):
        moment.listener.rewired()
    tell(task, event.TYPE, f"~{task.number}")


def _adopted(state: State, event: AttemptAdopted, moment: Moment) -> None:
    if task := current(state, event.TYPE, event.task, event.attempt):
        state.reconciling.pop(task.id, None)
        tell(task, event.TYPE, f"~{task.number}")


def _reported(state: State, event: ReportReceived, moment: Moment) -> None:
    if task := current(state, event.TYPE, event.task, event.attempt):
        task.report = event.report
        tell(task, event.TYPE, f"~{task.number}")


def _progressed(state: State, event: ProgressReceived, moment: Moment) -> None:
    if task := current(state, event.TYPE, event.task, event.attempt):
        task.progress = (event.pct, event.text[:MAX_PROGRESS])


def _result(state: State, event: ResultReceived, moment: Moment) -> None:
    _exited(state, event, event.exit, moment)


def _gone(state: State, event: WorkerGone, moment: Moment) -> None:
    _exited(state, event, Vanished(event.started, event.detail, event.reboot), moment)


def _not_launched(state: State, event: LaunchFailed, moment: Moment) -> None:
    _exited(state, event, NotLaunched(event.error, event.conductor_died), moment)


def _exited(state: State, event: ResultReceived | WorkerGone | LaunchFailed, outcome: Outcome, moment: Moment) -> None:
    task = current(state, event.TYPE, event.task, event.attempt)
    if task is None or not isinstance(task.status, Running):
        return
    state.reconciling.pop(task.id, None)
    if isinstance(event, ResultReceived):
        task.report = event.exit.report or task.report
        task.usage = event.exit.usage or task.usage
    set_status(state, task, Exited(event.attempt, task.number, task.status.stopping, outcome), moment)
    tell(task, event.TYPE, f"~{task.number}")


def _stop_decided(state: State, event: StopDecided, moment: Moment) -> None:
    task = decided(state, event.TYPE, event.task, event.attempt)
    set_status(state, task, Running(event.attempt, task.number, event.reason), moment)
    tell(task, event.TYPE, f"~{task.number}", event.reason)


def _attempt_ended(state: State, event: AttemptEnded, moment: Moment) -> None:
    free, run = event.error_class in FREE, run_of(state)
    row = ATTEMPT_STOPPED if free else ATTEMPT_GIVEN_UP if event.error_class == UNKILLABLE else event.TYPE
    task = decided(state, row, event.task, event.attempt)
    task.last, task.ended_at = event, moment.wall
    task.started += event.started
    if event.error_class is None:
        run.restarts.clear()
    elif not free and not providers.free_of_charge(state, run, task, event.error_class):
        if event.counted:
            task.used += 1
        else:
            kind = event.error_class if event.started else "never_started"
            task.uncounted = {**task.uncounted, kind: task.uncounted.get(kind, 0) + 1}
    if event.error_class == UNKILLABLE:
        run.gave_up = run.gave_up or UNKILLABLE
        state.unkillable[event.attempt] = task.id
    run.spent += budget.cost_of(task.usage)
    providers.attempt_ended(state, run, task, event)
    ended = Ended(event.attempt, event.number, event.error_class, event.message, event.counted)
    if free:
        let_go(state, task, moment)
    else:
        set_status(state, task, ended, moment)
    tell(task, event.TYPE, f"~{task.number}", event.error_class or "success")
    budget.heed(state, run)


def _retry_scheduled(state: State, event: RetryScheduled, moment: Moment) -> None:
    task = decided(state, event.TYPE, event.task)
    run = run_of(state)
    if run.options.restart_intensity is not None and event.error_class not in _NO_RESTART:
        run.restarts.append(moment.now)
    run.gave_up = run.gave_up or too_many_restarts(run, moment)
    set_status(state, task, Backoff(event.delay, moment.now), moment)
    tell(task, event.TYPE, f"~{event.number}")


# --- ends of tasks --------------------------------------------------------------------------------------------------


def _completed(state: State, event: TaskCompleted, moment: Moment) -> None:
    task = decided(state, event.TYPE, event.task)
    task.commit, task.ended_at, task.ordered = event.commit_sha, moment.wall, None
    set_status(state, task, Done(event.attempt), moment)
    tell(task, event.TYPE)
    for dependant in state.dependants(task):
        dependant.open -= 1
        if dependant.open == 0 and cell(dependant, DEPENDENCIES_DONE) is Ready:
            set_status(state, dependant, Ready(), moment)


def _failed(state: State, event: TaskFailed, moment: Moment) -> None:
    task = decided(state, event.TYPE, event.task)
    run = run_of(state)
    if run.options.fail_fast:
        run.gave_up = run.gave_up or FAIL_FAST
    task.ended_at, task.ordered, task.approved = moment.wall, None, False
    set_status(state, task, Failed(event.error_class, event.error), moment)
    tell(task, event.TYPE, event.error_class)


def _blocked(state: State, event: TaskBlocked, moment: Moment) -> None:
    task = decided(state, event.TYPE, event.task)
    set_status(state, task, Blocked(event.blocked_by), moment)
    tell(task, event.TYPE, *event.blocked_by[:3])


def _skipped(state: State, event: TaskSkipped, moment: Moment) -> None:
    task = decided(state, event.TYPE, event.task)
    set_status(state, task, Skipped(event.reason), moment)
    tell(task, event.TYPE, event.reason)


_APPLY: dict[type[Event], Callable[[State, Any, Moment], None]] = {
    RunStarted: run_started,
    RunResumed: run_resumed,
    ControlReceived: control,
    PlanEdited: plan_edited,
    RunEnded: run_ended,
    WorkerDispatched: _dispatched,
    AttemptAdopted: _adopted,
    ReportReceived: _reported,
    ProgressReceived: _progressed,
    ResultReceived: _result,
    WorkerGone: _gone,
    LaunchFailed: _not_launched,
    StopDecided: _stop_decided,
    AttemptEnded: _attempt_ended,
    RetryScheduled: _retry_scheduled,
    TimerFired: timers.fired,
    TaskCompleted: _completed,
    TaskFailed: _failed,
    TaskBlocked: _blocked,
    TaskSkipped: _skipped,
    TaskCancelled: gates.task_cancelled,
    ApprovalAsked: gates.approval_asked,
    ManualOpened: gates.manual_opened,
    ProviderPaused: providers.paused,
    ProviderResumed: providers.resumed,
    RunGaveUp: run_gave_up,
    UsageReported: budget.usage_reported,
    PlanReloaded: plan_reloaded,
    GrantSeen: grant_seen,
    GrantGone: grant_gone,
    WaitBegan: wait_began,
    WaitEnded: wait_ended,
    AttemptLife: life_judged,
    DeadlockDetected: deadlock_detected,
    DeadlockResolved: deadlock_resolved,
}
