"""Warnings are few: what is the same is said once, and of each kind a short list shows the first."""

from __future__ import annotations

from conductor.core.task import PlanWarning
from conductor.plan.warnings import Warnings, brief


def test_the_same_is_said_once_with_a_count() -> None:
    warnings = Warnings()
    for line in (4, 7, 9):
        warnings.add("a", "odd", line)
    warnings.add("b", "odd", 5)
    assert warnings.all() == (PlanWarning("a", "odd (3 places)", 4), PlanWarning("b", "odd", 5))


def test_what_is_repeated_does_not_use_up_the_room_of_others() -> None:
    warnings = Warnings()
    for number in range(1000):
        warnings.add("a", "odd")
        warnings.add("a", f"odd {number % 5}")
    assert len(warnings.all()) == 6


def test_a_short_list_has_one_line_for_each_kind_and_says_how_many_more() -> None:
    warnings = Warnings()
    for number in range(1500):
        warnings.add("a", f"odd {number}", number)
    warnings.add("b", "strange")
    assert brief(warnings.all()) == [PlanWarning("a", "odd 0; and 1,499 more like it", 0), PlanWarning("b", "strange")]
    shown = brief(warnings.all(), each=3)
    assert [one.message for one in shown] == ["odd 0", "odd 1", "odd 2; and 1,497 more like it", "strange"]


def test_a_short_list_begins_with_everything_that_has_no_effect() -> None:
    warnings = Warnings()
    warnings.add("a", "odd")
    for what in ("budget", "time"):
        warnings.add("not_supported_yet", what)
    assert [one.message for one in brief(warnings.all())] == ["budget", "time", "odd"]
