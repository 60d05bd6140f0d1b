"""One thing that was looked at, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of `doctor`. Texts may hold foreign names: whoever shows them makes them safe."""

    level: Level
    """`note`: nothing is wrong, but somebody may want to know. `problem`: the bus cannot be used, or is damaged."""
    code: str
    """Stable; docs/operations.md explains each."""
    text: str
    hint: str | None = None
    """What to do next."""
    details: tuple[str, ...] = ()
    """What it is about, one by one."""

    def as_data(self) -> dict[str, Any]:
        """Return the object of `doctor --json`."""
        return {
            "level": self.level,
            "code": self.code,
            "text": self.text,
            "hint": self.hint,
            "details": list(self.details),
        }


def fine(code: str, text: str, *, details: tuple[str, ...] = ()) -> Finding:
    """All is as it should be."""
    return Finding("ok", code, text, None, details)


def note(code: str, text: str, hint: str | None = None, *, details: tuple[str, ...] = ()) -> Finding:
    """Worth knowing."""
    return Finding("note", code, text, hint, details)


def problem(code: str, text: str, hint: str | None = None, *, details: tuple[str, ...] = ()) -> Finding:
    """Something that has to be mended."""
    return Finding("problem", code, text, hint, details)
