"""How a place in a plan becomes part of an error."""

from __future__ import annotations

from typing import Protocol

from conductor.errors import PlanError


class Placed(Protocol):
    """Anything that knows where in the file it stands, both from 1."""

    line: int
    column: int


def plan_error(code: str, message: str, at: Placed | None = None, *, hint: str) -> PlanError:
    """Make an error that names line and column, with a hint: what to do about it.

    The path is added by the reader, who knows the file.
    """
    if at is None:
        return PlanError(code, message, hint=hint)
    return PlanError(code, f"{message} (line {at.line}, column {at.column})", line=at.line, hint=hint)


def shown(text: str, limit: int = 60) -> str:
    """Quote foreign text for a message: one line, control characters escaped, not too long."""
    escaped = text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:limit])
    return f'"{escaped}"' if len(escaped) <= limit else f'"{escaped[:limit]}…"'
