"""How each event changes the state. Nothing else changes it; nothing is decided here.

An event is checked against the transition table before anything is touched, so an impossible one leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bus.wire import AttemptId, TaskId
from conductor.core import graph
from conductor.core.events import (
    AttemptAdopted,
    AttemptEnded,
    ControlReceived,
    Event,
    LaunchFailed,
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
from conductor.core.state import ALIVE, MAX_STORY, Run, State, Task
from conductor.core.task import (
    Backoff,
    Blocked,
    Done,
    Ended,
    Exited,
    Failed,
    NotLaunched,
    Outcome,
    Pending,
    Ready,
    Running,
    Skipped,
    Status,
    Vanished,
)
from conductor.core.transitions import (
    ATTEMPT_STOPPED,
    DEPENDENCIES_DONE,
    IGNORED,
    ILLEGAL,
    RUN_TABLE,
    STATUSES,
    TASK_TABLE,
    IllegalTransition,
    Phase,
)

RETRY_KEY = "retry:"
"""Timers of this prefix end the back-off of the task named behind it."""

STOPPED = "stopped"
"""Class of an attempt that was ended because the run was; it costs the task nothing."""

FAIL_FAST = "fail_fast"


class Listener(Protocol):
    """Told of every change of a task's status, after it."""

    def changed(self, task: Task, before: Status) -> None:
        """`task.status` was `before`."""


class NobodyListens:
    """For a replay."""

    def changed(self, task: Task, before: Status) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event was journaled, and who follows its changes."""

    now: float
    wall: float
    listener: Listener


def apply(state: State, event: Event, moment: Moment) -> None:
    """Change the state by one event of the journal. Raises IllegalTransition, having changed nothing."""
    _APPLY[type(event)](state, event, moment)


# --- the round ------------------------------------------------------------------------------------------------------


def _next_phase(state: State, name: str) -> Phase | None:
    cell = RUN_TABLE[state.phase, name]
    if cell is ILLEGAL:
        raise IllegalTransition(name, state.phase.value)
    return cell if isinstance(cell, Phase) else None


def _run_started(state: State, event: RunStarted, moment: Moment) -> None:
    _next_phase(state, event.TYPE)
    for known in state.order:
        _cell(known, event.TYPE)
    before = state.tasks
    plan = event.plan
    state.plan, state.graph = plan, graph.build(plan.tasks)
    state.run = Run(event.run, event.plan_sha, event.project, event.options, moment.wall)
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
        state.tasks[spec.id] = task
    state.order = list(state.tasks.values())
    for task in state.order:
        task.open = sum(1 for dependency in state.dependencies(task) if not isinstance(dependency.status, Done))
        if task.open == 0 and isinstance(task.status, Pending):
            task.status = Ready()
    state.tally = dict.fromkeys(STATUSES, 0)
    for task in state.order:
        state.tally[type(task.status)] += 1
    state.running, state.reconciling = {}, {}


def _renew(task: Task) -> None:
    """Begin a round: what is done stays done; what had ended otherwise gets fresh budgets; the rest keeps its own."""
    if _cell(task, RunStarted.TYPE) is IGNORED:
        return
    if not isinstance(task.status, (Pending, Ready)):
        task.used, task.uncounted = 0, {}
    task.status = Pending()
    task.progress = None


def _run_resumed(state: State, event: RunResumed, moment: Moment) -> None:
    run, phase = _current_run(state, event.TYPE)
    run.phase, run.stopping, run.stopped_by = phase, False, None  # a stop binds the conductor that it was meant for
    run.options = event.options
    run.resumed += 1
    failed = state.tally[Failed] > 0
    run.gave_up = FAIL_FAST if event.options.fail_fast and failed else None
    state.reconciling = {id: None for id in state.running if isinstance(state.tasks[id].status, Running)}


def _current_run(state: State, name: str) -> tuple[Run, Phase]:
    phase = _next_phase(state, name)
    assert state.run is not None
    assert phase is not None
    return state.run, phase


def _control(state: State, event: ControlReceived, moment: Moment) -> None:
    if event.verb not in ("drain", "stop") or state.run is None:
        _ignore(state, event.TYPE)
        return
    phase = _next_phase(state, event.verb.upper())
    if phase is None:
        _ignore(state, event.TYPE)
        return
    state.run.phase = phase
    state.run.stopping = state.run.stopping or event.verb == "stop"
    state.run.stopped_by = event.who


def _run_ended(state: State, event: RunEnded, moment: Moment) -> None:
    run, phase = _current_run(state, event.TYPE)
    busy = [task for task in state.order if TASK_TABLE[type(task.status), event.TYPE] is ILLEGAL]
    if busy:
        raise _illegal(busy[0], event.TYPE)
    run.phase, run.end, run.reason, run.ended_at = phase, event.state, event.reason, moment.wall
    if state.tally[Backoff]:
        for task in state.order:
            if isinstance(task.status, Backoff):
                _set(state, task, Ready(), moment)


# --- attempts -------------------------------------------------------------------------------------------------------


def _dispatched(state: State, event: WorkerDispatched, moment: Moment) -> None:
    task = _decided(state, event.TYPE, event.task)
    if event.number <= task.number:
        raise _illegal(task, f"{event.TYPE} with number {event.number}")
    task.attempt, task.number = event.attempt, event.number
    task.report = task.progress = task.usage = task.commit = task.ended_at = None
    task.started_at = moment.wall
    _set(state, task, Running(event.attempt, event.number), moment)
    _tell(task, event.TYPE, event.attempt)


def _adopted(state: State, event: AttemptAdopted, moment: Moment) -> None:
    if task := _current(state, event.TYPE, event.task, event.attempt):
        state.reconciling.pop(task.id, None)
        _tell(task, event.TYPE, event.attempt)


def _reported(state: State, event: ReportReceived, moment: Moment) -> None:
    if task := _current(state, event.TYPE, event.task, event.attempt):
        task.report = event.report
        _tell(task, event.TYPE, event.attempt)


def _progressed(state: State, event: ProgressReceived, moment: Moment) -> None:
    if task := _current(state, event.TYPE, event.task, event.attempt):
        task.progress = (event.pct, event.text)


def _result(state: State, event: ResultReceived, moment: Moment) -> None:
    _exited(state, event, event.exit, moment)


def _gone(state: State, event: WorkerGone, moment: Moment) -> None:
    _exited(state, event, Vanished(event.started, event.detail), moment)


def _not_launched(state: State, event: LaunchFailed, moment: Moment) -> None:
    _exited(state, event, NotLaunched(event.error), moment)


def _exited(state: State, event: ResultReceived | WorkerGone | LaunchFailed, outcome: Outcome, moment: Moment) -> None:
    task = _current(state, event.TYPE, event.task, event.attempt)
    if task is None or not isinstance(task.status, Running):
        return
    state.reconciling.pop(task.id, None)
    if isinstance(event, ResultReceived):
        task.report = event.exit.report or task.report
        task.usage = event.exit.usage
    _set(state, task, Exited(event.attempt, task.number, task.status.stopping, outcome), moment)
    _tell(task, event.TYPE, event.attempt)


def _stop_decided(state: State, event: StopDecided, moment: Moment) -> None:
    task = _decided(state, event.TYPE, event.task, event.attempt)
    _set(state, task, Running(event.attempt, task.number, event.reason), moment)
    _tell(task, event.TYPE, event.attempt, event.reason)


def _attempt_ended(state: State, event: AttemptEnded, moment: Moment) -> None:
    stopped = event.error_class == STOPPED
    task = _decided(state, ATTEMPT_STOPPED if stopped else event.TYPE, event.task, event.attempt)
    task.last, task.ended_at = event, moment.wall
    task.started += event.started
    if event.error_class is not None and not stopped:
        if event.counted:
            task.used += 1
        else:
            kind = event.error_class if event.started else "never_started"
            task.uncounted = {**task.uncounted, kind: task.uncounted.get(kind, 0) + 1}
    ended = Ended(event.attempt, event.number, event.error_class, event.message, event.counted)
    _set(state, task, Ready() if stopped else ended, moment)
    _tell(task, event.TYPE, event.attempt, event.error_class or "success")


def _retry_scheduled(state: State, event: RetryScheduled, moment: Moment) -> None:
    task = _decided(state, event.TYPE, event.task)
    _set(state, task, Backoff(event.delay, moment.now), moment)
    _tell(task, event.TYPE, event.number)


def _timer_fired(state: State, event: TimerFired, moment: Moment) -> None:
    id = TaskId(event.key.removeprefix(RETRY_KEY))
    task = state.tasks.get(id) if event.key.startswith(RETRY_KEY) else None
    if task is None or _cell(task, event.TYPE) is IGNORED:
        _ignore(state, event.TYPE)
        return
    _set(state, task, Ready(), moment)
    _tell(task, event.TYPE)


# --- ends of tasks --------------------------------------------------------------------------------------------------


def _completed(state: State, event: TaskCompleted, moment: Moment) -> None:
    task = _decided(state, event.TYPE, event.task)
    task.commit, task.ended_at = event.commit_sha, moment.wall
    _set(state, task, Done(event.attempt), moment)
    _tell(task, event.TYPE)
    for dependant in state.dependants(task):
        dependant.open -= 1
        if dependant.open == 0 and _cell(dependant, DEPENDENCIES_DONE) is Ready:
            _set(state, dependant, Ready(), moment)


def _failed(state: State, event: TaskFailed, moment: Moment) -> None:
    task = _decided(state, event.TYPE, event.task)
    if state.run and state.run.options.fail_fast:
        state.run.gave_up = FAIL_FAST
    task.ended_at = moment.wall
    _set(state, task, Failed(event.error_class, event.error), moment)
    _tell(task, event.TYPE, event.error_class)


def _blocked(state: State, event: TaskBlocked, moment: Moment) -> None:
    task = _decided(state, event.TYPE, event.task)
    _set(state, task, Blocked(event.blocked_by), moment)
    _tell(task, event.TYPE, *event.blocked_by[:3])


def _skipped(state: State, event: TaskSkipped, moment: Moment) -> None:
    task = _decided(state, event.TYPE, event.task)
    _set(state, task, Skipped(event.reason), moment)
    _tell(task, event.TYPE, event.reason)


# --- shared ---------------------------------------------------------------------------------------------------------


def _cell(task: Task, name: str) -> Any:
    cell = TASK_TABLE[type(task.status), name]
    if cell is ILLEGAL:
        raise _illegal(task, name)
    return cell


def _illegal(task: Task, name: str) -> IllegalTransition:
    return IllegalTransition(name, type(task.status).__name__.lower(), task=task.id, story=task.story)


def _current(state: State, name: str, id: TaskId, attempt: AttemptId) -> Task | None:
    """Return the task of a fact about its newest attempt; None, counted, where the fact is late or means nothing."""
    task = state.tasks.get(id)
    if task is None or task.attempt != attempt or _cell(task, name) is IGNORED:
        _ignore(state, name)
        return None
    return task


def _decided(state: State, name: str, id: TaskId, attempt: AttemptId | None = None) -> Task:
    """Return the task of a decision. Decisions are never late: what does not fit is impossible."""
    task = state.tasks.get(id)
    if task is None:
        raise IllegalTransition(name, "a plan without it", task=id)
    if attempt is not None and task.attempt != attempt:
        raise _illegal(task, f"{name} of attempt {attempt}")
    _cell(task, name)
    return task


def _ignore(state: State, name: str) -> None:
    state.ignored[name] = state.ignored.get(name, 0) + 1


def _set(state: State, task: Task, status: Status, moment: Moment) -> None:
    before = task.status
    task.status = status
    state.tally[type(before)] -= 1
    state.tally[type(status)] += 1
    if isinstance(status, ALIVE):
        state.running.setdefault(task.id)
    elif isinstance(before, ALIVE):
        del state.running[task.id]
    moment.listener.changed(task, before)


def _tell(task: Task, name: str, *words: object) -> None:
    text = " ".join((name, *map(str, words)))
    task.story = (*task.story[-MAX_STORY + 1 :], text)


_APPLY: dict[type[Event], Callable[[State, Any, Moment], None]] = {
    RunStarted: _run_started,
    RunResumed: _run_resumed,
    ControlReceived: _control,
    RunEnded: _run_ended,
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
    TimerFired: _timer_fired,
    TaskCompleted: _completed,
    TaskFailed: _failed,
    TaskBlocked: _blocked,
    TaskSkipped: _skipped,
}
