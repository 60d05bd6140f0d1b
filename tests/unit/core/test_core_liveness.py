"""Each state of an attempt is named by what was seen of it, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from conductor.core.liveness import (
    BEAT_GRACE,
    BEATS_MISSED,
    FINISHED,
    QUIET,
    STARTING,
    STUCK,
    UNKILLABLE,
    WORKING,
    Signs,
    judge,
)


def beat(output: float = 0.0, cpu: float | None = 0.0, files: float | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"phase": "command", "output": {"bytes": 10, "age": output}}
    if cpu is not None:
        found["cpu"] = {"seconds": 1.0, "age": cpu}
    if files is not None:
        found["files"] = {"age": files}
    return {**found, **more}


WELL = Signs(
    opened=5000.0,
    claimed=True,
    started=True,
    beat=beat(),
    beat_age=2.0,
    message_age=None,
    period=10.0,
    finished=None,
    left=None,
    waits=False,
)


def life(signs: Signs, stale_after: float | None = 600.0, was: str | None = None) -> str:
    return judge(signs, stale_after, was).life


@pytest.mark.parametrize(
    ("signs", "expected", "detail"),
    [
        (WELL, WORKING, ""),
        (replace(WELL, started=False, claimed=False, opened=1.0), WORKING, ""),
        (replace(WELL, started=False, opened=700.0, waits=True), WORKING, ""),  # in line for the locks of its task
        (replace(WELL, started=False, claimed=False, opened=7.0), STARTING, "its worker has not begun for 7.0s"),
        (replace(WELL, started=False, opened=7.0), STARTING, "its worker has not started its command for 7.0s"),
        (replace(WELL, beat_age=35.0), WORKING, ""),
        (replace(WELL, beat_age=36.0), STUCK, "its worker gave no sign of life for 36s: it is stopped, or hangs"),
        (replace(WELL, beat=beat(600, 600)), QUIET, "no output, no processor time, no message for 10m 2s"),
        (
            replace(WELL, beat=beat(600, None, 700), message_age=900.0),
            QUIET,
            "no output, no changed file, no message for 10m 2s",
        ),
        (replace(WELL, finished=0.5), WORKING, ""),
        (replace(WELL, finished=3.0), FINISHED, "its result is there, its worker has not ended for 3.0s"),
        (
            replace(WELL, finished=3.0, left="pid 12 (cat) in state D"),
            UNKILLABLE,
            "what is left of it cannot be ended: pid 12 (cat) in state D",
        ),
    ],
)
def test_each_life_is_named_and_said(signs: Signs, expected: str, detail: str) -> None:
    found = judge(signs, 600.0, None)
    assert (found.life, found.detail) == (expected, detail)


@pytest.mark.parametrize(
    "signs",
    [
        replace(WELL, beat=beat(3, 9999, 9999), message_age=9999.0),
        replace(WELL, beat=beat(9999, 3, 9999), message_age=9999.0),
        replace(WELL, beat=beat(9999, 9999, 3), message_age=9999.0),
        replace(WELL, beat=beat(9999, 9999, 9999), message_age=3.0),
    ],
    ids=["output", "processor time", "files", "message"],
)
def test_requirement_22_any_one_sign_is_enough_not_to_be_quiet(signs: Signs) -> None:
    assert life(signs) == WORKING


@pytest.mark.parametrize(
    ("signs", "stale_after"),
    [
        (replace(WELL, beat=beat(599.0 - 2, 9999)), 600.0),
        (replace(WELL, beat=beat(9999, 9999)), None),
        (replace(WELL, beat=beat(9999, 9999), waits=True), 600.0),
        (replace(WELL, beat=beat(9999, 9999, stands=True)), 600.0),
    ],
    ids=["within its limit", "no limit", "waits", "asks a person"],
)
def test_requirement_22_a_worker_that_is_silent_for_a_reason_or_within_its_limit_is_not_quiet(
    signs: Signs, stale_after: float | None
) -> None:
    assert life(signs, stale_after) == WORKING


def test_requirement_21_nobody_is_quiet_in_a_time_in_which_nobody_looked() -> None:
    """A conductor that took over an hour later has looked for ten seconds; whoever was quiet before stays so."""
    found = replace(WELL, beat=beat(4000, 4000), opened=10.0)
    assert life(found) == WORKING
    assert life(found, was=QUIET) == QUIET
    assert life(replace(found, message_age=4.0), was=QUIET) == WORKING


def test_a_late_beat_makes_what_it_told_older() -> None:
    assert life(replace(WELL, beat=beat(10, 10), beat_age=30.0), 41.0) == WORKING
    assert life(replace(WELL, beat=beat(10, 10), beat_age=30.0), 40.0) == QUIET


def test_a_worker_is_stuck_after_three_missed_beats_of_its_own_period_and_a_grace() -> None:
    last = BEATS_MISSED * WELL.period + BEAT_GRACE
    assert life(replace(WELL, beat_age=last)) == WORKING
    assert life(replace(WELL, beat_age=last + 0.1)) == STUCK
    assert life(replace(WELL, beat=None, beat_age=last + 0.1)) == STUCK


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}] + [{"age": age} for age in (None, "old", True, nan, inf, [])])
def test_what_anybody_may_have_written_into_a_beat_is_no_evidence(odd: Any) -> None:
    signs = replace(WELL, beat={"phase": 3, "output": odd, "cpu": [odd], "files": odd}, message_age=9999.0)
    found = judge(signs, 600.0, None)
    assert found.life == WORKING
    assert found.evidence == {"message": 9999.0, "beat": 2.0}


def test_a_beat_that_counts_backwards_is_of_now() -> None:
    assert judge(replace(WELL, beat=beat(-50.0, None)), 600.0, None).evidence == {"output": 2.0, "beat": 2.0}


def test_the_evidence_tells_how_old_each_sign_is() -> None:
    found = judge(replace(WELL, beat=beat(1, 2.25, 3), message_age=7.0), 600.0, None)
    assert found.evidence == {"output": 3.0, "cpu": 4.2, "files": 5.0, "message": 7.0, "beat": 2.0}
