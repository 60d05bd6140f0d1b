"""How long a plan may take at most."""

from __future__ import annotations

import pytest

from conductor.core.task import RunOptions
from conductor.core.worst_case import too_short, worst_case
from conductor.testing.plans import plan_of, task_of

ONE_EACH = RunOptions(timeout=100.0, retries=0)


def test_along_the_chain_and_one_after_the_other() -> None:
    plan = plan_of("a", "b < a", task_of("c", timeout=250.0))
    found = worst_case(plan, ONE_EACH, grace=10.0)
    assert (found.attempts, found.chain, found.total, found.unbounded) == (3, 260.0, 480.0, ())


def test_every_attempt_with_its_verify_commands_and_the_longest_delays_between() -> None:
    plan = plan_of(task_of("a", retries=3, verify=(("x",), ("y",))))
    options = RunOptions(timeout=100.0, retry_delay=2.0, retry_delay_max=5.0)
    assert worst_case(plan, options, grace=0.0).total == 4 * 300 + 2 + 4 + 5
    many = plan_of(task_of("a", retries=1000))
    assert worst_case(many, options, grace=0.0).total == 1001 * 100 + 2 + 4 + 998 * 5


@pytest.mark.parametrize(
    ("changes", "attempts"), [({"timeout": 0.0}, 1), ({"approve": "after"}, 1), ({"manual": True}, 0)]
)
def test_what_nothing_bounds_is_named(changes: dict[str, object], attempts: int) -> None:
    found = worst_case(plan_of("a", task_of("b", **changes)), ONE_EACH, grace=0.0)
    assert (found.chain, found.total, found.unbounded, found.attempts) == (None, None, ("b",), 1 + attempts)
    assert worst_case(plan_of("a"), RunOptions(timeout=None), grace=0.0).unbounded == ("a",)


def test_a_person_with_a_time_limit_has_one_attempt() -> None:
    found = worst_case(plan_of(task_of("a", manual=True, timeout=50.0, retries=3)), ONE_EACH, grace=9.0)
    assert (found.chain, found.attempts) == (50.0, 0)


def test_no_tasks_take_no_time() -> None:
    assert worst_case(plan_of(), ONE_EACH, grace=1.0).chain == 0.0


def test_a_limit_of_the_run_that_may_be_too_short_is_said() -> None:
    bounded = worst_case(plan_of("a", "b < a"), ONE_EACH, grace=0.0)
    assert too_short(None, bounded) is None
    assert too_short(200.0, bounded) is None
    assert "may take 3m 20s, and after 3m 19s (run_timeout)" in str(too_short(199.0, bounded))
    endless = worst_case(plan_of("a"), RunOptions(timeout=None), grace=0.0)
    assert "has no limit of its own, and after 1s" in str(too_short(1.0, endless))
