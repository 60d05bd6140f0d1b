"""Lengths of time."""

from __future__ import annotations

import pytest

from conductor.plan.durations import parse_duration, parse_estimate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1h 30m", 5400), ("0", 0), ("none", 0),
     ("None", 0), ("1.5h", 5400), ("0.5s", 0.5), ("2 days", 172800), ("45 MIN", 2700), ("0s", 0)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "+1", "1e3", "1_0", "inf", "nan", "h", "1h30", "30 1h", "1-2 days", "completed", "1x", "٣m", "1,5h",
     "9" * 400, "400d", "1.h", "0x10"],
)  # fmt: skip
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800.0), ("30s", 30.0), ("1.5", 90.0), ("completed", None), ("none", None), ("", None), ("~2h", None)],
)
def test_a_bare_number_in_an_estimate_is_minutes(text: str, seconds: float | None) -> None:
    assert parse_estimate(text) == seconds
