"""Whole runs with people in them: gates, tasks for a person, orders for no reason, limits of providers, a breaker, time
and money that run out, groups one after the other; and crashes anywhere. Nothing hangs, and the ledger is clean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bus.wire import AttemptId, TaskId
from conductor.core import agenda, decide, doors, ends, gates, giving_up, stages, timers
from conductor.core.events import ControlReceived, Fact
from conductor.core.health import kind_of
from conductor.core.instructions import Instruction, LaunchWorker
from conductor.core.invariants import InvariantBroken
from conductor.core.supervision import UsageReported
from conductor.core.task import AwaitsApproval, Manual, Plan, RunOptions
from conductor.core.transitions import IllegalTransition
from conductor.core.wait_events import AttemptLife
from conductor.testing import Chances, CoreSimulation, random_plan
from conductor.testing.core_simulation import LedgerBroken

SEEDS = range(160)
VERBS = ("pause", "resume", "cancel", "retry", "approve", "reject", "complete", "fail", "steer", "unlock", "reload")
LIMITS = ("rate_limit", "quota", "overloaded", "auth", "billing")


class Attended(CoreSimulation):
    """A simulation with an operator who gives orders for no reason, and acts once nothing else can."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._stuck: set[AttemptId] = set()
        """Attempts that cannot be ended, and do not end."""

    def _open_attempts(self) -> list[AttemptId]:
        return [one for one in super()._open_attempts() if one not in self._stuck]

    def _next_fact(self) -> Fact | None:
        state, draw = self.machine.state, self.random.random()
        if state.run is not None and not self.machine.ended and not self._found:
            if draw < 0.15:
                return self._order(self.random.choice(VERBS), self.random.choice(self.plan.tasks).id)
            if draw < 0.2 and state.running:
                return self._sign(self.random.choice(list(state.running)))
        try:
            return super()._next_fact()
        except LedgerBroken:
            return self._person()

    def _order(self, verb: str, target: TaskId | None) -> Fact:
        about = None if verb in ("pause", "resume", "reload") else target
        return self.machine.resolve(ControlReceived(verb, "operator:sim", about, "because"))

    def _sign(self, id: TaskId) -> Fact:
        attempt = self.machine.state.tasks[id].attempt
        assert attempt is not None
        if self.random.random() < 0.3:
            self._stuck.add(attempt)
            return AttemptLife(id, attempt, "unkillable", "state D")
        return UsageReported(id, attempt, {"cost_usd": self.random.choice([0.01, 0.2])})

    def _person(self) -> Fact:
        """Do what the run waits for. Raises LedgerBroken where it waits for nobody."""
        state = self.machine.state
        assert state.run is not None
        for id in state.running:  # the conductor looks again, also when the first record of it was lost
            if (attempt := state.tasks[id].attempt) in self._stuck and state.tasks[id].life is None:
                assert attempt is not None
                return AttemptLife(id, attempt, "unkillable", "state D")
        if state.run.paused_by or any(pause.seconds is None for pause in state.providers.values()):
            return self._order("resume", None)
        for task in state.order:
            if isinstance(task.status, AwaitsApproval):
                return self._order("approve", task.id)
            if isinstance(task.status, Manual):
                return self._order("complete", task.id)
        raise LedgerBroken("nothing can happen any more, and the run has not ended")

    def _begin(self) -> Fact | None:
        """What could not be ended has gone by itself before the next round."""
        for worker in self._workers.values():
            worker.alive = False
        return super()._begin()

    def _end(self, worker: Any) -> None:
        super()._end(worker)
        if worker.exit is not None and worker.attempt not in self._ledger.succeeded and self.random.random() < 0.3:
            report = {"verb": "fail", "class": self.random.choice(LIMITS), "retry_after": self.random.choice([1, 4000])}
            worker.exit = replace(worker.exit, report=report)
            self._inbox[-1] = replace(self._inbox[-1], exit=worker.exit)

    def _handle(self, fact: Fact) -> list[Instruction]:
        crashes = self.crashes
        found = super()._handle(fact)
        state = self.machine.state
        for one in found if self.crashes == crashes else ():
            if isinstance(one, LaunchWorker) and state.run is not None and one.task in state.tasks:
                pause = state.providers.get(kind_of(state.tasks[one.task].spec, state.run.options))
                if pause is not None and pause.probe != one.attempt:
                    raise LedgerBroken(f"{one.task} started although its kind is paused")
                if state.run.paused_by:
                    raise LedgerBroken(f"{one.task} started although the run is paused")
        return found


def attended_plan(random: Random) -> Plan:
    """Make a plan with gates, tasks for people, effects and groups with a time limit."""
    plan = random_plan(random, random.randint(1, 12))
    tasks = tuple(
        replace(
            task,
            approve=random.choice([None, None, None, "before", "after"]),
            manual=random.random() < 0.1,
            effect=random.choice(["write", "pure_read", "pure_read", "external"]),
            timeout=random.choice([None, None, 50.0]),
            resources=("db",) if random.random() < 0.3 else task.resources,
        )
        for task in plan.tasks
    )
    ids = [task.id for task in tasks]
    random.shuffle(ids)
    cut = random.randint(0, len(ids))
    more = tuple(
        replace(group, id=f"pg-{n}", tasks=tuple(part), timeout=random.choice([None, 20.0]))
        for n, part in enumerate((ids[:cut], ids[cut:-1]), 2)
        for group in plan.groups[:1]
        if part
    )
    return replace(plan, tasks=tasks, groups=(*plan.groups, *more))


def simulation(seed: int) -> Attended:
    random = Random(seed)
    options = RunOptions(
        max_workers=random.choice([1, 2, 5]),
        retries=random.choice([0, 1, 2]),
        fail_fast=random.random() < 0.1,
        on_conflict=random.choice(["serialize", "allow"]),
        parallel=random.choice(["any", "any", "pure-read"]),
        schedule=random.choice(["ready", "groups"]),
        resources={"db": random.choice([1, 2])},
        breaker=random.choice([None, 1, 2]),
        run_timeout=random.choice([None, None, 30.0]),
        budget_usd=random.choice([None, None, 0.3]),
        wait_for_people=random.random() < 0.7,
        seed=seed,
    )
    return Attended(attended_plan(random), seed, options, chances=Chances(crash=random.choice([0.0, 0.05, 0.15])))


@pytest.mark.parametrize("first", SEEDS[::40])
def test_runs_with_people_in_them_come_to_a_clean_end(first: int) -> None:
    for seed in range(first, first + 40):
        simulation(seed).run()


def first_trouble(seeds: range) -> str | None:
    for seed in seeds:
        try:
            simulation(seed).run()
        except (AssertionError, IllegalTransition, InvariantBroken, LedgerBroken) as error:
            return type(error).__name__
    return None


@pytest.mark.parametrize(
    ("where", "name", "planted"),
    [
        (agenda, "has_order", lambda task: False),
        (agenda, "needs_a_person", lambda task: False),
        (doors.Doors, "closed", lambda self, index: None),
        (stages.Stages, "open", lambda self: None),
        (timers, "_provider_timer", lambda state, kind, now: []),
        (gates, "needs_approval", lambda task: False),
        (giving_up, "left_behind", lambda state, run: None),
    ],
    ids=["orders", "gates", "doors", "stages", "pauses", "approval", "unkillable"],
)
def test_planted_bugs_of_supervision_are_found(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, planted: Callable[..., object]
) -> None:
    monkeypatch.setattr(where, name, planted)
    if name == "needs_approval":
        monkeypatch.setattr(ends, name, planted)
    if name == "left_behind":
        monkeypatch.setattr(decide, name, planted)
    assert first_trouble(range(200)) is not None
