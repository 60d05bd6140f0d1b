"""Orders on their way into the journal, with and without a conductor."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from bus import layout
from bus.errors import BusGone, HeldByOther
from bus.hand import open_hand
from bus.host import open_host
from bus.reader import open_reader
from bus.wire import AttemptId, Record, TaskId, WorkerSpec
from conductor.config import Flags
from conductor.core import waits
from conductor.core.events import ControlReceived
from conductor.core.state import State
from conductor.core.supervision import PlanReloaded
from conductor.core.task import Done, Failed, Running
from conductor.core.wait_events import GrantGone
from conductor.errors import ConductorError
from conductor.plan import frozen
from conductor.runtime import controls
from conductor.runtime.orders import record
from conductor.runtime.replay import replay
from conductor.runtime.start import Request
from conductor.testing import Play, ending, plan_of, task_of
from tests.unit.runtime.stage import Stage, Workers, go_on, succeed

WHO = "operator:me"

# --- what an order brings about ---------------------------------------------------------------------------------------


def holding(*keys: str) -> State:
    state = State()
    attempt = layout.attempt_id(TaskId("1"), 1, "0a1b2c3d")
    for number, key in enumerate(keys):
        grant = waits.Grant(str(number), TaskId("1"), attempt, (key,), False, number, 0.0)
        state.grants[waits.name_of(attempt, grant.id)] = grant
    return state


def unlock(target: str, state: State) -> controls.Completed:
    return controls.unlock(ControlReceived("unlock", WHO, target), state)


def test_unlock_takes_every_grant_that_has_something_in_common_with_the_path() -> None:
    found = unlock("./src/x/../a.py", holding("src", "lib", "src/*.py"))
    assert found.order.tasks == ("1",)
    gone = [cast(GrantGone, fact) for fact in found.facts]
    assert [(one.grant, one.how) for one in gone] == [("0", "taken"), ("2", "taken")]
    assert [one.keys for one in gone] == [("src",), ("src/*.py",)], "what is free now is shown in events/"


@pytest.mark.parametrize(
    ("target", "text"), [("docs", "nobody holds docs; held: lib (by 1), src (by 1)"), ("a\0b", "cannot be locked")]
)
def test_an_unlock_of_what_nobody_holds_is_refused(target: str, text: str) -> None:
    found = unlock(target, holding("src", "lib"))
    assert found.facts == ()
    assert text in (found.order.refused or "")


# --- while a conductor lives ------------------------------------------------------------------------------------------


def control_of(stage: Stage, verb: str) -> Record:
    return next(r for r in stage.bus.reader().records() if r.type == "CONTROL" and r.payload["verb"] == verb)


def test_an_order_that_means_nothing_now_is_recorded_with_the_reason(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1")
    one.watcher.asleep = [lambda: drop(one, "cancel", target="1"), lambda: drop(one, "retry", target="nowhere")]
    one.workers.behaviour["2"] = go_on
    one.watcher.asleep += [lambda: one.workers.end(attempt_of(one, "2"), ending("ok"))]
    one.run()
    assert "1 is done" in control_of(one, "cancel").payload["refused"]
    assert "no task nowhere" in control_of(one, "retry").payload["refused"]
    assert isinstance(one.status("1"), Done)


def drop(stage: Stage, verb: str, **how: Any) -> None:
    stage.bus.drop(verb, who="me", **how)


def attempt_of(stage: Stage, task: str) -> AttemptId:
    return next(attempt for attempt in stage.workers.orders if attempt.startswith(f"{task}~"))


def test_a_run_that_is_told_to_pause_before_it_begins_starts_nothing(stage: Callable[..., Stage]) -> None:
    one = stage("1")

    def look() -> None:
        assert one.types("1") == []

    drop(one, "pause")
    one.watcher.asleep = [look, look, lambda: drop(one, "resume")]
    one.run()
    assert one.types()[:2] == ["RUN_STARTED", "CONTROL"]
    assert isinstance(one.status("1"), Done)


def test_what_is_said_to_a_worker_is_laid_into_its_folder(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.workers.behaviour["1"] = go_on
    seen: list[tuple[tuple[str, str], ...]] = []

    def read() -> None:
        seen.append(one.bus.hand(attempt_of(one, "1")).texts())
        one.workers.end(attempt_of(one, "1"), ending("ok"))

    one.watcher.asleep = [lambda: drop(one, "steer", target="1", text="be brief"), lambda: None, read]
    one.run()
    assert [text for _, text in seen[0]] == ["be brief"]


def test_requirement_11_a_result_of_an_attempt_that_lost_a_grant_by_force_does_not_count(
    stage: Callable[..., Stage],
) -> None:
    one = stage("1", retries=0)

    def hold(spec: WorkerSpec, workers: Workers) -> None:
        go_on(spec, workers)
        assert workers.bus.hand(spec.attempt).try_lock([("a", False)])
        workers.behaviour["1"] = succeed

    def end() -> None:
        assert one.bus.reader().grants() == (), "it is free at once"
        one.workers.end(next(iter(one.workers.orders)), ending("ok"))

    one.workers.behaviour["1"] = hold
    one.workers.holds.add("1")
    one.watcher.asleep = [lambda: None, lambda: drop(one, "unlock", target="a"), lambda: None, end]
    one.run()
    ended = [r.payload["error_class"] for r in one.bus.reader().records() if r.type == "ATTEMPT_ENDED"]
    assert ended == ["stale_token", None]


@pytest.mark.parametrize(("verb", "kind"), [("complete", Done), ("fail", Failed)])
def test_a_claim_ends_a_manual_task_and_holds_no_slot(stage: Callable[..., Stage], verb: str, kind: type) -> None:
    one = stage("2", max_workers=1)
    one.plan = plan_of(task_of("1", manual=True), task_of("2", run=("work",)))
    type = {"complete": "TASK_COMPLETE", "fail": "TASK_FAILED"}[verb]

    def claim() -> None:
        assert isinstance(one.status("2"), Done), "a task for a person is in nobody's way"
        one.bus.events[f"{type}_1.event"] = b"said by hand"

    one.watcher.asleep = [lambda: None, lambda: None, claim]
    one.run()
    assert isinstance(one.status("1"), kind)
    assert control_of(one, verb).payload["who"] == "claim"
    assert len([r for r in one.bus.reader().records() if r.type == "CONTROL"]) == 1


def test_a_plan_that_is_read_again_changes_what_starts_from_then_on(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1")
    one.workers.behaviour["1"] = go_on
    edited = plan_of(task_of("1", run=("work",)), task_of("3 < 1", run=("more",)))

    def reload(state: State) -> PlanReloaded | str:
        body = frozen.dump(edited)
        sha = hashlib.sha256(body).hexdigest()
        one.bus.plans[layout.plan_name(sha)] = body
        return PlanReloaded(sha, edited, "s" * 64, ("new: 3",))

    one.reload = reload
    one.watcher.asleep = [
        lambda: drop(one, "reload"),
        lambda: None,
        lambda: one.workers.end(attempt_of(one, "1"), ending("ok")),
    ]
    one.run()
    assert isinstance(one.status("3"), Done)
    assert "2" not in [record.task for record in one.bus.reader().records()]


def test_a_plan_that_cannot_be_taken_in_is_refused_with_the_reason(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.workers.behaviour["1"] = go_on
    one.reload = lambda state: "the plan cannot be taken in: plan.md: a cycle"
    one.watcher.asleep = [
        lambda: drop(one, "reload"),
        lambda: one.workers.end(attempt_of(one, "1"), ending("ok")),
    ]
    one.run()
    assert control_of(one, "reload").payload["refused"] == "the plan cannot be taken in: plan.md: a cycle"
    assert "PLAN_RELOADED" not in one.types()


# --- while none lives -------------------------------------------------------------------------------------------------


@pytest.fixture
def track(tmp_path: Path) -> Request:
    return Request(tmp_path, tmp_path / ".message-bus", Flags())


@pytest.fixture
def crashed(track: Request, write: Any) -> AttemptId:
    """A run whose conductor died while task a was at work; b failed, c depends on it, d is for a person."""
    host = open_host(track.bus)
    plan = plan_of("a", "b", "c < b", task_of("d", manual=True))
    play = Play().start(plan, retries=0).result("b", "fails")
    write(host, play)
    attempt = play.attempt("a")
    os.close(host.create_attempt(attempt))
    host.close()
    return attempt


def state_of(track: Request) -> State:
    return replay(open_reader(track.bus)).machine.state


def test_an_order_without_a_conductor_is_recorded_with_who_and_what(track: Request, crashed: AttemptId) -> None:
    order = record(track, "retry", WHO, "b")
    assert (order.refused, order.tasks) == (None, ("b", "c"))
    last = list(open_reader(track.bus).records())[-1]
    assert (last.type, last.source, last.payload["who"], last.payload["target"]) == ("CONTROL", WHO, WHO, "b")
    assert not {path.name for path in (track.bus / "events").glob("*_[bc].event")}, "events/ follows"


def test_one_that_means_nothing_is_recorded_and_refused(track: Request, crashed: AttemptId) -> None:
    assert "nowhere" in (record(track, "cancel", WHO, "nowhere").refused or "")
    assert record(track, "reload", WHO).refused
    assert [r.payload["refused"] is None for r in open_reader(track.bus).records() if r.type == "CONTROL"] == [
        False,
        False,
    ]


def test_a_worker_that_lives_on_is_told_to_stop_where_its_task_is_cancelled(track: Request, crashed: AttemptId) -> None:
    record(track, "cancel", WHO, "a")
    assert open_hand(track.bus, crashed).revoked() == "cancelled"
    assert isinstance(state_of(track).tasks[TaskId("a")].status, Running), "how it ended is for the next conductor"


def test_what_a_worker_asked_since_its_conductor_died_can_be_answered(track: Request, crashed: AttemptId) -> None:
    hand = open_hand(track.bus, crashed)
    wait = hand.begin_wait("question", text="which?")
    order = record(track, "answer", WHO, wait.id, "the red one")
    assert (order.refused, order.tasks) == (None, ("a",))
    assert hand.answer(wait.id) == "the red one"
    hand.close()


def test_requirement_11_a_lock_that_is_taken_while_no_conductor_lives_is_free_and_its_holder_stale(
    track: Request, crashed: AttemptId
) -> None:
    hand = open_hand(track.bus, crashed)
    assert hand.try_lock([("src/a.py", False)])
    assert record(track, "unlock", WHO, "src").tasks == ("a",)
    assert open_reader(track.bus).grants() == ()
    assert state_of(track).tasks[TaskId("a")].stale
    assert "nobody holds" in (record(track, "unlock", WHO, "src").refused or "")
    hand.close()


def test_a_pause_without_a_conductor_holds_for_the_next_one(track: Request, crashed: AttemptId) -> None:
    assert record(track, "pause", WHO).refused is None
    assert state_of(track).paused_ahead == WHO
    assert record(track, "resume", WHO).refused is None
    assert state_of(track).paused_ahead is None


def test_who_finds_a_conductor_or_no_bus_records_nothing(track: Request, tmp_path: Path) -> None:
    with pytest.raises(BusGone):
        record(Request(tmp_path / "x", tmp_path / "x" / ".message-bus", Flags()), "pause", WHO)
    open_host(track.bus).close()
    with pytest.raises(ConductorError, match="never run"):
        record(track, "pause", WHO)
    with closing(open_host(track.bus)), pytest.raises(HeldByOther):
        record(track, "pause", WHO)
