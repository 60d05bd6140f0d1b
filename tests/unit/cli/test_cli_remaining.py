from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.cli.remaining import Work, remaining


def test_nothing_known_is_no_guess() -> None:
    assert remaining([Work("1", (), None, "running", 3.0), Work("2", ("1",), None, "pending")], 5) is None


def test_nothing_left_is_zero() -> None:
    assert remaining([Work("1", (), 5.0, "done", 4.0), Work("2", ("1",), None, "blocked")], 5) == 0.0
    assert remaining([], 5) == 0.0


def test_a_chain_takes_the_sum_of_its_estimates() -> None:
    assert remaining([Work("1", (), 10.0, "ready"), Work("2", ("1",), 20.0, "pending")], 5) == 30.0


def test_wide_work_is_shared_by_the_workers() -> None:
    assert remaining([Work(str(n), (), 10.0, "ready") for n in range(20)], 5) == 40.0


def test_what_runs_has_a_part_behind_it_and_is_never_done_at_once() -> None:
    assert remaining([Work("1", (), 10.0, "running", 4.0)], 5) == 6.0
    assert remaining([Work("1", (), 10.0, "running", 400.0)], 5) == 40.0


def test_estimates_are_scaled_by_what_was_observed() -> None:
    tasks = [Work("1", (), 1800.0, "done", 18.0), Work("2", ("1",), 3600.0, "pending")]
    assert remaining(tasks, 5) == 36.0


def test_tasks_without_estimate_take_what_others_took() -> None:
    done = [Work(str(n), (), None, "done", spent) for n, spent in enumerate((1.0, 2.0, 9.0))]
    assert remaining([*done, Work("x", (), None, "pending")], 5) == 4.0


def test_the_end_is_not_nearer_than_that_of_the_longest_running_task() -> None:
    done = [Work(str(n), (), 1.0, "done", 1.0) for n in range(9)]
    running = [Work("long", (), 100.0, "running", 40.0), Work("short", (), 1.0, "running", 0.5)]
    assert remaining([*done, *running], 5) == 60.0
    late = [Work("1", (), None, "done", 10.0), Work("2", (), None, "running", 50.0)]
    assert remaining(late, 5) == 5.0


@pytest.mark.parametrize("status", ["done", "running"])
def test_tasks_that_differ_too_much_tell_nothing_of_one_without_estimate(status: str) -> None:
    seen = [*(Work(str(n), (), None, "done", 0.1) for n in range(5)), Work("x", (), None, status, 60.0)]
    assert remaining([*seen, Work("y", (), None, "pending")], 5) is None
    assert remaining([*seen[:5], Work("x", (), 100.0, status, 60.0), Work("y", (), 30.0, "pending")], 5) is not None


@given(
    st.lists(st.tuples(st.floats(0.1, 1000), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 8),
)
def test_no_guess_is_shorter_than_any_chain(items: list[tuple[float, bool]], workers: int) -> None:
    tasks = [
        Work(str(n), (str(n - 1),) if chained and n else (), estimate, "pending")
        for n, (estimate, chained) in enumerate(items)
    ]
    guess = remaining(tasks, workers)
    assert guess is not None
    assert guess >= max(estimate for estimate, _ in items) - 1e-6
    assert guess <= sum(estimate for estimate, _ in items) + 1e-6
