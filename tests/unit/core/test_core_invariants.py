"""The check finds each kind of broken state: a state is broken by hand, and the rule that is broken is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bus.wire import AttemptId, TaskId
from conductor.core import invariants
from conductor.core.health import ProviderPause
from conductor.core.invariants import InvariantBroken
from conductor.core.state import State
from conductor.core.task import Backoff, Blocked, Done, Ended, Failed, Group, Pending, Ready, Running, Status
from conductor.core.transitions import Phase
from conductor.testing import Play, task_of

ONE = AttemptId("x~1-00000000")


def put(state: State, id: str, status: Status) -> None:
    """Change a status with its indexes, as a wrong machine would."""
    task = state.tasks[TaskId(id)]
    state.tally[type(task.status)] -= 1
    state.tally[type(status)] += 1
    state.running.pop(task.id, None)
    if isinstance(status, Running):
        task.attempt, task.number = status.attempt, status.number
        state.running[task.id] = None
    for dependant in state.dependants(task):
        dependant.open += isinstance(task.status, Done) - isinstance(status, Done)
    task.status = status


def another_plan(state: State) -> None:
    state.order.reverse()


def wrong_tally(state: State) -> None:
    state.tally[Ready] += 1


def wrong_open(state: State) -> None:
    state.tasks[TaskId("c")].open += 1


def wrong_slot(state: State) -> None:
    state.running.clear()


def wrong_reconciling(state: State) -> None:
    state.reconciling[TaskId("c")] = None


def over(state: State) -> None:
    assert state.run is not None
    state.run.phase = Phase.ENDED


def one_attempt_twice(state: State) -> None:
    put(state, "e", Running(state.tasks[TaskId("d")].attempt or ONE, 1))


def not_the_newest(state: State) -> None:
    state.tasks[TaskId("d")].attempt = ONE


def too_many(state: State) -> None:
    for id in "efg":
        put(state, id, Running(AttemptId(f"{id}~1-00000000"), 1))


BROKEN: list[tuple[str, Callable[[State], None]]] = [
    ("_indexes_equal_recomputation", another_plan),
    ("_indexes_equal_recomputation", wrong_tally),
    ("_indexes_equal_recomputation", wrong_open),
    ("_no_status_outlives_its_pass", lambda state: put(state, "e", Ended(ONE, 1, None, "", False))),
    ("_slots_equal_running_set", wrong_slot),
    ("_slots_equal_running_set", wrong_reconciling),
    ("_slots_equal_running_set", over),
    ("_attempts_alive_at_most_once", one_attempt_twice),
    ("_attempts_alive_at_most_once", not_the_newest),
    ("_started_only_after_dependencies", lambda state: put(state, "c", Backoff(1.0, 0.0))),
    ("_pending_waits_for_something", lambda state: put(state, "e", Pending())),
    ("_blocked_has_a_failed_ancestor", lambda state: put(state, "c", Blocked((TaskId("a"),)))),
    ("_blocked_has_a_failed_ancestor", lambda state: put(state, "b", Failed("exit", ""))),
    ("_caps_are_kept", too_many),
    ("_caps_are_kept", lambda state: put(state, "e", Running(ONE, 1))),
    ("_no_overlapping_tasks_run", lambda state: put(state, "g", Running(ONE, 1))),
]


@pytest.mark.parametrize(("rule", "break_it"), BROKEN)
def test_a_broken_state_is_named(rule: str, break_it: Callable[[State], None]) -> None:
    """`a` is done, `b` and `d` run, `c` needs `b`; `e` may not run beside `d` (group), nor `g` (file)."""
    tasks = ("a", "b < a", "c < b", task_of("d", files=("x",)), "e", "f", task_of("g", files=("*",)))
    play = Play().start(*tasks, groups=(Group("pg-1", (TaskId("d"), TaskId("e")), max_workers=1),), max_workers=2)
    play.result("a")
    state = play.machine.state
    assert sorted(play.running) == ["b", "d"]
    if break_it is not too_many and rule in ("_caps_are_kept", "_no_overlapping_tasks_run"):
        put(state, "b", Ready())
    invariants.check(state)
    break_it(state)
    with pytest.raises(InvariantBroken, match=f"^{rule.lstrip('_')}: "):
        invariants.check(state)


def by_a_person(state: State) -> None:
    state.tasks[TaskId("b")].spec = replace(state.tasks[TaskId("b")].spec, manual=True)


def without_approval(state: State) -> None:
    state.tasks[TaskId("b")].approved = False


def forgotten_order(state: State) -> None:
    state.tasks[TaskId("m")].ordered = ("complete", "operator:me", "")


def endless_pause(state: State) -> None:
    state.providers["x"] = ProviderPause("quota", 0.0, 1.0, over="its time is up")


@pytest.mark.parametrize(
    ("rule", "break_it"),
    [
        ("people_are_asked_first", by_a_person),
        ("people_are_asked_first", without_approval),
        ("orders_are_carried_out", forgotten_order),
        ("orders_are_carried_out", endless_pause),
        ("caps_are_kept", lambda state: put(state, "y", Running(AttemptId("y~1-00000000"), 1))),
    ],
)
def test_what_people_and_limits_hold_up_is_held_up(rule: str, break_it: Callable[[State], None]) -> None:
    gpu = [task_of(id, resources=("gpu",)) for id in ("w", "x", "y")]
    play = Play().start(
        task_of("b", approve="before"), task_of("m", manual=True), *gpu, resources={"gpu": 2}, max_workers=9
    )
    state = play.order("approve", "b").machine.state
    invariants.check(state)
    break_it(state)
    state.plan = replace(state.plan, tasks=tuple(task.spec for task in state.order))
    with pytest.raises(InvariantBroken, match=f"^{rule}: "):
        invariants.check(state)
    state.run = None
    state.running.clear()
    assert list(invariants._people_are_asked_first(state)) == []


def test_said_to_be_blocked_by_a_task_that_did_not_fail() -> None:
    play = Play().start("a", "b < a", "c", retries=0).result("a", "fails")
    invariants.check(play.machine.state)
    put(play.machine.state, "b", Blocked((TaskId("c"),)))
    with pytest.raises(InvariantBroken, match="said to be blocked by c"):
        invariants.check(play.machine.state)
