"""Every order of an operator: what it changes, when it means nothing, and that it is said why."""

from __future__ import annotations

import pytest

from bus.wire import AttemptId, TaskId
from conductor.core.events import AttemptEnded, ControlReceived, RunResumed, StopDecided, TaskFailed, TimerFired
from conductor.core.instructions import DeliverText, TerminateWorker
from conductor.core.supervision import TaskCancelled
from conductor.core.task import RunOptions
from conductor.core.wait_events import WaitBegan, WaitEnded
from conductor.testing import Play, plan_of, task_of


def resumed(play: Play) -> Play:
    """Let another conductor take the round over."""
    run = play.machine.state.run
    assert run is not None
    return play.fact(RunResumed(run.id, run.options, len(play.journal)))


# --- pause and resume -----------------------------------------------------------------------------------------------


def test_a_paused_run_starts_nothing_lets_what_runs_end_and_goes_on_when_it_is_told_to(play: Play) -> None:
    play.start("a", "b < a", "c", max_workers=1).order("pause")
    assert (play.refused, play.told) == (None, [])
    play.result("a")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_COMPLETE a"]
    assert play.running == []
    play.order("pause")
    assert play.refused == "already paused by me"
    assert play.order("resume").launched == ["b"]
    play.order("resume")
    assert play.refused == "already so: nothing is paused"


def test_a_pause_ends_with_its_conductor(play: Play) -> None:
    play.start("a", "b", max_workers=1).order("pause").result("a")
    assert resumed(play).launched == ["b"]


def test_a_pause_ordered_while_no_conductor_lives_holds_for_the_next_one(play: Play) -> None:
    play.start("a", "b", max_workers=1).order("pause", ahead=True)
    assert play.order("pause", ahead=True).refused == "already paused by me"
    resumed(play).result("a")
    assert play.launched == []
    assert play.order("resume").launched == ["b"]
    play.result("b").order("pause", ahead=True).start("a", "b", "c")
    assert play.launched == []
    assert play.order("resume").launched == ["c"]


def test_a_pause_ordered_ahead_can_be_taken_back(play: Play) -> None:
    play.order("pause", ahead=True).order("resume", ahead=True)
    assert play.start("a").launched == ["a"]


def test_pause_means_nothing_where_no_run_goes_on(play: Play) -> None:
    assert play.order("pause").refused == "no run is under way"
    assert play.start("a", "b").order("drain").order("pause").refused == "the run is being ended"


# --- cancel ---------------------------------------------------------------------------------------------------------


def test_what_has_not_begun_is_cancelled_at_once_and_blocks_what_needs_it(play: Play) -> None:
    play.start("a", "b < a", "c < b", "d", max_workers=1).order("cancel", "b")
    assert play.words == ["TASK_CANCELLED b", "TASK_BLOCKED c"]
    assert play.order("cancel", "d").words == ["TASK_CANCELLED d"]
    play.result("a")
    assert play.statuses == {"a": "done", "b": "cancelled", "c": "blocked", "d": "cancelled"}
    assert play.view.state == "failed"


def test_a_running_task_is_stopped_first_and_whatever_it_achieved_it_is_cancelled(play: Play) -> None:
    play.start("a").order("cancel", "a", "not needed")
    attempt = play.attempt("a")
    assert play.decided == [StopDecided(TaskId("a"), attempt, "cancelled")]
    assert play.told == [TerminateWorker(TaskId("a"), attempt, "cancelled")]
    play.order("cancel", "a")
    assert play.refused == "already being cancelled: task a"
    play.result("a")
    ended, cancelled, _ = play.decided
    assert isinstance(ended, AttemptEnded)
    assert (ended.error_class, ended.counted, ended.message) == ("cancelled", False, "stopped: cancelled by me")
    assert cancelled == TaskCancelled(TaskId("a"), TaskId("a"), "operator:me")


def test_a_cancelled_back_off_ends_at_once_with_its_timer(play: Play) -> None:
    play.start("a", "b", retries=1).result("a", "fails").order("cancel", "a")
    assert play.words == ["TASK_CANCELLED a"]
    assert play.timers == ["-retry:a"]


def test_a_task_that_is_cancelled_while_it_is_stopped_for_another_reason_is_cancelled(play: Play) -> None:
    play.start("a").control("stop").order("cancel", "a").result("a", "stopped")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_CANCELLED a", "RUN_ENDED"]


def test_a_cancel_recorded_while_no_conductor_lives_is_carried_out_by_the_next_one(play: Play) -> None:
    play.start("a", "b < a")
    order = play.machine.resolve(ControlReceived("cancel", "operator:me", "a", ahead=True))
    play.machine.handle(order, play.now, decides=False)
    play.journal.append((play.now, order))
    assert resumed(play).words == ["STOP a"]
    play.gone("a")
    assert play.words[1:] == ["TASK_CANCELLED a", "TASK_BLOCKED b", "RUN_ENDED"]


def test_a_cancel_between_rounds_holds_for_the_next_one(play: Play) -> None:
    plan = plan_of("a", "b")
    play.start(plan, max_workers=1).control("stop").result("a", "stopped").order("cancel", "a")
    assert (play.refused, play.decided) == (None, [])
    assert play.start(plan, max_workers=1).words == ["TASK_CANCELLED a", "WORKER_DISPATCHED b"]
    play.result("b").start(plan)
    assert play.launched == ["a"]


@pytest.mark.parametrize(
    ("id", "why"),
    [
        ("done", "task done is done"),
        ("failed", "task failed has failed, and is not going to run"),
        ("blocked", "task blocked is blocked, and is not going to run"),
        ("cancelled", "already cancelled by me"),
        ("x", "the run has no task x"),
        (None, "`cancel` needs a task"),
    ],
)
def test_there_is_nothing_to_cancel(play: Play, id: str | None, why: str) -> None:
    play.start("done", "failed", "blocked < failed", "cancelled", "left", retries=0)
    play.result("done").result("failed", "fails").order("cancel", "cancelled").gone("cancelled").order("cancel", id)
    assert (play.refused, play.decided) == (why, [])


# --- retry ----------------------------------------------------------------------------------------------------------


def test_a_retry_takes_back_what_failed_and_what_only_that_blocked(play: Play) -> None:
    play.start("a", "b < a", "c < a b", "x", "y < a x", "z", retries=0)
    play.result("a", "fails").result("x", "fails").order("retry", "a")
    assert play.launched == ["a"]
    assert play.statuses == {
        "a": "running",
        "b": "pending",
        "c": "pending",
        "x": "failed",
        "y": "blocked",
        "z": "running",
    }
    assert play.seen("y").blocked_by == ("x",)
    play.order("retry", "x").result("a").result("x").result("b").result("c").result("y").result("z")
    assert play.view.state == "done"


def test_a_retried_task_has_fresh_budgets(play: Play) -> None:
    play.start("a", "b", retries=1).result("a", "fails").timer("a").result("a", "fails").order("retry", "a")
    play.result("a", "fails")
    assert play.words == ["ATTEMPT_ENDED a", "RETRY_SCHEDULED a"]
    assert play.seen("a").attempts == 3


def test_a_retry_of_a_back_off_begins_now_and_its_timer_means_nothing(play: Play) -> None:
    play.start("a", retries=1).result("a", "fails").order("retry", "a")
    assert (play.launched, play.timers) == (["a"], ["-retry:a"])


def test_a_retry_after_the_end_takes_back_and_the_round_is_one_with_work_left(play: Play) -> None:
    plan = plan_of("a", "b < a")
    play.start(plan, retries=0).result("a", "fails").order("retry", "a")
    assert (play.decided, play.statuses) == ([], {"a": "ready", "b": "pending"})
    assert (play.view.state, play.view.reason, play.view.stopped_by) == ("stopped", "retry", "operator:me")
    assert play.start(plan).launched == ["a"]


def test_a_retry_of_what_was_cancelled_or_skipped(play: Play) -> None:
    tasks = [task_of("a", estimate=9.0), task_of("b", estimate=1.0), task_of("c < b", estimate=1.0)]
    play.start(*tasks, max_workers=1, retries=0, fail_fast=True).order("cancel", "c").result("a", "fails")
    assert play.statuses == {"a": "failed", "b": "skipped", "c": "cancelled"}
    play.order("retry", "b").order("retry", "c")
    assert play.statuses == {"a": "failed", "b": "ready", "c": "pending"}


def test_a_retry_takes_back_what_was_skipped_for_its_sake(play: Play) -> None:
    tasks = [task_of("c", estimate=9.0), task_of("a", estimate=1.0), task_of("b < a", estimate=1.0)]
    play.start(*tasks, max_workers=1, retries=0, fail_fast=True).result("c", "fails").order("retry", "a")
    assert play.statuses == {"c": "failed", "a": "ready", "b": "pending"}


@pytest.mark.parametrize(
    ("id", "why"),
    [
        ("done", "task done is done: only a reset starts it over"),
        ("blocked", "task blocked is blocked by failed: retry that"),
        ("running", "already running: task running"),
        ("left", "already going to run: task left"),
        ("unnamed", "task unnamed is not named by --only"),
    ],
)
def test_there_is_nothing_to_retry(play: Play, id: str, why: str) -> None:
    named = tuple(map(TaskId, ("done", "failed", "blocked", "running", "left")))
    play.start("done", "failed", "blocked < failed", "running", "left < running", "unnamed", retries=0, only=named)
    play.result("done").result("failed", "fails").order("retry", id)
    assert (play.refused, play.decided) == (why, [])


# --- steer and answer -----------------------------------------------------------------------------------------------


def test_a_text_is_delivered_to_the_running_attempt_and_again_by_a_conductor_that_takes_over(play: Play) -> None:
    play.start("a").order("steer", "a", "use tabs")
    attempt = play.attempt("a")
    first = DeliverText(attempt, "00000001-steer.md", "use tabs")
    assert play.told == [first]
    play.order("steer", "a", "and short lines")
    second = DeliverText(attempt, "00000002-steer.md", "and short lines")
    assert play.told == [second]
    assert [one for one in resumed(play).told if isinstance(one, DeliverText)] == [first, second]


def test_the_next_attempt_is_told_nothing_of_it(play: Play) -> None:
    play.start("a", retries=1).order("steer", "a", "use tabs").result("a", "fails").timer("a")
    assert [one for one in resumed(play).told if isinstance(one, DeliverText)] == []


def test_there_is_nobody_to_steer(play: Play) -> None:
    play.start("a", "b < a", "c", task_of("d", approve="before")).result("c")
    assert play.order("steer", "b", "x").refused == "task b has not begun: nobody would read it"
    assert play.order("steer", "c", "x").refused == "task c is done: nobody would read it"
    assert play.order("steer", "d", "x").refused == "task d waits for approval: nobody would read it"
    assert play.order("steer", "a").refused == "steering needs a text"
    play.order("cancel", "d").order("cancel", "a").result("a", "stopped")
    assert play.order("steer", "a", "x").refused == "task a was cancelled: nobody would read it"
    assert play.order("reject", "b").refused == "task b is blocked: there is nothing to reject"


def test_a_question_is_answered_once(play: Play) -> None:
    play.start("a")
    a, attempt = TaskId("a"), play.attempt("a")
    play.fact(WaitBegan(a, attempt, "0123abcd", "question", (), text="which one?")).order("answer", "0123abcd", "two")
    assert play.told == [DeliverText(attempt, "answer-0123abcd", "two")]
    record = play.journal[-1][1]
    assert isinstance(record, ControlReceived)
    assert (record.task, record.tasks) == ("a", ("a",))
    assert play.order("answer", "0123abcd", "three").refused == "already answered: 0123abcd"
    play.fact(WaitEnded(a, attempt, "0123abcd", "answered")).order("answer", "0123abcd", "two")
    assert play.refused == "there is no open question 0123abcd"
    play.fact(WaitBegan(a, attempt, "11111111", "question", (), text="and now?")).order("answer", "2", "x")
    assert play.refused == "there is no open question 2; open: 11111111"
    assert play.order("answer", "11111111").refused == "an answer needs a text"


# --- orders about the run -------------------------------------------------------------------------------------------


def test_orders_that_bring_facts_of_their_own_change_nothing_by_themselves(play: Play) -> None:
    play.start("a").order("unlock", "src/a.py").order("reload")
    assert (play.refused, play.told, play.decided) == (None, [], [])
    assert play.order("unlock").refused == "`unlock` needs a path"
    play.result("a").order("reload")
    assert play.refused == "no run is under way, and the next one reads the plan anyway"


def test_what_is_no_order_is_refused_and_counted(play: Play) -> None:
    play.start("a").order("frobnicate")
    assert play.refused == "`frobnicate` is no order"
    assert play.machine.refusal(ControlReceived("stop", "operator:me")) is None
    play.result("a")
    assert play.order("stop").refused == play.order("drain").refused == "no run is under way"
    assert play.machine.state.ignored == {"CONTROL": 3}


def test_a_reset_is_recorded_as_it_was_found_and_tells_its_task(play: Play) -> None:
    play.start("a").result("a")
    order = ControlReceived("reset", "operator:me", "a", None, (TaskId("a"),))
    found = play.machine.resolve(order)
    assert (found.tasks, found.task, found.refused) == (("a",), "a", None)
    assert play.machine.resolve(ControlReceived("reset", "operator:me")).task is None


def test_orders_of_older_journals_that_name_no_tasks_are_followed(play: Play) -> None:
    """The version before recorded every verb, and found no tasks for any."""
    play.start("a", "b", max_workers=1, retries=0)
    play.fact(ControlReceived("steer", "operator:me", "a", "hello"))
    assert play.told == [DeliverText(play.attempt("a"), "00000001-steer.md", "hello")]
    play.fact(ControlReceived("steer", "operator:me", "b", "hello"))
    play.fact(ControlReceived("answer", "operator:me", "q", "hello"))
    assert play.told == []
    play.result("a", "fails").fact(ControlReceived("retry", "operator:me", "a"))
    assert play.statuses["a"] == "ready"


def test_an_order_for_a_task_that_failed_by_a_person_is_said(play: Play) -> None:
    play.start(task_of("a", manual=True)).order("fail", "a", "no time")
    assert play.decided[0] == TaskFailed(
        TaskId("a"), None, TaskId("a"), "said to have failed by me: no time", "reported"
    )


def test_options_of_a_conductor_that_takes_over_do_not_undo_an_order(play: Play) -> None:
    play.start("a", "b").order("cancel", "b")
    run = play.machine.state.run
    assert run is not None
    play.fact(RunResumed(run.id, RunOptions(max_workers=1), 1))
    assert play.statuses["b"] == "running"
    assert play.words == ["STOP b"] or play.terminated == ["b"]
    assert AttemptId(play.attempt("b")) in play.machine.state.stopping_attempts()


def test_a_retry_lifts_fail_fast_once_no_failed_task_is_left(play: Play) -> None:
    play.start("a", "b", "c", "d", "e < a", max_workers=3, fail_fast=True, retries=0)
    play.result("a", "fails").result("b", "fails")
    play.order("retry", "b")
    assert play.launched == [], "a has failed still"
    play.order("retry", "a")
    assert play.launched == ["a", "b"]
    play.result("c").result("a").result("b").result("d").result("e")
    assert set(play.statuses.values()) == {"done"}
    assert play.view.state == "done"


def test_what_is_being_cancelled_is_not_taken_up_again_before_it_is(play: Play) -> None:
    play.start("a", "b", retries=1, max_workers=2).result("b", "fails").order("cancel", "a").order("retry", "a")
    assert play.refused == "task a is being cancelled, as me ordered: retry it once it is"
    play.result("a").order("retry", "a")
    assert play.refused is None
    play.timer("b").result("a").result("b")


def test_words_for_a_worker_between_two_attempts_are_refused_as_nobody_is_there(play: Play) -> None:
    play.start("a", retries=1).result("a", "fails")
    said = "task a has no attempt now, and waits for its next one: nobody would read it"
    assert play.order("steer", "a", "x").refused == said


def test_what_was_skipped_has_nobody_to_read_a_text(play: Play) -> None:
    play.start("a", "b", only=(TaskId("a"),)).order("steer", "b", "hello")
    assert play.refused == "task b was skipped: nobody would read it"
    play.result("a")


@pytest.mark.parametrize("why", ["run_timeout", "stop"])
def test_requirement_16_a_retry_that_would_come_to_nothing_is_refused_and_loses_no_failure(
    play: Play, why: str
) -> None:
    """A run that starts nothing more would only skip the task, and say nothing any more of how it failed."""
    play.start("a", "b", retries=0, run_timeout=60.0).result("a", "fails")
    if why == "stop":
        play.control("drain", "operator:me")
    else:
        play.fact(TimerFired("run_timeout"))
    play.order("retry", "a")
    assert play.refused is not None
    assert "starts nothing more: retry after it has ended" in play.refused
    assert play.statuses["a"] == "failed"
    if why == "stop":  # whoever takes the run over goes on with it
        assert play.machine.refusal(ControlReceived("retry", "operator:me", "a", ahead=True)) is None
    play.result("b")
    assert play.statuses["a"] == "failed"
    assert play.order("retry", "a").refused is None
