"""What the verbs of `conductor bus` share: the bus of the worker around them, durations, exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from bus.client import Client
from bus.errors import AttemptRevoked, LockBusy, NotInWorker, TaskNotDone, WaitTimedOut
from conductor.cli.escape import shortened
from conductor.cli.exit_codes import BusExit
from conductor.cli.options import Decorator
from conductor.cli.output import err
from conductor.errors import ConductorError


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Return the seconds of `90`, `30m`, `1h30m`; None where there is no limit (`0`, `none`)."""
    if text is None:
        return None
    from conductor.plan.durations import parse_duration

    try:
        return parse_duration(text) or None
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def duration_option(name: str, help: str) -> Decorator:
    """An option that is a length of time."""
    return click.option(name, metavar="D", callback=_seconds, help=f"{help} 90 (seconds), 30m, 2h.")


@contextmanager
def worker() -> Iterator[Client]:
    """Open the bus of the worker that we run in; what waits there ends with the block."""
    with inside():
        client = Client.from_environment(say=err)
    with client:
        try:
            yield client
        except ValueError as error:
            raise ConductorError("usage", str(error)) from error


@contextmanager
def inside() -> Iterator[None]:
    try:
        yield
    except NotInWorker as error:
        raise ConductorError("usage", error.message, hint=error.hint) from error


def standing(client: Client) -> int:
    """Tell the caller where the attempt is being stopped, or over, and return the exit code."""
    reason = client.over()
    return BusExit.YES if reason is None else stopped(AttemptRevoked(reason))


def stopped(error: AttemptRevoked) -> int:
    """Say that the attempt is being stopped, or over, and return the exit code."""
    err(shortened(error.message))
    return BusExit.REVOKED


def waited(error: LockBusy | TaskNotDone | WaitTimedOut | AttemptRevoked) -> int:
    """Say why there is nothing to go on with, and return the exit code."""
    if isinstance(error, AttemptRevoked):
        return stopped(error)
    err(shortened(error.message))
    return BusExit.TIMED_OUT if isinstance(error, WaitTimedOut) else BusExit.NO
