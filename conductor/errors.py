"""The one error that the command line turns into text, JSON and an exit code."""

from __future__ import annotations


class ConductorError(Exception):
    """Something the user can act on.

    `code` is stable and documented; `hint` says what to do next.
    """

    def __init__(
        self, code: str, message: str, *, path: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.path = path
        self.line = line
        self.hint = hint


class PlanError(ConductorError):
    """The plan cannot be run. No work was begun.

    `path` is the file's name in the track.
    """

    track: str | None = None
    """The track as the user typed it, where it is known: the same file name stands in many tracks."""
