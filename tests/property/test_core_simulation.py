"""Whole runs: any plan, any seed, any order of events, crashes anywhere. The ledger and the invariants hold."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.wire import AttemptId, TaskId
from conductor.core import agenda, apply, claims, codec, policy, schedule, timers
from conductor.core.events import Decision, Fact, TimerFired
from conductor.core.instructions import Journal
from conductor.core.machine import Machine
from conductor.core.state import State, Task
from conductor.core.task import RunOptions
from conductor.core.transitions import IGNORED, TASK_TABLE, IllegalTransition
from conductor.testing import Chances, CoreSimulation, random_plan

SEEDS = range(120)
CALM = Chances(crash=0.0)


def simulation(seed: int, chances: Chances | None = None) -> CoreSimulation:
    random = Random(seed)
    plan = random_plan(random, random.randint(1, 12))
    options = RunOptions(
        max_workers=random.choice([1, 2, 5, 5]),
        retries=random.choice([0, 1, 2]),
        fail_fast=random.random() < 0.2,
        on_conflict=random.choice(["serialize", "serialize", "allow"]),
        seed=seed,
    )
    return CoreSimulation(plan, seed, options, chances=chances)


@pytest.mark.parametrize("first", SEEDS[::30])
def test_a_fixed_range_of_seeds_is_clean(first: int) -> None:
    crashes = sum(simulation(seed).run().crashes for seed in range(first, first + 30))
    assert crashes > 0


@settings(max_examples=40)
@given(seed=st.integers(1000, 2**32), crash=st.sampled_from([0.0, 0.05, 0.3]), vanish=st.sampled_from([0.0, 0.3]))
def test_any_seed_is_clean(seed: int, crash: float, vanish: float) -> None:
    simulation(seed, Chances(crash=crash, vanish=vanish)).run()


def test_the_same_seed_plays_the_same() -> None:
    assert simulation(7).run().journal == simulation(7).run().journal


def test_feeding_a_runs_facts_gives_its_decisions_byte_for_byte() -> None:
    for seed in range(25):
        run = simulation(seed, CALM).run()
        fed, conductor = [], Machine()
        for record in run.records():
            event = codec.decode(record, lambda sha, plan=run.plan: plan)
            if isinstance(event, get_args(Fact)):
                fed.append(codec.encode(event))
                instructions = conductor.handle(event, record.t.mono, record.t.wall)
                fed += [codec.encode(one.decision) for one in instructions if isinstance(one, Journal)]
        assert fed == [(one.type, one.task, one.attempt, one.payload) for one in run.records()]


def test_a_journal_cut_anywhere_leads_to_exactly_the_missing_decisions() -> None:
    for seed in range(12):
        run = simulation(seed, CALM).run()
        records = run.records()
        events = [codec.decode(one, lambda sha, plan=run.plan: plan) for one in records]
        fact = [isinstance(event, get_args(Fact)) for event in events]
        for cut in range(1, len(records), 3):
            end = next((at for at in range(cut, len(fact)) if fact[at]), len(fact))
            conductor = Machine()
            for record, event in zip(records[:cut], events[:cut], strict=True):
                conductor.replay(event, record.t.mono, record.t.wall)
            last = records[cut - 1].t
            made = [
                one.decision
                for one in conductor.handle(TimerFired("nothing"), last.mono, last.wall)
                if isinstance(one, Journal)
            ]
            assert made == events[cut:end]
            assert all(isinstance(one, get_args(Decision)) for one in made)


def _first_trouble(seeds: range) -> str | None:
    for seed in seeds:
        try:
            simulation(seed).run()
        except (AssertionError, IllegalTransition) as error:
            return type(error).__name__
    return None


def _accepts_old_attempts(state: State, name: str, id: TaskId, attempt: AttemptId) -> Task | None:
    task = state.tasks[id]
    return None if TASK_TABLE[type(task.status), name] is IGNORED else task


@pytest.mark.parametrize(
    ("where", "name", "planted"),
    [
        (claims.Claims, "blocker", lambda self, rank: None),
        (schedule.Schedule, "release", lambda self, task: None),
        (agenda.Agenda, "_doom", lambda self, source, by: None),
        (policy, "judge", lambda outcome, stopping, because, fail_on_leftovers: policy.Verdict(None)),
        (apply, "current", _accepts_old_attempts),
        (timers, "resumed", lambda state, now: []),
        (State, "reconciling_attempts", lambda self: []),
    ],
    ids=["conflicts", "slots", "blocked", "verdicts", "old attempts", "timers", "reconcile"],
)
def test_planted_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, planted: Callable[..., object]
) -> None:
    monkeypatch.setattr(where, name, planted)
    assert _first_trouble(range(100)) is not None
