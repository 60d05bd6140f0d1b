"""Paths that go into the journal, which is UTF-8."""

from __future__ import annotations

from pathlib import Path

from conductor.errors import ConductorError


def check_recordable(path: Path, what: str) -> None:
    """Raise `usage` for a path that is not UTF-8: neither the journal nor a command could be given it."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise ConductorError(
            "usage", f"{what} is not valid UTF-8", path=str(path), hint="rename the folder, or one above it"
        ) from error
