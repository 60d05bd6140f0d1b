"""Gates and manual tasks: a person comes in, without a slot, and a run that was told so does not wait."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core.events import ControlReceived, RunResumed, TaskCompleted, TaskFailed, TimerFired
from conductor.core.instructions import StartTimer
from conductor.core.supervision import ApprovalAsked
from conductor.core.task import AwaitsApproval, Manual
from conductor.core.wait_events import WaitBegan, WaitEnded
from conductor.core.why import why
from conductor.testing import Play, plan_of, task_of

A = TaskId("a")


def resumed(play: Play) -> Play:
    run = play.machine.state.run
    assert run is not None
    return play.fact(RunResumed(run.id, run.options, len(play.journal)))


# --- approve: before ------------------------------------------------------------------------------------------------


def test_a_task_with_a_gate_before_it_takes_no_slot_until_it_is_approved(play: Play) -> None:
    play.start(task_of("a", approve="before"), "b", max_workers=1)
    assert play.words == ["APPROVAL_ASKED a", "WORKER_DISPATCHED b"]
    assert play.machine.state.tasks[A].status == AwaitsApproval("before", None)
    play.result("b")
    assert play.decided[-1].TYPE == "TASK_COMPLETE", "the run waits for the person"
    assert play.order("approve", "a").launched == ["a"]
    play.result("a")
    assert play.view.state == "done"


def test_a_gate_is_passed_once_for_all_attempts_and_anew_after_a_failure(play: Play) -> None:
    play.start(task_of("a", approve="before"), retries=1).order("approve", "a").result("a", "fails")
    assert play.timer("a").launched == ["a"]
    play.result("a", "fails").order("retry", "a").start(task_of("a", approve="before"))
    assert play.words == ["APPROVAL_ASKED a"]
    play.order("approve", "a").result("a")


def test_a_gate_can_be_opened_before_the_task_comes_to_it(play: Play) -> None:
    play.start("b", task_of("a < b", approve="before")).order("approve", "a")
    assert play.refused is None
    assert play.order("approve", "a").refused == "already approved: task a"
    assert play.result("b").launched == ["a"]
    play.result("a")


def test_what_is_rejected_has_failed_and_is_not_tried_again(play: Play) -> None:
    play.start(task_of("a", approve="before"), "b < a", retries=5).order("reject", "a", "too dear")
    assert play.decided[0] == TaskFailed(A, None, A, "rejected by me: too dear", "rejected")
    assert play.words[1:] == ["TASK_BLOCKED b", "RUN_ENDED"]


def test_a_gate_is_asked_again_in_the_next_round(play: Play) -> None:
    plan = plan_of(task_of("a", approve="before"))
    play.start(plan).control("stop")
    assert (play.words, play.view.state) == (["RUN_ENDED"], "stopped")
    assert play.start(plan).words == ["APPROVAL_ASKED a"]


# --- approve: after -------------------------------------------------------------------------------------------------


def test_work_that_needs_approval_is_done_only_then(play: Play) -> None:
    play.start(task_of("a", approve="after"), "b < a").fact(
        ControlReceived("approve", "operator:me", "a")
    )  # nothing is done yet
    play.result("a", report={"verb": "complete", "commit": "abc", "files": ["x"]})
    attempt = play.attempt("a")
    assert play.words == ["ATTEMPT_ENDED a", "APPROVAL_ASKED a"]
    assert play.decided[-1] == ApprovalAsked(A, "after", attempt)
    play.order("approve", "a")
    assert play.decided[0] == TaskCompleted(A, attempt, A, "abc", ("x",), (TaskId("b"),))
    assert play.launched == ["b"]
    play.result("b")


def test_work_that_waits_for_approval_outlives_the_round_and_the_next_start(play: Play) -> None:
    plan = plan_of(task_of("a", approve="after"), "b < a")
    play.start(plan).result("a").control("stop")
    assert play.view.state == "stopped"
    assert play.statuses["a"] == "waiting"
    play.order("approve", "a").start(plan)
    assert play.words == ["TASK_COMPLETE a", "WORKER_DISPATCHED b"]
    play.result("b")


def test_only_work_that_waits_for_approval_is_left_over_from_a_stop(play: Play) -> None:
    play.start(task_of("a", approve="after")).result("a").control("drain")
    assert play.view.state == "stopped"
    play.start(task_of("a", approve="after")).order("reject", "a")
    assert play.decided[0] == TaskFailed(A, play.attempt("a"), A, "rejected by me", "rejected")


def test_a_failure_needs_no_approval(play: Play) -> None:
    play.start(task_of("a", approve="after"), retries=0).result("a", "fails")
    assert play.view.state == "failed"


@pytest.mark.parametrize(
    ("verb", "id", "why"),
    [
        ("approve", "free", "task free asks for no approval"),
        ("approve", "after", "task after is running: there is nothing to approve"),
        ("approve", "done", "already approved: task done"),
        ("approve", "asked", None),
        ("reject", "after", "task after is running: there is nothing to reject"),
        ("reject", "asked", None),
    ],
)
def test_what_can_be_approved(play: Play, verb: str, id: str, why: str | None) -> None:
    gates = {"after": "after", "done": "before", "asked": "after"}
    play.start("free", *(task_of(name, approve=when) for name, when in gates.items())).order("approve", "done")
    play.result("done").result("asked").order(verb, id)
    assert play.refused == why


def test_an_order_at_a_gate_is_not_given_twice(play: Play) -> None:
    play.start(task_of("a", approve="after"), "b").result("a").control("stop").result("b", "stopped")
    play.order("approve", "a")
    assert play.order("approve", "a").refused == play.order("reject", "a").refused == "already ordered: approve"


# --- manual ---------------------------------------------------------------------------------------------------------


def test_a_manual_task_takes_no_slot_and_is_done_when_somebody_says_so(play: Play) -> None:
    play.start(task_of("a", manual=True), "b < a", "c", max_workers=1)
    assert play.words == ["MANUAL_OPENED a", "WORKER_DISPATCHED c"]
    play.result("c")
    assert play.view.state == "running"
    play.order("complete", "a")
    assert play.words == ["TASK_COMPLETE a", "WORKER_DISPATCHED b"]
    play.result("b")
    assert play.view.state == "done"


def test_a_manual_task_that_failed_blocks(play: Play) -> None:
    play.start(task_of("a", manual=True), "b < a").order("fail", "a", "no access")
    assert play.decided[0] == TaskFailed(A, None, A, "said to have failed by me: no access", "reported")
    assert play.words[1:] == ["TASK_BLOCKED b", "RUN_ENDED"]


def test_a_manual_task_with_gates(play: Play) -> None:
    play.start(task_of("a", manual=True, approve="before"))
    assert play.words == ["APPROVAL_ASKED a"]
    assert play.order("approve", "a").words == ["MANUAL_OPENED a"]
    play.order("complete", "a").start(task_of("b", manual=True, approve="after"))
    assert play.order("complete", "b").words == ["APPROVAL_ASKED b"]
    play.order("approve", "b")
    assert play.view.state == "done"


def test_a_manual_task_has_no_time_limit_but_its_own(play: Play) -> None:
    play.start(task_of("a", manual=True), task_of("b", manual=True, timeout=600.0), timeout=1.0)
    assert [one for one in play.told if isinstance(one, StartTimer)] == [StartTimer("manual:b", 600.0)]
    resumed(play)
    assert [one for one in play.told if isinstance(one, StartTimer)] == [StartTimer("manual:b", 600.0)]
    play.fact(TimerFired("manual:b"), after=600)
    assert play.decided == [TaskFailed(TaskId("b"), None, TaskId("b"), "nobody did it within 10m", "timeout")]
    play.fact(TimerFired("manual:b")).order("cancel", "a")
    assert play.view.ignored["TIMER_FIRED"] == 1


def test_the_time_of_a_person_stands_still_while_no_conductor_is_at_work(play: Play) -> None:
    play.start(task_of("a", manual=True, timeout=600.0)).fact(TimerFired("nothing"), after=99)
    play.now += 5000
    resumed(play)
    assert [one for one in play.told if isinstance(one, StartTimer)] == [StartTimer("manual:a", 501.0)]
    assert isinstance(play.machine.state.tasks[A].status, Manual)


def test_what_a_person_did_ahead_counts_once_the_task_is_due(play: Play) -> None:
    plan = plan_of(task_of("a", manual=True), "b < a")
    play.start(plan, wait_for_people=False)
    assert play.statuses == {"a": "skipped", "b": "skipped"}
    play.order("complete", "a").start(plan)
    assert play.words == ["MANUAL_OPENED a", "TASK_COMPLETE a", "WORKER_DISPATCHED b"]
    play.result("b")


@pytest.mark.parametrize(
    ("id", "why"),
    [
        ("b", "task b is not for a person: its worker says when it is done"),
        ("later", "task later depends on tasks that are not done"),
        ("done", "already done: task done"),
        ("failed", "task failed has failed"),
        ("off", "task off was cancelled"),
    ],
)
def test_who_may_say_that_a_task_is_done(play: Play, id: str, why: str) -> None:
    tasks = [task_of(name, manual=True) for name in ("done", "failed", "off", "later < b")]
    play.start("b", *tasks).order("complete", "done").order("fail", "failed").order("cancel", "off")
    assert play.order("complete", id).refused == why


def test_an_order_about_a_manual_task_is_not_given_twice(play: Play) -> None:
    plan = plan_of(task_of("a", manual=True))
    play.start(plan).control("stop").order("complete", "a")
    assert play.order("fail", "a").refused == "already ordered: complete"
    assert play.start(plan).view.state == "done"


# --- not waiting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [task_of("a", manual=True), task_of("a", approve="before")], ids=["manual", "before"])
def test_a_run_that_does_not_wait_gives_up_once_only_people_could_move_it_on(play: Play, task: object) -> None:
    play.start(task, "b < a", "c", wait_for_people=False)  # type: ignore[arg-type]
    assert play.running == ["c"], "others are done first"
    play.result("c")
    assert play.words == [
        *("ATTEMPT_ENDED c", "TASK_COMPLETE c", "RUN_GAVE_UP", "TASK_SKIPPED a", "TASK_SKIPPED b", "RUN_ENDED")
    ]
    assert (play.view.state, play.view.reason) == ("escalated", "waits_for_people")
    assert play.seen("a").reason == "waits_for_people"


def test_work_that_waits_for_approval_is_kept_by_a_run_that_does_not_wait(play: Play) -> None:
    plan = plan_of(task_of("a", approve="after"), "b < a")
    play.start(plan, wait_for_people=False).result("a")
    assert play.words[-3:] == ["RUN_GAVE_UP", "TASK_SKIPPED b", "RUN_ENDED"]
    play.order("approve", "a").start(plan)
    assert play.words == ["TASK_COMPLETE a", "WORKER_DISPATCHED b"]
    play.result("b")


def test_a_run_that_does_not_wait_stops_who_asks(play: Play) -> None:
    play.start("a", "b", wait_for_people=False)
    play.fact(WaitBegan(A, play.attempt("a"), "0000aaaa", "question", (), text="which?"))
    assert play.decided == [], "b still works"
    play.result("b")
    assert play.words[-2:] == ["RUN_GAVE_UP", "STOP a"]
    play.result("a", "stopped")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_SKIPPED a", "RUN_ENDED"]
    assert play.view.reason == "waits_for_people"


def test_a_question_that_was_answered_holds_nobody_up(play: Play) -> None:
    play.start("a", wait_for_people=True)
    play.fact(WaitBegan(A, play.attempt("a"), "0000aaaa", "question", ()))
    play.fact(WaitEnded(A, play.attempt("a"), "0000aaaa", "answered")).result("a")
    assert play.view.state == "done"


def test_a_paused_run_that_does_not_wait_gives_up(play: Play) -> None:
    play.order("pause", ahead=True).start("a", wait_for_people=False)
    assert play.words == ["RUN_GAVE_UP", "TASK_SKIPPED a", "RUN_ENDED"]
    assert play.view.state == "escalated"


def test_who_waits_for_nobody_lets_a_manual_task_run_out_of_its_own_time(play: Play) -> None:
    play.start(task_of("a", manual=True, timeout=1.0), "b < a", wait_for_people=False)
    assert play.words == ["MANUAL_OPENED a"]
    play.fact(TimerFired("manual:a"))
    assert play.words == ["TASK_FAILED a", "TASK_BLOCKED b", "RUN_ENDED"]
    assert play.view.state == "failed"
    assert why(play.view, A, 0.0) == ["Failed: nobody did it within 1s."]


def test_what_was_taken_back_after_the_end_of_a_run_is_said_so(play: Play) -> None:
    play.start("a", "b < a", retries=0).result("a", "fails").order("retry", "a")
    assert (
        why(play.view, A, 0.0)[-1]
        == "The run has ended; tasks of it were taken up again by me since, for the next run."
    )
