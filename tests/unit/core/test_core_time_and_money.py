"""Limits of time and money, of a run and of a group; and what is left behind when it cannot be ended."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core import budget
from conductor.core.events import AttemptEnded, ControlReceived, RunResumed, TaskFailed, TimerFired
from conductor.core.instructions import CloseAttempt, StartTimer
from conductor.core.supervision import UsageReported
from conductor.core.task import Group
from conductor.core.wait_events import AttemptLife
from conductor.testing import Play, plan_of, task_of

A, B = TaskId("a"), TaskId("b")


def resumed(play: Play) -> Play:
    run = play.machine.state.run
    assert run is not None
    return play.fact(RunResumed(run.id, run.options, len(play.journal)))


def timers(play: Play) -> dict[str, float]:
    return {one.key: one.seconds for one in play.told if isinstance(one, StartTimer)}


# --- the run's time -------------------------------------------------------------------------------------------------


def test_a_run_out_of_time_starts_nothing_more_and_lets_what_runs_end(play: Play) -> None:
    play.start("a", "b < a", "c", max_workers=1, run_timeout=600.0)
    assert timers(play) == {"run_timeout": 600.0}
    first = play.running[0]
    play.fact(TimerFired("run_timeout"), after=600)
    assert (play.launched, play.words) == ([], ["RUN_GAVE_UP"])
    play.result(first)
    assert play.view.state == "escalated"
    assert play.view.reason == "run_timeout"
    assert {one.reason for one in play.view.tasks if one.status == "skipped"} == {"run_timeout"}


def test_a_run_whose_last_task_ends_behind_its_time_is_done(play: Play) -> None:
    play.start("a", run_timeout=1.0).fact(TimerFired("run_timeout")).result("a")
    assert play.view.state == "done"


def test_the_time_of_a_run_stands_still_while_no_conductor_is_at_work(play: Play) -> None:
    play.start("a", run_timeout=600.0).fact(TimerFired("nothing"), after=99)
    play.now += 5000
    assert timers(resumed(play)) == {"run_timeout": 501.0}
    play.fact(TimerFired("nothing"), after=400)
    play.order("pause", ahead=True)  # recorded by nobody who works on the run
    play.now += 5000
    assert timers(resumed(play)) == {"run_timeout": 101.0}
    play.fact(TimerFired("nothing"), after=400)
    assert timers(resumed(play)) == {"run_timeout": 0.0}


# --- a group's time -------------------------------------------------------------------------------------------------


def group(*members: str, timeout: float | None = 300.0, id: str = "pg-1") -> Group:
    return Group(id, tuple(map(TaskId, members)), timeout=timeout)


def test_the_time_of_a_group_counts_from_its_first_start(play: Play) -> None:
    play.start("z", "a < z", "b < z", "c", groups=(group("a", "b"), group("c", timeout=None, id="pg-2")))
    assert timers(play) == {}
    play.result("z")
    assert timers(play) == {"group:pg-1": 300.0}
    play.fact(TimerFired("nothing"), after=99)
    play.now += 5000
    assert timers(resumed(play)) == {"group:pg-1": 201.0}


def test_a_group_out_of_time_is_stopped_and_the_rest_of_it_skipped_while_others_go_on(play: Play) -> None:
    play.start("a", "b < a", "c", "x", "d < x", groups=(group("a", "b", "c", "d"),), retries=5, max_workers=3)
    play.result("c", "fails").fact(TimerFired("group:pg-1"), after=300)
    assert play.words == ["TASK_SKIPPED b", "TASK_SKIPPED c", "TASK_SKIPPED d", "STOP a"]
    play.result("a", "stopped")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_FAILED a"]
    failed = play.decided[-1]
    assert isinstance(failed, TaskFailed)
    assert (failed.error_class, failed.error) == ("timeout", "stopped: its group pg-1 has run out of time")
    assert play.seen("b").reason == "group pg-1 has run out of time"
    play.fact(TimerFired("group:pg-1")).fact(TimerFired("group:pg-9")).result("x")
    assert play.view.state == "failed"
    assert play.view.ignored == {"TIMER_FIRED": 2}


def test_work_that_was_done_in_spite_of_it_counts(play: Play) -> None:
    play.start("a", groups=(group("a"),)).fact(TimerFired("group:pg-1")).result("a")
    assert play.view.state == "done"


def test_a_retry_gives_a_group_its_time_again(play: Play) -> None:
    play.start("a", "b", "z", groups=(group("a", "b"),), retries=0).fact(TimerFired("group:pg-1"), after=300)
    play.result("a", "stopped").result("b", "stopped").order("retry", "b")
    assert play.launched == ["b"]
    assert timers(play) == {"group:pg-1": 300.0}


# --- money ----------------------------------------------------------------------------------------------------------


def test_a_run_without_money_starts_nothing_more(play: Play) -> None:
    play.start("a", "b < a", "c < b", budget_usd=1.0, retries=1)
    play.fact(UsageReported(A, play.attempt("a"), {"cost_usd": 0.2, "input_tokens": 7}))
    assert play.seen("a").usage == {"cost_usd": 0.2, "input_tokens": 7}
    play.fact(UsageReported(A, play.attempt("a"), {"cost_usd": 0.4})).result("a", "fails").timer("a")
    play.result("a", usage={"cost_usd": 0.5})
    run = play.machine.state.run
    assert run is not None
    assert budget.spent(play.machine.state, run) == 0.9
    assert play.launched == ["b"]
    play.fact(UsageReported(B, play.attempt("b"), {"cost_usd": 0.1}))
    assert (play.launched, play.words) == ([], ["RUN_GAVE_UP"])
    play.result("b")
    assert (play.view.state, play.view.reason) == ("escalated", "budget_exceeded")
    assert play.seen("c").reason == "budget_exceeded"


def test_a_result_alone_can_use_the_money_up(play: Play) -> None:
    play.start("a", "b < a", budget_usd=1.0).result("a", usage={"cost_usd": 2})
    assert play.view.reason == "budget_exceeded"


def test_what_is_spent_is_known_to_a_conductor_that_takes_over(play: Play) -> None:
    play.start("a", "b < a", budget_usd=1.0).fact(UsageReported(A, play.attempt("a"), {"cost_usd": 1.5}))
    resumed(play).result("a")
    assert play.view.reason == "budget_exceeded"


def test_what_is_no_amount_costs_nothing() -> None:
    for odd in (None, {}, {"cost_usd": None}, {"cost_usd": True}, {"cost_usd": "1"}, {"cost_usd": -3}):
        assert budget.cost_of(odd) == 0.0


def test_usage_of_an_attempt_that_is_over_is_late(play: Play) -> None:
    play.start("a", "b").result("a").fact(UsageReported(A, play.attempt("a"), {"cost_usd": 9}))
    assert play.view.ignored == {"USAGE": 1}


# --- unkillable -----------------------------------------------------------------------------------------------------


def unkillable(play: Play, id: str) -> Play:
    return play.fact(AttemptLife(TaskId(id), play.attempt(id), "unkillable", "pid 7 (cat) in state D", {"pid": 7}))


def test_what_cannot_be_ended_keeps_its_slot_until_nothing_else_is_left(play: Play) -> None:
    play.start("a", "b", "c", "d < a", max_workers=2, retries=2).order("cancel", "a")
    unkillable(play, "a")
    assert play.decided == []
    for _ in range(2):
        (other,) = (id for id in play.running if id != "a")
        play.result(other)
    ended, _, cancelled = play.decided[-5:-2]
    assert isinstance(ended, AttemptEnded)
    assert (ended.error_class, ended.message, ended.counted) == (
        "unkillable",
        "cannot be ended: pid 7 (cat) in state D",
        False,
    )
    assert cancelled.TYPE == "TASK_CANCELLED"
    assert not any(isinstance(one, CloseAttempt) and one.task == "a" for one in play.told), "it keeps what it holds"
    assert (play.view.state, play.view.reason) == ("escalated", "unkillable")


def test_a_conductor_that_takes_over_starts_nothing_beside_what_cannot_be_ended(play: Play) -> None:
    play.start("a", "b", max_workers=1)
    machine, first = play.machine, play.running[0]
    unkillable(play, first)
    cut = [one.TYPE for _, one in play.journal].index("ATTEMPT_ENDED") + 1
    play.journal = play.journal[:cut]
    play.machine = play.replayed()
    assert play.machine is not machine
    assert resumed(play).launched == []
    assert play.view.reason == "unkillable"
    assert [*play.machine.state.unkillable.values()] == [first]


def test_what_cannot_be_ended_is_not_tried_again(play: Play) -> None:
    play.start("a", "b < a", retries=5, timeout=1.0)
    play.fact(AttemptLife(A, play.attempt("a"), "stuck", "", {"overdue": True}))
    unkillable(play, "a")
    assert play.words == ["ATTEMPT_ENDED a", "RUN_GAVE_UP", "TASK_FAILED a", "TASK_BLOCKED b", "RUN_ENDED"]
    assert play.seen("a").error is not None


def test_while_something_may_still_come_it_can_wait(play: Play) -> None:
    play.start("a", "b", task_of("m", manual=True), retries=1, max_workers=2).result("b", "fails")
    unkillable(play, "a")
    assert play.decided == [], "b is in back-off"
    play.timer("b").result("b")
    assert play.view.state == "running", "a person may do m"
    play.order("complete", "m")
    assert play.words[-1] == "RUN_ENDED"


def test_a_paused_run_may_go_on(play: Play) -> None:
    play.start("a", "b", max_workers=1).order("pause")
    unkillable(play, play.running[0])
    assert play.decided == []
    play.order("resume")
    assert play.view.state == "escalated"


def test_it_may_go_by_itself(play: Play) -> None:
    play.start("a", task_of("m", manual=True))
    unkillable(play, "a").result("a")
    assert play.statuses["a"] == "done"


@pytest.mark.parametrize("how", ["the task", "the track", "retry", "another plan"])
def test_requirement_18_what_could_not_be_ended_is_known_until_a_round_begins(play: Play, how: str) -> None:
    """The next round begins beside nothing: whoever begins it looks first."""
    play.start("a")
    one = play.attempt("a")
    unkillable(play, "a")
    assert play.machine.state.unkillable == {one: A}
    if how == "the task":
        play.fact(ControlReceived("reset", "operator:me", "a", None, (A,)))
    elif how == "the track":
        play.fact(ControlReceived("reset", "operator:me"))
    elif how == "retry":
        play.order("retry", "a", ahead=True)
    assert play.machine.state.unkillable == {one: A}
    assert play.replayed().state.unkillable == {one: A}
    play.start("z" if how == "another plan" else "a")
    assert not play.machine.state.unkillable


def test_an_unkillable_attempt_without_a_word_about_it(play: Play) -> None:
    play.start(plan_of("a")).fact(AttemptLife(A, play.attempt("a"), "unkillable", ""))
    ended = play.decided[0]
    assert isinstance(ended, AttemptEnded)
    assert ended.message == "cannot be ended"
