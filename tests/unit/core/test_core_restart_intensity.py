"""A run whose attempts fail faster than it may be gives up before its tasks do."""

from __future__ import annotations

from bus.wire import TaskId
from conductor.core.events import LaunchFailed, RunResumed, TimerFired, WorkerGone
from conductor.core.task import RunOptions
from conductor.core.why import gave_up_text, why
from conductor.testing import Play

A = TaskId("a")


def failing(play: Play, *tasks: str, limit: int | None = 3, window: float = 100.0, **options: int) -> Play:
    return play.start(*tasks, retries=50, restart_intensity=limit, restart_window=window, **options)


def test_one_failure_more_than_the_limit_gives_up(play: Play) -> None:
    failing(play, "a", "b < a")
    for _ in range(3):
        play.result("a", "fails")
        assert play.view.gave_up is None
        play.fact(TimerFired("retry:a"))
    play.result("a", "fails")
    assert (play.view.state, play.view.reason) == ("escalated", "restart_intensity")
    assert {play.seen(id).reason for id in ("a", "b")} == {"restart_intensity"}


def test_running_attempts_end_and_nothing_new_starts(play: Play) -> None:
    failing(play, "a", "b", "c", "d < c", limit=1)
    play.result("a", "fails").result("b", "fails")
    assert play.view.gave_up == "restart_intensity"
    assert play.running == ["c"]
    play.fact(TimerFired("retry:a"))
    assert play.launched == []
    play.result("c")
    assert (play.view.state, play.view.reason) == ("escalated", "restart_intensity")
    assert play.statuses == {"a": "skipped", "b": "skipped", "c": "done", "d": "skipped"}


def test_a_success_in_between_begins_the_count_again(play: Play) -> None:
    failing(play, "a", "b", "c", limit=1)
    play.result("a", "fails").result("b").result("c", "fails")
    assert play.view.gave_up is None
    play.fact(TimerFired("retry:a")).fact(TimerFired("retry:c")).result("a").result("c")


def test_failures_outside_the_window_do_not_count(play: Play) -> None:
    failing(play, "a", limit=1, window=50.0)
    for _ in range(5):
        play.result("a", "fails").timer("a")
    assert play.view.gave_up is None
    play.result("a")


def test_a_last_attempt_does_not_count(play: Play) -> None:
    """Only those with a retry left do: the others end their task, which is no loop."""
    play.start(*"abcdef", retries=0, restart_intensity=1)
    for id in "abcdef":
        if id in play.running:
            play.result(id, "fails")
    assert (play.view.state, play.view.reason) == ("failed", None)


def test_no_limit(play: Play) -> None:
    failing(play, "a", limit=None)
    for _ in range(30):
        play.result("a", "fails").fact(TimerFired("retry:a"))
    assert play.view.gave_up is None
    assert play.machine.state.run is not None
    assert play.machine.state.run.restarts == []
    play.result("a")


def test_a_resumed_run_goes_by_its_new_options(play: Play) -> None:
    failing(play, "a", "b", limit=1, max_workers=2)
    play.result("a", "fails").fact(TimerFired("retry:a")).result("a", "fails")
    assert play.view.gave_up == "restart_intensity"
    options = RunOptions(retries=50, restart_intensity=None)
    play.fact(RunResumed(f"{1:016x}", options, 0))
    assert play.view.gave_up is None
    play.gone("b").fact(TimerFired("retry:a")).fact(TimerFired("retry:b")).result("a").result("b")
    assert play.view.state == "done"


def test_fail_fast_stays_the_reason_where_it_came_first(play: Play) -> None:
    play.start("a", "b", "c", fail_fast=True, retries=1, restart_intensity=0)
    play.result("a", "missing").result("b", "fails")
    assert play.view.gave_up == "fail_fast"
    play.result("c")
    assert (play.view.state, play.view.reason) == ("failed", "fail_fast")


def test_why_says_what_the_reason_means(play: Play) -> None:
    failing(play, "a", "b < a", "c", limit=1, window=90.0)
    play.result("a", "fails").fact(TimerFired("retry:a")).result("a", "fails")
    text = "the run gave up: more than 1 failed attempt within 1m 30s, and no success in between"
    play.fact(TimerFired("retry:a"))
    assert why(play.view, TaskId("a"), 0.0)[0] == f"It could start, but nothing new is started: {text}."
    play.result("c")
    assert why(play.view, TaskId("b"), 0.0)[0] == f"Skipped: {text}."
    assert gave_up_text("fail_fast", RunOptions()) == "a task failed, and --fail-fast starts nothing more then"
    assert gave_up_text("restart_intensity", None) == (
        "the run gave up: too many attempts failed, and none succeeded in between"
    )
    assert gave_up_text("needs a, which was skipped", None) == "needs a, which was skipped"


def test_a_conductor_that_dies_before_it_launches_costs_no_task_anything(play: Play) -> None:
    """However often: nothing was tried, so no limit of a task or of the run may be used up by it."""
    failing(play, "a", limit=1)
    for number in range(1, 9):
        assert play.seen("a").number == number
        play.fact(LaunchFailed(A, play.attempt("a"), "the conductor died before the launch", conductor_died=True))
        assert play.words == ["ATTEMPT_ENDED a", "WORKER_DISPATCHED a"]
    assert play.view.gave_up is None
    assert play.seen("a").retries_left == 50
    said = "The attempt before was never started: the conductor died before the launch; that uses up no retry."
    assert why(play.view, A, 0.0)[-1] == said
    play.result("a")


def test_reboots_are_no_failed_attempts_of_a_run(play: Play) -> None:
    """All workers of a machine die at once with it. Each task's own ceiling stays."""
    failing(play, "a", "b", "c", limit=1)
    for _ in range(4):
        for id in "abc":
            play.fact(WorkerGone(TaskId(id), play.attempt(id), True, "", reboot=True)).fact(TimerFired(f"retry:{id}"))
    assert play.view.gave_up is None
    play.result("a").result("b").result("c")
