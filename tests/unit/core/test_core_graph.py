"""Levels, cycles, durations, limits, pairs: small examples, and that nothing recurses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bus.wire import TaskId
from conductor.core import conflicts, graph, limits
from conductor.core.task import Limits
from conductor.errors import PlanError
from conductor.testing import plan_of, task_of


def test_levels_are_waves_in_plan_order() -> None:
    assert graph.levels(plan_of("d < b", "a", "b < a", "c", "e < d c")) == [["a", "c"], ["b"], ["d"], ["e"]]


@pytest.mark.parametrize(
    ("tasks", "cycle"),
    [
        (["a", "b < a"], None),
        (["a < a"], ["a"]),
        (["x < c", "a < b", "b < c", "c < a", "y < x"], ["a", "b", "c"]),
        (["a", "c < a b", "b < c", "z < b"], ["c", "b"]),
    ],
)
def test_find_cycle_names_one(tasks: list[str], cycle: list[str] | None) -> None:
    assert graph.find_cycle(plan_of(*tasks).tasks) == cycle


def test_an_unknown_duration_is_the_median_of_the_known_or_30_minutes() -> None:
    assert graph.durations(plan_of("a", "b")) == {"a": 1800.0, "b": 1800.0}
    known = [task_of("a", estimate=10.0), task_of("b", estimate=30.0), "c"]
    assert graph.durations(plan_of(*known))["c"] == 20.0
    assert graph.durations(plan_of(*known, task_of("d", estimate=500.0)))["c"] == 30.0


def test_the_critical_path_is_the_longest_chain() -> None:
    tasks = [task_of("a", estimate=5.0), task_of("b", estimate=1.0), task_of("c < b", estimate=20.0), task_of("d < a")]
    assert graph.critical_path(plan_of(*tasks)) == ["b", "c"]
    assert graph.critical_path(plan_of("a", "b", "c < b", "d < a")) == ["a", "d"]


def test_five_thousand_tasks_in_a_row_need_no_recursion() -> None:
    plan = plan_of("0", *(f"{one} < {one - 1}" for one in range(1, 5_000)))
    assert len(graph.levels(plan)) == len(graph.critical_path(plan)) == 5_000
    closed = plan_of("0 < 4999", *(f"{one} < {one - 1}" for one in range(1, 5_000)))
    assert len(graph.find_cycle(closed.tasks) or ()) == 5_000


def test_unknown_and_doubled_dependencies_do_not_confuse_the_graph() -> None:
    built = graph.build(plan_of("a", "b < a a nobody").tasks)
    assert built.dependencies == ((), (0,))
    assert built.dependants == ((1,), ())


PLAN = plan_of("a", "b < a", "c < a", "d < a b c")


@pytest.mark.parametrize(
    ("bound", "codes"),
    [
        (Limits(), []),
        (Limits(max_tasks=4, max_fan_out=3, max_join_width=3), []),
        (Limits(max_tasks=3), ["task_count_exceeded"]),
        (Limits(max_fan_out=2), ["fan_out_exceeded"]),
        (Limits(max_join_width=2), ["join_width_exceeded"]),
        (Limits(max_tasks=1, max_fan_out=0, max_join_width=0),
         ["task_count_exceeded", *["fan_out_exceeded"] * 3, *["join_width_exceeded"] * 3]),
    ],
)  # fmt: skip
def test_limits(bound: Limits, codes: list[str]) -> None:
    assert [code for code, _, _ in limits.check(replace(PLAN, limits=bound))] == codes


def test_a_limit_names_task_number_and_line() -> None:
    plan = plan_of("a", "b", task_of("c < a b", line=12))
    bound = replace(plan, limits=Limits(max_join_width=1))
    assert limits.check(bound) == [("join_width_exceeded", "task c depends on 2 tasks, at most 1 are allowed", 12)]
    with pytest.raises(PlanError, match=r"task c depends on 2 tasks, at most 1 are allowed$") as caught:
        limits.enforce(bound)
    assert (caught.value.code, caught.value.path, caught.value.line) == ("join_width_exceeded", "plan.md", 12)


def test_the_first_broken_limit_says_how_many_more_there_are() -> None:
    limits.enforce(PLAN)
    with pytest.raises(PlanError, match=r"at most 0 may \(and 2 more such places\)$"):
        limits.enforce(replace(PLAN, limits=Limits(max_fan_out=0)))


def test_pairs_leave_out_what_depends_on_orders() -> None:
    tasks = [
        task_of("a", files=("x",)),
        task_of("b < a", files=("x",)),
        task_of("c", files=("x",), reads=("r",)),
        task_of("d < b", reads=("r",), files=("*",)),
        task_of("e", resources=("db",)),
        task_of("f", resources=("db",)),
    ]
    assert conflicts.pairs(plan_of(*tasks)) == [
        ("a", "c", "x"),
        ("b", "c", "x"),
        ("c", "d", "r"),
        ("e", "f", "db"),
    ]


def test_pairs_of_a_shared_file_are_limited_in_number_and_quick_to_find() -> None:
    same = plan_of(*(task_of(f"t{one}", files=("x",)) for one in range(3000)))
    assert len(conflicts.pairs(same, limit=50)) == 50
    assert not conflicts.listing(same, limit=50).complete
    assert conflicts.listing(plan_of(task_of("a", files=("x",)), task_of("b", files=("x",))), limit=1).complete
    chain = plan_of(*(task_of(f"t{one} < t{one - 1}" if one else "t0", files=("x",)) for one in range(3000)))
    assert conflicts.pairs(chain) == []


def test_a_listing_stops_where_too_many_patterns_would_have_to_be_compared() -> None:
    found = conflicts.listing(
        plan_of(*(task_of(f"t{one}", files=(f"*/n{one}.py",)) for one in range(300))), may_compare=5000
    )
    assert (found.pairs, found.complete) == ([], False)
    found = conflicts.listing(plan_of(*(task_of(f"t{one}", files=(f"d/n{one}.py",)) for one in range(300))))
    assert (found.pairs, found.complete) == ([], True)


def test_keys_are_shared_by_all_ways_of_writing_a_path() -> None:
    keys = conflicts.Keys(plan_of(task_of("a", files=("./x",)), task_of("b", files=("y/../x", "q"))))
    assert keys.shared(0, 1) == ("conflict", "./x")
    assert keys.shared(1, 0) == ("conflict", "./x")
    assert keys.name(keys.claims(0)[0][0]) == "./x"
    assert conflicts.Keys(plan_of("a", "b")).shared(0, 1) is None
    assert TaskId("a") == plan_of("a").tasks[0].id
