"""Limits of providers pause a worker kind and cost a task nothing; a breaker opens behind failures in a row."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core.events import AttemptEnded, RunResumed, TimerFired
from conductor.core.health import LONGEST_PAUSE, PROBE_EVERY, Health, ProviderPause, health_data, kind_of, pause_seconds
from conductor.core.instructions import StartTimer
from conductor.core.supervision import ProviderPaused, ProviderResumed
from conductor.core.task import RunOptions, TaskSpec
from conductor.core.wait_events import AttemptLife, DeadlockDetected
from conductor.testing import Play, task_of

A = TaskId("a")
KIND = "command:agent"


def tasks(*lines: str, program: str = "agent") -> list[TaskSpec]:
    return [task_of(line, run=(f"/opt/{program}", "x")) for line in lines]


def limit(play: Play, id: str, error_class: str = "rate_limit", after: float | None = None) -> Play:
    """Let the attempt of a task end by a limit of its provider."""
    more = {} if after is None else {"retry_after": after}
    report = {"verb": "fail", "class": error_class, "message": "slow down", **more}
    return play.result(id, "fails", report=report)


def timer(play: Play, after: float) -> Play:
    return play.fact(TimerFired(f"provider:{KIND}"), after=after)


def pause(play: Play) -> ProviderPause | None:
    return play.machine.state.providers.get(KIND)


def resumed(play: Play) -> Play:
    run = play.machine.state.run
    assert run is not None
    return play.fact(RunResumed(run.id, run.options, len(play.journal)))


def test_a_limit_uses_no_retry_and_pauses_its_kind_alone(play: Play) -> None:
    play.start(*tasks("a", "b"), *tasks("c", "d < c", program="make"), max_workers=2, retries=0)
    limit(play, "a", after=30.0) if "a" in play.running else None
    ended, paused, retry = play.decided[:3]
    assert isinstance(ended, AttemptEnded)
    assert (ended.error_class, ended.counted, ended.message) == ("rate_limit", False, "rate_limit: slow down")
    assert paused == ProviderPaused(KIND, "rate_limit", 30.0)
    assert retry.TYPE == "RETRY_SCHEDULED"
    assert StartTimer(f"provider:{KIND}", 30.0) in play.told
    assert StartTimer("retry:a", 0.0) in play.told
    play.timer("a")
    assert "a" not in play.running
    assert "b" not in play.running
    assert "c" in play.running


def test_the_pause_is_over_when_its_time_is(play: Play) -> None:
    limit(play.start(*tasks("a"), retries=0), "a", after=30.0).fact(TimerFired("retry:a"), after=0)
    assert play.launched == []
    timer(play, 30)
    assert play.decided[0] == ProviderResumed(KIND, "its time is up")
    assert play.launched == ["a"]
    play.result("a")
    assert play.view.state == "done"


def test_a_timer_that_comes_early_is_started_again_with_the_rest(play: Play) -> None:
    limit(play.start(*tasks("a"), retries=0), "a", after=60.0).fact(TimerFired("retry:a"), after=0)
    timer(play, 20)
    assert StartTimer(f"provider:{KIND}", 40.0) in play.told


def test_without_a_time_pauses_double_until_something_succeeds(play: Play) -> None:
    play.start(*tasks("a", "b < a"), retries=0)
    for seconds in (60.0, 120.0, 240.0):
        limit(play, "a", "overloaded")
        assert ProviderPaused(KIND, "overloaded", seconds) in play.decided
        play.fact(TimerFired("retry:a"), after=0)
        timer(play, seconds)
    play.result("a")
    limit(play, "b")
    assert ProviderPaused(KIND, "rate_limit", 60.0) in play.decided


def test_a_task_meets_a_limit_no_more_than_five_times_outside_of_a_pause(play: Play) -> None:
    play.start(*tasks("a"), retries=0)
    for _ in range(6):
        assert play.running == ["a"]
        limit(play, "a", after=1.0).fact(TimerFired("retry:a"), after=0)
        timer(play, 1)
    assert play.view.state == "failed"
    assert play.seen("a").error is not None
    assert play.machine.state.tasks[A].uncounted == {"rate_limit": 6}


def test_attempts_that_ran_beside_the_one_that_met_the_limit_cost_nothing_at_all(play: Play) -> None:
    play.start(*tasks("a", "b"), retries=0)
    limit(play, "a", after=60.0)
    limit(play, "b", after=90.0)
    assert "PROVIDER_PAUSED" not in play.words
    assert play.machine.state.tasks[TaskId("b")].uncounted == {}
    assert play.machine.state.providers[KIND].seconds == 60.0


def test_a_long_pause_is_probed_by_one_attempt_every_half_hour(play: Play) -> None:
    play.start(*tasks("a", "b"), max_workers=2, retries=0)
    limit(play, "a", "quota", after=5 * 3600.0)
    play.fact(TimerFired("retry:a"), after=0)
    limit(play, "b", "quota").fact(TimerFired("retry:b"), after=0)
    timer(play, PROBE_EVERY)
    assert play.launched == ["a"], "one of two"
    assert StartTimer(f"provider:{KIND}", PROBE_EVERY) in play.told
    found = pause(play)
    assert found is not None
    assert found.probe == play.attempt("a")
    limit(play, "a", "quota", after=4 * 3600.0)
    assert ProviderPaused(KIND, "quota", 4 * 3600.0) in play.decided, "said anew"
    assert play.machine.state.tasks[A].uncounted == {"quota": 1}, "a probe costs nothing"
    play.fact(TimerFired("retry:a"), after=0)
    timer(play, PROBE_EVERY)
    assert play.launched == ["a"]
    play.result("a")
    assert play.decided[2] == ProviderResumed(KIND, "a probe succeeded")
    assert play.launched == ["b"]


def test_the_pause_ends_at_its_time_although_a_probe_still_runs(play: Play) -> None:
    play.start(*tasks("a", "b"), retries=0)
    limit(play, "a", "quota", after=PROBE_EVERY + 10).fact(TimerFired("retry:a"), after=0)
    limit(play, "b", "quota").fact(TimerFired("retry:b"), after=0)
    assert timer(play, PROBE_EVERY).launched == ["a"]
    assert timer(play, 5).launched == [], "one probe at a time"
    assert timer(play, 5).launched == ["b"]


@pytest.mark.parametrize(
    ("name", "over"),
    [("fails", "a probe got through"), ("missing", "a probe got through"), ("revoked", None)],
)
def test_what_a_probe_that_fails_otherwise_says(play: Play, name: str, over: str | None) -> None:
    play.start(*tasks("a", "b"), retries=3)
    limit(play, "a", "quota", after=9 * PROBE_EVERY).fact(TimerFired("retry:a"), after=0)
    limit(play, "b", "quota")
    timer(play, PROBE_EVERY).result("a", name)
    if over:
        assert ProviderResumed(KIND, over) in play.decided
    else:
        found = pause(play)
        assert found is not None
        assert found.probe == "", "another one may try"


def test_what_time_does_not_mend_waits_for_resume(play: Play) -> None:
    limit(play.start(*tasks("a"), retries=0), "a", "auth", after=5.0)
    assert ProviderPaused(KIND, "auth", None) in play.decided
    play.fact(TimerFired("retry:a"), after=0)
    timer(play, 1e6)
    assert play.launched == []
    assert play.order("resume", "command:x").refused == "already so: command:x is not paused"
    play.order("resume", KIND)
    assert play.decided[0] == ProviderResumed(KIND, "resumed by me")
    assert play.launched == ["a"]


def test_resume_of_the_run_resumes_all_kinds(play: Play) -> None:
    limit(play.start(*tasks("a"), retries=0), "a", "billing").fact(TimerFired("retry:a"), after=0)
    assert play.order("pause").order("resume").launched == ["a"]


def test_a_conductor_that_takes_over_arms_what_is_left_of_a_pause(play: Play) -> None:
    limit(play.start(*tasks("a"), retries=0), "a", after=100.0).fact(TimerFired("retry:a"), after=9)
    resumed(play)
    assert StartTimer(f"provider:{KIND}", 90.0) in play.told
    assert play.launched == []


def test_a_new_round_begins_without_pauses(play: Play) -> None:
    limit(play.start(*tasks("a"), retries=0), "a", "auth").control("stop")
    assert play.start(*tasks("a")).launched == ["a"]


def test_requirement_19_limits_of_providers_are_no_restarts_of_the_run(play: Play) -> None:
    play.start(*tasks("a"), restart_intensity=1, retries=0)
    for _ in range(4):
        limit(play, "a", after=1.0).fact(TimerFired("retry:a"), after=0)
        timer(play, 1)
    assert play.running == ["a"]


def test_a_run_that_does_not_wait_gives_up_at_a_limit_once_nothing_else_runs(play: Play) -> None:
    play.start(*tasks("a"), *tasks("c", program="make"), retries=0, wait_for_people=False)
    limit(play, "a", after=3600.0).fact(TimerFired("retry:a"), after=0)
    assert play.view.state == "running"
    play.result("c")
    assert play.words[-3:] == ["RUN_GAVE_UP", "TASK_SKIPPED a", "RUN_ENDED"]
    assert (play.view.state, play.view.reason) == ("escalated", "provider_limit")


# --- the breaker ----------------------------------------------------------------------------------------------------


def test_a_kind_that_fails_in_a_row_is_not_started_for_a_while_then_tried_once(play: Play) -> None:
    play.start(*tasks("a", "b", "c", "d"), max_workers=2, retries=0, breaker=2, breaker_reset=300.0)
    first, second = play.running
    play.result(first, "fails")
    third = next(id for id in play.running if id != second)
    play.result(second, "fails")
    assert ProviderPaused(KIND, "breaker", 300.0) in play.decided
    assert StartTimer(f"provider:{KIND}", 300.0) in play.told
    assert play.result(third, "fails").running == []
    assert "PROVIDER_PAUSED" not in play.words, "it is open already"
    (fourth,) = timer(play, 300).launched
    play.result(fourth, "fails")
    assert ProviderPaused(KIND, "breaker", 300.0) in play.decided


def test_a_probe_that_succeeds_closes_the_breaker(play: Play) -> None:
    play.start(*tasks("a", "b", "c"), max_workers=1, retries=0, breaker=1)
    play.result(play.running[0], "fails")
    probe = timer(play, 300).running[0]
    assert pause(play) is not None
    resumed(play)
    assert [one for one in play.told if isinstance(one, StartTimer)] == [], "half open, it needs no timer"
    play.result(probe)
    assert ProviderResumed(KIND, "a probe succeeded") in play.decided
    play.result(play.running[0], "fails")
    assert play.view.state == "failed"


def test_requirement_12_a_probe_that_waits_for_a_task_of_its_own_kind_lets_it_go_first(play: Play) -> None:
    play.start(*tasks("a", "b", "c", "d"), max_workers=2, retries=0, breaker=1)
    for id in list(play.running):
        play.result(id, "fails")
    probe = timer(play, 300).running[0]
    (other,) = {"a", "b", "c", "d"} - {one.id for one in play.view.tasks if one.status == "failed"} - {probe}
    play.waits(probe, "task", other)
    assert [one.victim for one in play.decided if isinstance(one, DeadlockDetected)] == [play.attempt(probe)]
    play.result(probe, "stopped")
    assert play.running == [other]
    play.result(other).timer(probe).result(probe)
    assert play.view.counts["done"] == 2


def test_a_breaker_that_is_not_asked_for_any_more_closes(play: Play) -> None:
    play.start(*tasks("a", "b", "c"), max_workers=1, retries=0, breaker=1).result(play.running[0], "fails")
    probe = timer(play, 300).running[0]
    run = play.machine.state.run
    assert run is not None
    play.fact(RunResumed(run.id, RunOptions(max_workers=1, retries=0), 1)).result(probe, "fails")
    assert ProviderResumed(KIND, "a probe got through") in play.decided


def test_a_run_that_does_not_wait_waits_for_its_own_breaker(play: Play) -> None:
    play.start(*tasks("a", "b"), max_workers=1, retries=0, breaker=1, wait_for_people=False)
    play.result(play.running[0], "fails")
    assert play.view.state == "running"
    timer(play, 300).result(play.running[0])
    assert play.view.state == "failed"


def test_a_breaker_whose_probe_cannot_be_ended_is_not_waited_for(play: Play) -> None:
    play.start(*tasks("a", "b"), max_workers=1, retries=0, breaker=1).result(play.running[0], "fails")
    probe = timer(play, 300).running[0]
    play.fact(AttemptLife(TaskId(probe), play.attempt(probe), "unkillable", ""))
    assert (play.view.state, play.view.reason) == ("escalated", "unkillable")


def test_a_half_open_breaker_whose_next_task_cannot_start_is_not_waited_for(play: Play) -> None:
    first, other = task_of("a", run=("/opt/agent",), estimate=9.0), task_of("b", run=("make",), files=("f",))
    play.start(first, other, task_of("c", run=("/opt/agent",), files=("f",)), max_workers=2, retries=0, breaker=1)
    timer(play.result("a", "fails"), 300)
    play.fact(AttemptLife(TaskId("b"), play.attempt("b"), "unkillable", ""))
    assert (play.view.state, play.view.reason) == ("escalated", "unkillable")


# --- health and values ----------------------------------------------------------------------------------------------


def test_the_health_of_a_kind_tells_its_attempts_failures_and_median(play: Play) -> None:
    play.start(*tasks("a", "b", "c"), retries=0, max_workers=3)
    play.result("a", seconds=3.0).result("b", "fails", seconds=9.0)
    play.order("cancel", "c").result("c", "stopped")
    assert health_data(play.machine.state.health)[KIND] == {
        "attempts": 3,
        "failures": {"exit": 1},
        "in_a_row": 1,
        "median_seconds": 6.0,
    }
    assert Health().median is None


@pytest.mark.parametrize(
    ("task", "options", "kind"),
    [
        (task_of("a", run=("/usr/bin/make", "x")), RunOptions(command=("y",)), "command:make"),
        (task_of("a"), RunOptions(command=("bin/work", "{task_id}")), "command:work"),
        (task_of("a", agent={"name": "codex"}), RunOptions(command=("x",)), "codex"),
        (task_of("a"), RunOptions(agent="claude"), "claude"),
        (task_of("a"), RunOptions(), "command"),
    ],
)
def test_what_kind_a_worker_is(task: TaskSpec, options: RunOptions, kind: str) -> None:
    assert kind_of(task, options) == kind


@pytest.mark.parametrize(
    ("error_class", "named", "strikes", "seconds"),
    [
        ("rate_limit", 12, 0, 12.0),
        ("rate_limit", 1e9, 0, LONGEST_PAUSE),
        ("rate_limit", "soon", 0, 60.0),
        ("rate_limit", True, 1, 120.0),
        ("quota", None, 99, LONGEST_PAUSE),
        ("auth", 5, 0, None),
        ("breaker", None, 0, 300.0),
    ],
)
def test_how_long_a_pause_lasts(error_class: str, named: object, strikes: int, seconds: float | None) -> None:
    assert pause_seconds(error_class, named, strikes, RunOptions()) == seconds
