"""Drain, stop, and verbs that are not known."""

from __future__ import annotations

from bus.wire import TaskId
from conductor.core.events import AttemptEnded, PlanEdited, RunEnded, StopDecided
from conductor.core.instructions import TerminateWorker
from conductor.testing import Play, plan_of, task_of


def test_drain_starts_nothing_new_and_leaves_the_rest_without_an_end(play: Play) -> None:
    play.start("a", "b", "c < a", max_workers=1).control("drain")
    assert (play.told, play.decided) == ([], [])
    assert play.view.state == "draining"
    play.result("a")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_COMPLETE a", "RUN_ENDED"]
    assert play.decided[-1] == RunEnded("stopped", "stopped", dict(play.view.counts))
    assert play.statuses == {"a": "done", "b": "ready", "c": "ready"}
    assert play.view.stopped_by == "signal:INT"


def test_a_drained_run_whose_work_is_finished_is_done(play: Play) -> None:
    play.start("a").control("drain").result("a")
    assert play.decided[-1] == RunEnded("done", None, dict(play.view.counts))


def test_a_drained_run_whose_work_failed_is_failed(play: Play) -> None:
    play.start("a", "b < a", retries=0).control("drain").result("a", "fails")
    assert play.view.state == "failed"


def test_drain_lets_no_back_off_end(play: Play) -> None:
    play.start("a", "b").result("a", "fails").control("drain")
    assert play.timer("a").launched == []
    play.result("b")
    assert play.view.state == "stopped"


def test_a_back_off_ends_with_the_run_and_its_used_retries_stay(play: Play) -> None:
    plan = plan_of("a")
    play.start(plan, retries=1).result("a", "fails").control("drain")
    assert play.words == ["RUN_ENDED"]
    assert play.timers == ["-retry:a"]
    assert play.statuses == {"a": "ready"}
    play.start(plan, retries=1).result("a", "fails")
    assert play.words[:2] == ["ATTEMPT_ENDED a", "TASK_FAILED a"]


def test_stop_stops_every_running_attempt_which_costs_no_retry(play: Play) -> None:
    plan = plan_of("a", "b", "c")
    play.start(plan, max_workers=2, retries=0).control("stop", "signal:TERM")
    a, b = play.attempt("a"), play.attempt("b")
    assert play.decided == [StopDecided(TaskId("a"), a, "stopped"), StopDecided(TaskId("b"), b, "stopped")]
    assert play.told == [TerminateWorker(TaskId("a"), a, "stopped"), TerminateWorker(TaskId("b"), b, "stopped")]
    assert play.seen("a").stopping == "stopped"
    play.result("b", "stopped")
    ended = play.decided[0]
    assert isinstance(ended, AttemptEnded)
    assert (ended.error_class, ended.counted, ended.started) == ("stopped", False, True)
    assert play.words == ["ATTEMPT_ENDED b"]
    play.gone("a")
    assert play.words == ["ATTEMPT_ENDED a", "RUN_ENDED"]
    assert play.statuses == {"a": "ready", "b": "ready", "c": "ready"}
    assert play.view.reason == "stopped"
    play.start(plan, max_workers=2, retries=0).result("a", "fails")
    assert "TASK_FAILED a" in play.words
    play.result("b").result("c")


def test_several_stops_are_one(play: Play) -> None:
    play.start("a").control("drain").control("stop").control("stop")
    assert play.decided == []
    assert play.terminated == ["a"]  # the instruction is idempotent, and may have been lost
    play.result("a", "stopped")
    assert play.words == ["ATTEMPT_ENDED a", "RUN_ENDED"]


def test_a_drain_behind_a_stop_takes_nothing_back(play: Play) -> None:
    play.start("a").control("stop").control("drain")
    assert play.machine.state.run is not None
    assert play.machine.state.run.stopping


def test_work_finished_in_spite_of_a_stop_counts(play: Play) -> None:
    play.start("a", task_of("b", retries=0)).control("stop").result("a").result("b", "fails")
    assert play.statuses == {"a": "done", "b": "failed"}
    assert play.view.state == "failed"


def test_a_stop_with_nothing_running_ends_the_run(play: Play) -> None:
    play.start("a", retry_delay=5.0).result("a", "fails").control("stop")
    assert play.words == ["RUN_ENDED"]


def test_a_stop_after_the_end_is_ignored(play: Play) -> None:
    play.start("a").result("a").control("stop")
    assert play.decided == []
    assert play.machine.state.ignored == {"CONTROL": 1}


def test_unknown_verbs_are_ignored_by_name(play: Play) -> None:
    play.control("stop").start("a").control("frobnicate")
    assert (play.told, play.decided) == ([], [])
    assert play.machine.state.ignored == {"CONTROL": 2}


def test_requirement_33_an_edit_of_the_plan_is_shown_and_changes_nothing(play: Play) -> None:
    play.start("a", "b < a").fact(PlanEdited("plan.md", "0" * 64, ("new in plan.md: c",)))
    assert play.decided == play.told == []
    assert play.view.edited == ("new in plan.md: c",)
    play.result("a").result("b")
    play.fact(PlanEdited("plan.md", "1" * 64))
    assert play.view.edited == ("new in plan.md: c",), "the round is over"
    play.start("a", "b < a", "c").result("c")
    assert play.view.edited == ()
