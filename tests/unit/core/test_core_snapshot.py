"""A state written and read back is the same state; what this build did not write is not understood."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass, replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.wire import AttemptId, Record, TaskId, dumps
from conductor.core import codec, snapshot
from conductor.core.events import ControlReceived, PlanEdited, ProgressReceived, ReportReceived
from conductor.core.journal_time import JournalTime
from conductor.core.machine import Machine
from conductor.core.state import State, digest
from conductor.core.task import Cancelled, Plan, RunOptions
from conductor.testing import Chances, CoreSimulation, Play, plan_of, random_plan

A = TaskId("a")


def again(state: State) -> State:
    """Return the state as it comes back from disk."""
    return back(dumps(snapshot.dump(state)), state.plan)


def back(text: str, plan: Plan) -> State:
    return snapshot.load(json.loads(text), plan)


def take(machine: Machine, record: Record, plan: Plan) -> None:
    event = codec.decode(record, lambda sha: plan)
    assert event is not None
    machine.replay(event, record.t.mono, wall=record.t.wall)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), crash=st.sampled_from([0.0, 0.05]))
def test_requirement_6_live_state_full_replay_and_any_snapshot_with_its_tail_are_one(seed: int, crash: float) -> None:
    random = Random(seed)
    plan = random_plan(random, random.randint(1, 10))
    options = RunOptions(seed=seed, retries=random.choice([0, 2]), restart_intensity=random.choice([2, 20, None]))
    run = CoreSimulation(plan, seed, options, chances=Chances(crash=crash))
    kept: list[tuple[int, Callable[[], State], JournalTime]] = []
    while run.step() is not None:
        data = snapshot.dump(run.machine.state)
        if data is not None and random.random() < 0.3:
            restore = partial(back, dumps(data), run.machine.state.plan)
            assert digest(restore()) == run.machine.digest()
            kept.append((len(run.journal), restore, replace(run.time)))
    records = run.records()
    assert run.replayed().digest() == run.machine.digest()
    for place, restore, time in kept[-6:]:
        restored = Machine(restore(), check=True)
        assert run.follow(restored, time, records[place:]).digest() == run.machine.digest()
        assert time == run.time


def test_everything_that_a_task_can_hold_comes_back(play: Play) -> None:
    play.start("a", "b < a", "c", "d", "e < d", retries=1, max_workers=3)
    play.fact(ProgressReceived(A, play.attempt("a"), None, "half")).fact(
        ReportReceived(A, play.attempt("a"), {"x": [1]})
    )
    play.fact(PlanEdited("plan.md", "0" * 64, ("changed in plan.md: b",)))
    play.result("c", "fails", usage={"cost_usd": 0.5}).result("d", "missing").result("a", verify=[{"code": 0}])
    play.control("stop").machine.state.retired[TaskId("gone")] = 4
    state = play.machine.state
    state.order[4].status = Cancelled("operator:me")
    state.recount()
    copy = again(state)
    assert copy == state
    del state.retired[TaskId("gone")]
    for running in list(play.running):
        play.result(running, "stopped")
    state.order[4].status = state.order[4].status  # the fixture replays: what was planted by hand is taken back
    play.machine, play.journal = Machine(), []


def test_what_attempts_hold_and_wait_for_comes_back(play: Play) -> None:
    """With a deadlock that is not over, and what an ended victim waited for."""
    play.start("a", "b", "c", "d", max_workers=3)
    play.waits("c", "task", "c", "d")
    play.result("c", "stopped")
    play.holds("a", "x", "y/")
    play.holds("b", "z", shared=True)
    play.waits("a", "lock", "z")
    play.waits("b", "lock", "x", shared=True)
    play.waits("b", "question", text="May I?")
    play.life("a", "quiet", "no output for 1m", output=61.5)
    state = play.machine.state
    assert (len(state.grants), len(state.waits), len(state.deadlocks), len(state.wanted)) == (2, 4, 1, 1)
    assert again(state) == state
    assert digest(again(state)) == play.machine.digest()


def test_a_machine_that_takes_a_snapshot_over_goes_on_as_the_one_before(play: Play) -> None:
    play.start("a", "b < a", "c", max_workers=1, retries=1).result("a", "fails")
    play.machine = Machine(again(play.machine.state), check=True)
    play.timer("a").result("c").result("a").result("b")
    assert play.view.state == "done"


def test_a_track_that_never_ran_and_one_that_was_reset() -> None:
    assert again(State()) == State()
    play = Play().start("a").result("a").fact(ControlReceived("reset", "operator:me"))
    assert again(play.machine.state) == play.machine.state


def test_nothing_is_taken_in_the_middle_of_a_pass(play: Play) -> None:
    play.start("a")
    journal = play.result("a").records()
    machine = Machine()
    for record, known in zip(journal, [True, True, False, False, True, True], strict=True):
        take(machine, record, plan_of("a"))
        assert (snapshot.dump(machine.state) is not None) is known, record.type


def test_columns_in_which_nothing_happened_take_no_room(play: Play) -> None:
    data = snapshot.dump(play.start(*(f"t{n}" for n in range(50)), max_workers=1).machine.state)
    assert data is not None
    assert {"used", "uncounted", "report", "usage", "commit", "ended_at"}.isdisjoint(data["tasks"])
    assert len(data["tasks"]["stories"]) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.update(fingerprint="0" * 16),
        lambda data: data.pop("running"),
        lambda data: data.update(running=[7]),
        lambda data: data["tasks"]["status"].append(0),
        lambda data: data["tasks"]["status"].__setitem__(0, [99]),
        lambda data: data["tasks"].update(story=[5]),
        lambda data: data["run"].update(phase="asleep"),
        lambda data: data["run"].update(mood="good"),
        lambda data: data["run"]["options"].update(colour="red"),
    ],
)
def test_what_this_build_did_not_write_is_not_understood(play: Play, spoil: Callable[[Any], object]) -> None:
    data = json.loads(dumps(snapshot.dump(play.start("a").machine.state)))
    spoil(data)
    with pytest.raises(snapshot.NotUnderstood):
        snapshot.load(data, play.machine.state.plan)


def test_another_shape_of_anything_that_is_written_has_another_fingerprint() -> None:
    """A field more, a field less, another type: all are another build's."""

    @dataclass
    class One:
        first: int

    same = make_dataclass("One", [("first", "int")])
    more = make_dataclass("One", [("first", "int"), ("second", "int")])
    other = make_dataclass("One", [("first", "str")])
    prints = [snapshot.fingerprint(kind) for kind in (One, same, more, other)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_an_old_attempt_of_a_verdict_is_kept_by_its_name(play: Play) -> None:
    play.start("a", retries=1).result("a", "fails").timer("a")
    last = again(play.machine.state).order[0].last
    assert last is not None
    assert last.attempt != play.attempt("a")
    assert last.attempt == AttemptId(last.attempt)
    play.result("a")


def test_a_state_has_one_hash_whatever_kind_of_mapping_its_options_hold(play: Play) -> None:
    plan, counts = plan_of("a"), {"gpu": 2}
    other = Play().start(plan, resources=MappingProxyType(counts))
    assert play.start(plan, resources=counts).machine.digest() == other.machine.digest()
