"""How lengths of time, numbers and lists are said."""

from __future__ import annotations

import pytest

from conductor.core.wording import duration, exact, few, left_behind, person, plural, sentence


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


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "1s"), (0.5, "0.5s"), (10.04, "10s"), (59, "59s"), (90, "1m 30s"), (7200.0, "2h")]
)
def test_limits_are_said_as_they_were_set(seconds: float, text: str) -> None:
    assert exact(seconds) == text


def test_processes_left_behind_are_counted_and_each_name_is_said_once() -> None:
    sleep, server = {"pid": 7, "name": "sleep"}, {"pid": 9, "name": "server"}
    assert left_behind([]) == ""
    assert left_behind([sleep]) == "ended 1 process that it left behind (sleep)"
    assert left_behind([sleep, server, {**sleep, "pid": 8}]) == "ended 3 processes that it left behind (sleep, server)"


def test_a_sentence_begins_with_a_capital() -> None:
    assert sentence("there is no bus") == "There is no bus"
    assert sentence("") == ""


@pytest.mark.parametrize(
    ("who", "text"),
    [
        ("signal:INT", "Ctrl-C"),
        ("signal:TERM", "SIGTERM"),
        ("operator:mary", "mary"),
        ("claim", "a file in events/"),
        ("mary", "mary"),
    ],
)
def test_who_asked_for_something_is_said_as_people_know_him(who: str, text: str) -> None:
    assert person(who) == text
