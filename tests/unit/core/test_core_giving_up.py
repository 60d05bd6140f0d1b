"""That a run gave up is recorded when it does, once, whatever the reason; nothing that follows hangs on the record."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core.events import RunResumed, TimerFired
from conductor.core.reasons import gave_up_line
from conductor.core.supervision import RunGaveUp, UsageReported
from conductor.core.task import RunOptions
from conductor.core.view import run_view
from conductor.core.why import why
from conductor.testing import Play, task_of

A, B, C, D = map(TaskId, "abcd")


def given_up(play: Play, reason: str) -> Play:
    """Let a run of four give up while c runs on."""
    play.start(
        "a", "b", "c", "d < b", max_workers=3, fail_fast=reason == "fail_fast", retries=1, **OPTIONS.get(reason, {})
    )
    if reason == "fail_fast":
        return play.result("a", "missing")
    if reason == "restart_intensity":
        return play.result("a", "fails").result("b", "fails")
    if reason == "run_timeout":
        return play.fact(TimerFired("run_timeout"), after=600)
    return play.fact(UsageReported(A, play.attempt("a"), {"cost_usd": 3}))


OPTIONS = {
    "restart_intensity": {"restart_intensity": 1},
    "run_timeout": {"run_timeout": 600.0},
    "budget_exceeded": {"budget_usd": 1.0},
}
REASONS = pytest.mark.parametrize("reason", ["fail_fast", *OPTIONS])


def news(play: Play) -> list[RunGaveUp]:
    return [event for _, event in play.journal if isinstance(event, RunGaveUp)]


def told(play: Play) -> list[str]:
    return [event.reason for event in news(play)]


def resumed(play: Play) -> Play:
    run = play.machine.state.run
    assert run is not None
    return play.fact(RunResumed(run.id, run.options, len(play.journal)))


@REASONS
def test_giving_up_is_recorded_at_once_and_once(play: Play, reason: str) -> None:
    given_up(play, reason)
    assert "c" in play.running
    assert told(play) == [reason]
    for id in play.running:
        play.result(id, "fails")
    assert told(play) == [reason]
    assert play.view.reason == reason


@REASONS
def test_a_journal_without_the_record_gives_the_same_end(play: Play, reason: str) -> None:
    given_up(play, reason)
    for id in play.running:
        play.result(id)
    older = play.replayed([record for record in play.records() if record.type != "RUN_GAVE_UP"])
    assert run_view(older.state) == play.view


@pytest.mark.parametrize("reason", ["fail_fast", "restart_intensity", "budget_exceeded"])
def test_who_takes_over_tells_it_again_as_what_is_known_or_what_the_one_before_did_not(play: Play, reason: str) -> None:
    given_up(play, reason)
    assert [event.again for event in news(resumed(play))] == [False, True]
    play.journal = play.journal[: [event.TYPE for _, event in play.journal].index("RUN_GAVE_UP")]
    play.machine = play.replayed()
    assert [event.again for event in news(resumed(play))] == [False]
    for id in play.running:
        play.result(id)


def test_a_run_that_can_go_on_after_all_may_give_up_again(play: Play) -> None:
    given_up(play, "budget_exceeded")
    play.fact(RunResumed(f"{1:016x}", RunOptions(budget_usd=5.0), 0))
    assert play.view.gave_up is None
    play.fact(UsageReported(A, play.attempt("a"), {"cost_usd": 6}))
    assert told(play) == ["budget_exceeded"] * 2
    for id in play.running:
        play.result(id)


def test_where_all_may_still_be_done_nothing_is_said(play: Play) -> None:
    play.start("a", "b", task_of("c"), only=(A, B), budget_usd=1.0)
    play.fact(UsageReported(A, play.attempt("a"), {"cost_usd": 6}))
    assert play.decided == []
    play.result("a").result("b")
    assert (play.view.state, told(play)) == ("done", [])


def test_where_the_last_attempt_fails_then_it_is_said(play: Play) -> None:
    play.start("a", budget_usd=1.0, retries=3).fact(UsageReported(A, play.attempt("a"), {"cost_usd": 6}))
    assert play.decided == []
    assert play.result("a", "fails").words == ["ATTEMPT_ENDED a", "TASK_SKIPPED a", "RUN_GAVE_UP", "RUN_ENDED"]


def test_what_waits_for_its_next_attempt_is_told_that_none_comes(play: Play) -> None:
    given_up(play, "restart_intensity")
    text = "the run gave up: more than 1 failed attempt within 5m, and no success in between"
    assert (play.seen("a").status, play.seen("a").waits_for) == ("ready", ())
    assert why(play.view, A, 0.0)[0] == f"It could start, but nothing new is started: {text}."
    said = f"The run gave up: {text.removeprefix('the run gave up: ')}; what runs goes on to its end."
    assert why(play.view, C, 0.0)[-1] == said
    assert why(play.view, D, 0.0)[-1] == said
    assert said not in why(play.view, A, 0.0)
    play.result("c")


def test_nor_while_a_run_is_being_ended(play: Play) -> None:
    play.start("a", "b", retries=1).result("a", "fails").control("drain")
    assert (play.seen("a").status, play.seen("a").waits_for) == ("ready", ())
    play.result("b")


def test_the_line_has_the_text_that_was_recorded() -> None:
    assert gave_up_line("x", text="the run gave up: too much") == "gave up: too much; what runs goes on to its end"
    assert gave_up_line("waits_for_people").endswith("it does not wait for them")
