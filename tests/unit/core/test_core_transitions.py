"""The tables are total, and an impossible event leaves no trace."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from bus.wire import AttemptId, TaskId
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
from conductor.core.state import MAX_STORY
from conductor.core.supervision import (
    ApprovalAsked,
    ManualOpened,
    PlanReloaded,
    RunGaveUp,
    TaskCancelled,
    UsageReported,
)
from conductor.core.task import (
    AwaitsApproval,
    Backoff,
    Blocked,
    Cancelled,
    Done,
    Ended,
    Exited,
    Failed,
    Manual,
    Pending,
    Ready,
    Running,
    RunOptions,
    Skipped,
    Status,
)
from conductor.core.transitions import (
    APPROVE,
    ATTEMPT_GIVEN_UP,
    ATTEMPT_STOPPED,
    DEPENDENCIES_DONE,
    IGNORED,
    ILLEGAL,
    RELOADED,
    RESET,
    RETRY,
    RUN_EVENTS,
    RUN_TABLE,
    STATUSES,
    TASK_EVENTS,
    TASK_TABLE,
    IllegalTransition,
    Phase,
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
from conductor.testing import Play, ending, plan_of, task_of

A = TaskId("a")
ONE = AttemptId("a~1-00000000")

SAMPLES: dict[type[Status], Status] = {
    Pending: Pending(),
    Ready: Ready(),
    Backoff: Backoff(1.0, 0.0),
    Running: Running(ONE, 1),
    Exited: Exited(ONE, 1, None, ending()),
    Ended: Ended(ONE, 1, None, "", False),
    Done: Done(ONE),
    Failed: Failed("exit", "exit 1"),
    Blocked: Blocked((TaskId("z"),)),
    Skipped: Skipped("fail_fast"),
    Cancelled: Cancelled("operator:me"),
    AwaitsApproval: AwaitsApproval("before", None),
    Manual: Manual(0.0),
}


def _ended(error_class: str | None) -> AttemptEnded:
    return AttemptEnded(A, ONE, 1, error_class, "", True, True, None, {})


EVENTS: dict[str, Event] = {
    "RUN_ENDED": RunEnded("done", None, {}),
    "WORKER_DISPATCHED": WorkerDispatched(A, AttemptId("a~2-00000000"), 2, "00000000"),
    "ATTEMPT_ADOPTED": AttemptAdopted(A, ONE),
    "REPORT": ReportReceived(A, ONE, {"verb": "complete"}),
    "PROGRESS": ProgressReceived(A, ONE, 10.0, ""),
    "STOP": StopDecided(A, ONE, "stopped"),
    "RESULT": ResultReceived(A, ONE, ending()),
    "WORKER_GONE": WorkerGone(A, ONE, True, ""),
    "LAUNCH_FAILED": LaunchFailed(A, ONE, ""),
    "ATTEMPT_ENDED": _ended("exit"),
    ATTEMPT_STOPPED: _ended("stopped"),
    "RETRY_SCHEDULED": RetryScheduled(A, 2, 1.0, "exit"),
    "TIMER_FIRED": TimerFired("retry:a"),
    "TASK_COMPLETE": TaskCompleted(A, ONE, A, None, (), ()),
    "TASK_FAILED": TaskFailed(A, ONE, A, "", "exit"),
    "TASK_BLOCKED": TaskBlocked(A, A, (TaskId("z"),), ""),
    "TASK_SKIPPED": TaskSkipped(A, A, "x"),
    "USAGE": UsageReported(A, ONE, {"cost_usd": 1.0}),
    ATTEMPT_GIVEN_UP: _ended("unkillable"),
    "APPROVAL_ASKED": ApprovalAsked(A, "before", None),
    "MANUAL_OPENED": ManualOpened(A),
    "TASK_CANCELLED": TaskCancelled(A, A, "operator:me"),
    "GRANT_SEEN": GrantSeen(A, ONE, "g", ("x",), False, 1),
    "GRANT_GONE": GrantGone(A, ONE, "g", "released"),
    "WAIT_BEGAN": WaitBegan(A, ONE, "w", "lock", ("x",)),
    "WAIT_ENDED": WaitEnded(A, ONE, "w", "granted"),
    "ATTEMPT_LIFE": AttemptLife(A, ONE, "quiet", ""),
    "DEADLOCK_DETECTED": DeadlockDetected(A, ONE, "d", ONE, (), "youngest"),
    "DEADLOCK_RESOLVED": DeadlockResolved(A, ONE, "d", ONE),
}
"""One sample of each event that comes alone. The others have tests of their own."""


def test_every_pair_is_a_target_ignored_or_illegal() -> None:
    assert set(TASK_TABLE) == set(product(STATUSES, TASK_EVENTS))
    assert set(SAMPLES) == set(STATUSES)
    assert set(EVENTS) | {"RUN_STARTED", DEPENDENCIES_DONE, RESET, RETRY, APPROVE, RELOADED} == set(TASK_EVENTS)
    assert set(RUN_TABLE) == set(product(Phase, RUN_EVENTS))
    assert set(TASK_TABLE.values()) <= {*STATUSES, IGNORED, ILLEGAL}


@pytest.mark.parametrize(
    ("status", "name"), list(product(STATUSES, EVENTS)), ids=lambda value: getattr(value, "__name__", value)
)
def test_the_machine_does_what_the_table_says(status: type[Status], name: str) -> None:
    play = Play().start("a")
    state = play.machine.state
    task = state.tasks[A]
    state.tally[type(task.status)] -= 1
    state.tally[status] += 1
    state.running = {A: None} if status in (Running, Exited) else {}
    task.status, task.attempt, task.number = SAMPLES[status], ONE, 1
    task.open = int(status is Pending)
    before, cell = play.machine.digest(), TASK_TABLE[status, name]
    if cell is ILLEGAL:
        with pytest.raises(IllegalTransition) as caught:
            play.machine.replay(EVENTS[name], 1.0)
        assert (caught.value.task, caught.value.story) == (A, task.story)
        assert play.machine.digest() == before
        return
    play.machine.replay(EVENTS[name], 1.0)
    if cell is IGNORED:
        assert task.status == SAMPLES[status]
        assert name == "RUN_ENDED" or state.ignored[name] == 1
    else:
        assert type(task.status) is cell


@pytest.mark.parametrize("name", RUN_EVENTS)
@pytest.mark.parametrize("phase", Phase)
def test_the_run_does_what_its_table_says(phase: Phase, name: str) -> None:
    play = Play()
    if phase is not Phase.NEVER:
        play.start("a")
    if phase is Phase.DRAINING:
        play.control("drain")
    if phase is Phase.ENDED:
        play.result("a")
    assert play.machine.state.phase is phase
    cell = RUN_TABLE[phase, name]
    options = RunOptions(max_workers=0)
    event = {
        "RUN_STARTED": RunStarted("r", "s", "/", options, plan_of("a", "b")),
        "RUN_RESUMED": RunResumed("r", options, 0),
        "RESET": ControlReceived("reset", "operator:me", "a", None, (A,)),
        "RESET_ALL": ControlReceived("reset", "operator:me"),
        "PLAN_RELOADED": PlanReloaded("s", plan_of("a"), "1" * 64, ()),
        "RUN_GAVE_UP": RunGaveUp("waits_for_people"),
    }
    before = play.machine.digest()

    def act() -> None:
        if name in event:
            play.fact(event[name])
        elif name == "RUN_GAVE_UP":
            play.machine.replay(event[name], 1.0)
        elif name == "RUN_ENDED":
            play.machine.replay(RunEnded("done", None, {}), 1.0)
        else:
            play.control(name.lower())

    if cell is ILLEGAL or (name == "RUN_ENDED" and phase in (Phase.RUNNING, Phase.DRAINING)):  # `a` still runs
        with pytest.raises(IllegalTransition):
            act()
        assert play.machine.digest() == before
        return
    act()
    assert play.machine.state.phase is (phase if cell is IGNORED else cell)


@pytest.mark.parametrize("status", STATUSES)
def test_a_new_round_does_what_the_table_says(status: type[Status]) -> None:
    play = Play().start("a").result("a")
    task = play.machine.state.tasks[A]
    task.status = SAMPLES[status]
    before, cell = play.machine.digest(), TASK_TABLE[status, "RUN_STARTED"]
    event = RunStarted("r", "s", "/", RunOptions(), plan_of("b", "a < b"))
    if cell is ILLEGAL:
        with pytest.raises(IllegalTransition):
            play.machine.replay(event, 1.0)
        assert play.machine.digest() == before
    else:
        play.machine.replay(event, 1.0)
        assert type(task.status) is (status if cell is IGNORED else cell)


@pytest.mark.parametrize("status", STATUSES)
def test_a_reset_does_what_the_table_says(status: type[Status]) -> None:
    """Without an open dependency, what goes back to Pending is ready at once."""
    play = Play().start("a").result("a")
    task = play.machine.state.tasks[A]
    task.status = SAMPLES[status]
    before, cell = play.machine.digest(), TASK_TABLE[status, RESET]
    event = ControlReceived("reset", "operator:me", "a", None, (A,))
    if cell is ILLEGAL:
        with pytest.raises(IllegalTransition):
            play.machine.replay(event, 1.0)
        assert play.machine.digest() == before
    else:
        assert cell is Pending
        play.machine.replay(event, 1.0)
        assert type(task.status) is Ready


def _set(play: Play, status: type[Status]) -> Any:
    """Let task `a` be in a status, whatever led to it."""
    state = play.machine.state
    task = state.tasks[A]
    state.running = {A: None} if status in (Running, Exited) else {}
    task.status, task.attempt, task.number = SAMPLES[status], ONE, 1
    task.open = int(status is Pending)
    state.recount()
    return task


@pytest.mark.parametrize("status", STATUSES)
def test_an_approval_does_what_the_table_says(status: type[Status]) -> None:
    play = Play().start(task_of("a", approve="before"))
    task, cell = _set(play, status), TASK_TABLE[status, APPROVE]
    play.machine.replay(ControlReceived("approve", "operator:me", "a", None, (A,)), 1.0)
    assert type(task.status) is (status if cell is IGNORED else cell)


@pytest.mark.parametrize("status", STATUSES)
def test_a_retry_does_what_the_table_says(status: type[Status]) -> None:
    """Without an open dependency, what goes back to Pending is ready at once. Of a blocked one it is refused: it goes
    back with what blocks it."""
    play = Play().start("a").result("a")
    task, cell = _set(play, status), TASK_TABLE[status, RETRY]
    play.machine.replay(ControlReceived("retry", "operator:me", "a", None, (A,)), 1.0)
    expected = {IGNORED: status, Ready: Ready, Pending: Blocked if status is Blocked else Ready}
    assert type(task.status) is expected[cell]


@pytest.mark.parametrize("status", STATUSES)
def test_a_reloaded_plan_does_what_the_table_says(status: type[Status]) -> None:
    """The new plan lets `a` depend on a task that is not done."""
    play = Play().start("a")
    task, cell = _set(play, status), TASK_TABLE[status, RELOADED]
    event = PlanReloaded("s", plan_of("b", "a < b"), "1" * 64, ())
    if cell is ILLEGAL:
        return  # neither outlives a pass, and this fact begins one
    play.machine.replay(event, 1.0)
    assert type(task.status) is (status if cell is IGNORED else cell)


def test_late_events_of_an_old_attempt_are_ignored_and_counted(play: Play) -> None:
    play.start("a", retries=1)
    old = play.attempt("a")
    play.result("a", "fails").timer("a")
    assert play.attempt("a") != old
    play.fact(ResultReceived(A, old, ending())).fact(ProgressReceived(A, old, 1.0, ""))
    play.fact(WorkerGone(A, old, True, "")).fact(ReportReceived(A, old, {})).fact(AttemptAdopted(A, old))
    assert play.running == ["a"]
    expected = {"RESULT": 1, "PROGRESS": 1, "WORKER_GONE": 1, "REPORT": 1, "ATTEMPT_ADOPTED": 1}
    assert play.machine.state.ignored == play.view.ignored == expected


def test_a_second_result_of_an_attempt_changes_nothing(play: Play) -> None:
    play.start("a", "b")
    first = play.attempt("a")
    play.result("a").fact(ResultReceived(A, first, ending("fails")))
    assert play.statuses["a"] == "done"
    assert play.decided == []


def test_facts_about_unknown_tasks_and_timers_are_ignored(play: Play) -> None:
    play.start("a").fact(ResultReceived(TaskId("x"), ONE, ending()))
    play.fact(TimerFired("retry:x")).fact(TimerFired("unknown"))
    assert play.machine.state.ignored == {"RESULT": 1, "TIMER_FIRED": 2}


@pytest.mark.parametrize(
    "event",
    [
        WorkerDispatched(TaskId("x"), ONE, 1, "00000000"),
        WorkerDispatched(TaskId("b"), AttemptId("b~1-00000000"), 0, "00000000"),
        StopDecided(A, AttemptId("a~1-ffffffff"), "stopped"),
    ],
    ids=["unknown task", "number used before", "other attempt"],
)
def test_a_decision_that_does_not_fit_is_impossible(play: Play, event: Event) -> None:
    play.start("a", "b", max_workers=1)
    before = play.machine.digest()
    with pytest.raises(IllegalTransition):
        play.machine.replay(event, 1.0)
    assert play.machine.digest() == before


def test_the_exception_carries_the_tasks_story(play: Play) -> None:
    play.start("a")
    play.result("a")
    with pytest.raises(IllegalTransition) as caught:
        play.machine.replay(TaskBlocked(A, A, (), ""), 1.0)
    assert caught.value.story == (
        "WORKER_DISPATCHED ~1",
        "RESULT ~1",
        "ATTEMPT_ENDED ~1 success",
        "TASK_COMPLETE",
    )
    assert "TASK_BLOCKED is impossible for task a in done; before it: WORKER_DISPATCHED" in str(caught.value)


def test_the_story_is_bounded(play: Play) -> None:
    play.start("a", retries=20)
    for _ in range(15):
        play.result("a", "fails").timer("a")
    assert len(play.machine.state.tasks[A].story) == MAX_STORY
