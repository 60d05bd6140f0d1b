"""What waits for a person or a provider, as it is shown and explained."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core.events import ControlReceived, Event, ProviderPaused
from conductor.core.why import gave_up_text, why
from conductor.testing import Play, task_of


def told(play: Play, *events: Event) -> Play:
    """Let the journal say something that nobody decides here."""
    for event in events:
        play.machine.replay(event, play.now, wall=play.now + 1e9)
    return play


def waits(play: Play, id: str) -> list[tuple[str, str]]:
    return [(wait.kind, wait.what) for wait in play.seen(id).waits_for]


def sentences(play: Play, id: str) -> list[str]:
    return why(play.view, TaskId(id), play.now + 1e9)


def test_nothing_is_awaited_before_a_run_began() -> None:
    assert Play().view.tasks == ()
    assert Play().view.paused_by is None


def test_a_pause_is_what_ready_tasks_wait_for_and_names_who_asked() -> None:
    play = Play().start("a", "b", max_workers=1).fact(ControlReceived("pause", "operator:mary"))
    assert (play.view.state, play.view.paused_by) == ("paused", "operator:mary")
    assert play.statuses == {"a": "running", "b": "waiting"}
    assert waits(play, "b") == [("paused", "operator:mary")]
    assert sentences(play, "b") == ["Waits for the run to go on, paused by mary."]
    play.control("drain")
    assert (play.view.state, play.view.paused_by) == ("draining", None)
    assert play.statuses["b"] == "ready"


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (300.0, "Waits for command:x, held back for 5m more at most."),
        (None, "Waits for command:x, held back until it is resumed."),
    ],
)
def test_a_kind_of_workers_that_is_held_back_is_a_wait_for_its_provider(seconds: float | None, says: str) -> None:
    play = Play().start(task_of("a", run=("x",)), task_of("b", run=("x",)), max_workers=1)
    told(play, ProviderPaused("command:x", "rate_limit", seconds))
    assert play.statuses["b"] == "waiting"
    assert waits(play, "b") == [("provider", "command:x")]
    assert sentences(play, "b") == [says]


@pytest.mark.parametrize(
    "reason", ["run_timeout", "budget_exceeded", "waits_for_people", "provider_limit", "unkillable", "fail_fast"]
)
def test_why_a_run_gave_up_is_said_in_words(reason: str) -> None:
    assert reason not in gave_up_text(reason)
    assert " " in gave_up_text(reason)
