"""How lengths of time, numbers and lists are said to people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def duration(seconds: float) -> str:
    """Say a length of time in at most two units: `0.4s`, `12s`, `1m 20s`, `2h 5m`, `3d 4h`."""
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit} {rest}{smaller}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def exact(seconds: float) -> str:
    """Say a length of time that somebody set, without zeros that he did not write: `1s`, `0.5s`, `1m 30s`."""
    return duration(seconds) if seconds >= 60 else f"{round(seconds, 1):g}s"


def left_behind(ended: Sequence[Mapping[str, Any]]) -> str:
    """Say which processes (`pid`, `name`) a command left behind and its worker ended; empty where there were none."""
    if not ended:
        return ""
    names = few(list(dict.fromkeys(str(one.get("name")) for one in ended)))
    many = len(ended) > 1
    return f"ended {len(ended)} process{'es' if many else ''} that it left behind ({names})"


def plural(number: int, noun: str) -> str:
    """Count a regular noun: `1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def few(names: Sequence[str], most: int = 4) -> str:
    """List some names: `1, 2, 3, 4 and 7 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def sentence(text: str) -> str:
    """Begin with a capital."""
    return text[:1].upper() + text[1:]


def person(who: str) -> str:
    """Say who asked for something: `signal:INT` is Ctrl-C, `operator:mary` is mary, `claim` a file in `events/`."""
    kind, _, name = who.partition(":")
    if who == "claim":
        return "a file in events/"
    if kind == "signal":
        return "Ctrl-C" if name == "INT" else f"SIG{name}"
    return name or who
