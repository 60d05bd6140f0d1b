"""How an error reaches the user: text on stderr, or one JSON object as the last line of stdout; never a traceback."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from bus.errors import BusError
from bus.process import is_shortage
from bus.room import remedy
from conductor.cli.escape import one_line, short_lines
from conductor.cli.exit_codes import Exit, exit_of
from conductor.cli.output import err, print_json
from conductor.cli.track import PROGRAM
from conductor.errors import ConductorError, PlanError

DEBUG = "CONDUCTOR_DEBUG"
"""With this in the environment an error of the program itself shows its traceback."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as the user sees it."""

    code: str
    message: str
    path: str | None = None
    line: int | None = None
    hint: str | None = None
    track: str | None = None
    """The track whose file it is about."""

    @property
    def place(self) -> str | None:
        """`TRACK/plan.md:41`, `plan.md`, or None: a path that can be opened from where the user is."""
        path = self.path
        if path and self.track and path != self.track and not os.path.dirname(path):
            path = os.path.join(self.track, path)
        return f"{path}:{self.line}" if path and self.line else path


def describe(error: Exception) -> Failure:
    """Turn any exception into what the user is told."""
    if isinstance(error, ConductorError | BusError):
        track = error.track if isinstance(error, PlanError) else None
        return Failure(error.code, error.message, error.path, error.line, error.hint, track)
    if isinstance(error, click.UsageError):
        hint = f"`{error.ctx.command_path.replace('conductor', PROGRAM, 1)} --help`" if error.ctx else None
        if hint and isinstance(error, click.NoSuchOption):
            hint += "; a task or folder that begins with `-` stands behind `--`"
        return Failure("usage", error.format_message(), hint=hint)
    if isinstance(error, click.ClickException):
        return Failure("usage", error.format_message())
    if isinstance(error, OSError):
        return _refused(error)
    if isinstance(error, ImportError):  # also where a library cannot be opened for lack of descriptors or memory
        hint = "raise what is said to be too little, or install the program again"
        return Failure("io", f"a part of the program cannot be loaded: {error}", hint=hint)
    hint = "please report this" + ("" if os.environ.get(DEBUG) else f"; {DEBUG}=1 shows where it happened")
    return Failure("internal", f"conductor itself failed: {type(error).__name__}: {error}", hint=hint)


def _refused(error: OSError) -> Failure:
    """What the system refused. What ran short was not missing at the one file at which that showed."""
    text = error.strerror or str(error) or type(error).__name__
    if is_shortage(error):
        return Failure("io", f"the system refused to go on: {text}", hint=remedy(error))
    path = error.filename if isinstance(error.filename, str) else None
    return Failure("io", text, path, hint=remedy(error))


def report(error: Exception, *, as_json: bool) -> Exit:
    """Tell the user about `error` and return the exit code that belongs to it."""
    failure = describe(error)
    if failure.code == "internal" and os.environ.get(DEBUG):
        import traceback

        err("".join(traceback.format_exception(error)).rstrip())
    if as_json:
        print_json({"error": as_data(failure)}, pretty=False)
    else:
        err(as_text(failure))
    return exit_of(failure.code)


def as_data(failure: Failure) -> dict[str, str | int | None]:
    """Return the object under `error` of the JSON form."""
    return {
        "code": failure.code,
        "message": failure.message,
        "path": failure.path,
        "line": failure.line,
        "hint": failure.hint,
    }


def as_text(failure: Failure) -> str:
    """Return `error: PLACE: MESSAGE` and, on lines of their own, the rest of the message and the hint."""
    place = f"{one_line(failure.place)}: " if failure.place else ""
    text = f"error: {place}{short_lines(failure.message)}"
    return f"{text}\nhint: {short_lines(failure.hint)}" if failure.hint else text
