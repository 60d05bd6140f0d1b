"""Lengths of time as people write them, in seconds."""

from __future__ import annotations

import re
from functools import lru_cache

MAX_SECONDS = 366 * 86400.0
"""Longest duration that is believed: a year."""

_UNITS = {
    "": 1.0,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "mins": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "hrs": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]*)\s*")
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


def parse_duration(text: str) -> float:
    """Return seconds of `90`, `90s`, `30m`, `2h`, `1h30m`; 0.0 of `0` and `none`, which mean no limit.

    Raises ValueError.
    """
    wanted = text.strip().lower()
    if wanted == "none":
        return 0.0
    seconds, at, parts = 0.0, 0, 0
    while at < len(wanted):
        part = _PART.match(wanted, at)
        if part is None or part[2] not in _UNITS or (part[2] == "" and (parts or part.end() < len(wanted))):
            raise ValueError(_expected(text))
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
        parts += 1
    if parts == 0:
        raise ValueError(_expected(text))
    if seconds > MAX_SECONDS:
        raise ValueError(f"{text!r} is longer than a year")
    return seconds


@lru_cache(maxsize=1024)  # a plan says the same few lengths over and over
def parse_estimate(text: str) -> float | None:
    """Return the seconds of an `estimated_duration`, a bare number being minutes; None where it cannot be read."""
    wanted = text.strip()
    try:
        seconds = parse_duration(f"{wanted}m" if _NUMBER.fullmatch(wanted) else wanted)
    except ValueError:
        return None
    return seconds if wanted.lower() != "none" else None


def _expected(text: str) -> str:
    return f"{text[:40]!r} is not a duration"
