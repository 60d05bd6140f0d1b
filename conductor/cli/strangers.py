"""Attempts that live although the journal, which lost its end, does not tell of them: no run begins beside them."""

from __future__ import annotations

from bus.errors import BusError
from conductor.cli.load import Loaded


def refusal_of(loaded: Loaded) -> BusError | None:
    """Return the error with which a run would be refused because of them; its hint says how to end them."""
    if not loaded.strangers:
        return None
    from conductor.runtime.strangers import refusal  # with it comes half of a run

    return refusal(loaded.reader, loaded.strangers)


def strangers_text(loaded: Loaded) -> str | None:
    """Say it to people; None where there are none."""
    error = refusal_of(loaded)
    return f"{error.message}; {error.hint}" if error else None
