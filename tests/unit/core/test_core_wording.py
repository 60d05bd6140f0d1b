"""How lengths of time, numbers and lists are said."""

from __future__ import annotations

import pytest

from conductor.core.wording import duration, few, person, plural


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"),
        (0, "0.0s"),
        (0.44, "0.4s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m"),
        (80, "1m 20s"),
        (3599, "59m 59s"),
        (3600, "1h"),
        (7500, "2h 5m"),
        (86400 * 3 + 3600 * 4 + 59, "3d 4h"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_plurals() -> None:
    assert [plural(n, "task") for n in (0, 1, 2)] == ["0 tasks", "1 task", "2 tasks"]


def test_lists_are_cut() -> None:
    assert few(list("abcd")) == "a, b, c, d"
    assert few(list("abcde"), 2) == "a, b and 3 more"
    assert few([]) == ""


def test_people_and_signals_are_named() -> None:
    assert [person(who) for who in ("signal:INT", "signal:TERM", "operator:me", "me")] == [
        "Ctrl-C",
        "SIGTERM",
        "me",
        "me",
    ]
