"""What the evidence says of a running attempt: whether it starts, works, is quiet, or cannot be told to live.

All ages are seconds on a clock that leaves gaps out (a suspended machine, a conductor that was held up or not there):
of the worker's own clock where its beat says so, of the conductor's where it saw something itself. No wall clock is
compared, and nobody is judged by a time in which nobody looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bus.strict import number
from bus.wire import JsonObject
from conductor.core.wording import duration

STARTING, WORKING, QUIET, STUCK = "starting", "working", "quiet", "stuck"
FINISHED, UNKILLABLE = "finished", "unkillable"

START_GRACE = 5.0
"""Seconds in which a worker may start its command before people are told that it has not."""

FINISH_GRACE = 1.0
"""Seconds in which a worker may end after its result is there before people are told that it has not."""

BEATS_MISSED = 3
"""Periods without a beat after which a worker is stuck: stopped, hanging, or without a processor."""

BEAT_GRACE = 5.0
"""Seconds more, for a machine that is busy."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What was seen of one attempt."""

    opened: float
    """Seconds since it was launched, or found by this conductor."""
    claimed: bool
    """Whether its worker has begun."""
    started: bool
    """Whether its command was started."""
    beat: JsonObject | None
    """The newest beat: `phase`, and `output`, `cpu`, `files` with an `age` each, as far as its worker can tell them."""
    beat_age: float
    """Since the conductor saw it change; since `opened` before the first."""
    message_age: float | None
    """Since its last message, or the end of its last wait; None where there was none."""
    period: float
    """Seconds between two beats."""
    finished: float | None
    """Since its result was seen, while its worker lives on; None where there is none."""
    left: str | None
    """What is left of it and cannot be ended; None where that is not so."""
    waits: bool
    """Whether it waits for a lock, a task or an answer."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an attempt is found to be."""

    life: str
    """starting | working | quiet | stuck | finished | unkillable."""
    detail: str
    """Why, in words for people; empty where it works."""
    evidence: Mapping[str, Any]
    """Ages in seconds: `output`, `cpu`, `files`, `message`, `beat`, as far as they are known."""


def judge(signs: Signs, stale_after: float | None, was: str | None) -> Judgement:
    """Judge one attempt. `stale_after`: seconds without any sign after which it is quiet; None is never. `was`: what it
    was found to be before, also by an earlier conductor."""
    life, detail = _judge(signs, stale_after, was)
    return Judgement(life, detail, _evidence(signs))


def _judge(signs: Signs, stale_after: float | None, was: str | None) -> tuple[str, str]:
    if signs.left is not None:
        return UNKILLABLE, f"what is left of it cannot be ended: {signs.left}"
    if signs.finished is not None and signs.finished >= FINISH_GRACE:
        return FINISHED, f"its result is there, its worker has not ended for {duration(signs.finished)}"
    if not signs.started:
        if signs.waits:  # for the locks of its task: that has a name, and takes what it takes
            return WORKING, ""
        late = signs.opened >= START_GRACE
        what = "its worker has not started its command" if signs.claimed else "its worker has not begun"
        return (STARTING, f"{what} for {duration(signs.opened)}") if late else (WORKING, "")
    if signs.beat_age > BEATS_MISSED * signs.period + BEAT_GRACE:
        return STUCK, f"its worker gave no sign of life for {duration(signs.beat_age)}: it is stopped, or hangs"
    idle = _idle(signs, was)
    if stale_after is not None and idle is not None and idle >= stale_after:
        return QUIET, f"{_without(signs)} for {duration(idle)}"
    return WORKING, ""


def _idle(signs: Signs, was: str | None) -> float | None:
    """Return the seconds since the newest sign that the command works; None where that cannot or need not be told.

    Nobody is idle for longer than he was looked at, unless he was found quiet before and gave no sign since.
    """
    beat = signs.beat or {}
    ages = [age + signs.beat_age for age in _ages(beat).values()]
    if not ages or signs.waits or beat.get("stands") is True:
        return None
    if signs.message_age is not None:
        ages.append(signs.message_age)
    if was != QUIET:
        ages.append(signs.opened)
    return min(ages)


def _without(signs: Signs) -> str:
    names = {"output": "output", "cpu": "processor time", "files": "changed file"}
    lacking = [names[name] for name in _ages(signs.beat or {})]
    return ", ".join(f"no {name}" for name in [*lacking, "message"])


def _evidence(signs: Signs) -> dict[str, float]:
    found = {name: age + signs.beat_age for name, age in _ages(signs.beat or {}).items()}
    if signs.message_age is not None:
        found["message"] = signs.message_age
    return {name: round(age, 1) for name, age in {**found, "beat": signs.beat_age}.items()}


def _ages(beat: JsonObject) -> dict[str, float]:
    """Return the ages that a beat tells. Whatever else stands in that file is nothing: any process may write to it."""
    return dict(_numbers((name, beat.get(name)) for name in ("output", "cpu", "files")))


def _numbers(parts: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, float]]:
    for name, part in parts:
        age = number(part.get("age")) if isinstance(part, Mapping) else None
        if age is not None:
            yield name, max(0.0, age)
