"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

TRACK = "conductor.cli.track"
"""Key in a context's `meta` of the argument TRACK as it was typed."""


BUS_DIR = "conductor.cli.bus_dir"
"""Key in a context's `meta` of the option --bus-dir as it was typed."""


def _remember(context: click.Context, _: click.Parameter, track: str | None) -> str | None:
    context.meta[TRACK] = track
    return track


def _remember_bus(context: click.Context, _: click.Parameter, bus_dir: str | None) -> str | None:
    context.meta[BUS_DIR] = bus_dir
    return bus_dir


track_argument: Decorator = click.argument("track", metavar="TRACK", callback=_remember)
"""The folder of a track."""

optional_track_argument: Decorator = click.argument("track", metavar="[TRACK]", required=False, callback=_remember)
"""The folder of a track, for a verb that can do without."""

task_argument: Decorator = click.argument("task", metavar="TASK")
"""A task's id, exactly as the plan writes it."""

tasks_argument: Decorator = click.argument("tasks", metavar="TASK…", nargs=-1, required=True)
"""One task or several, by their ids."""


def _because(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    return None if text is None else checked(text)


because_option: Decorator = click.option(
    "-m",
    "--message",
    metavar="TEXT",
    callback=_because,
    help="Why; it is recorded with the order, and shown.",
)
"""What an operator says to his order."""

text_argument: Decorator = click.argument("text", metavar="TEXT", nargs=-1, required=True)
"""Words for a worker: see `text_of`."""


MAX_TEXT = 1 << 16
"""Bytes of a text for a worker, or of a reason, at most: it is recorded, with a conductor and without one."""

TOO_LONG = f"the text has more than {MAX_TEXT} bytes: put it into a file, and name that"


def text_of(words: Sequence[str]) -> str:
    """Return the text that was given as words; `-` alone stands for what comes on stdin, in UTF-8 whatever the locale.

    Raises `usage`.
    """
    import sys

    if tuple(words) == ("-",):
        try:
            stdin = getattr(sys.stdin, "buffer", None)  # None where it is closed
            data = stdin.read(MAX_TEXT + 1) if stdin else b""
            text = "" if len(data) > MAX_TEXT else data.decode()
        except UnicodeDecodeError as error:
            raise click.UsageError("what came on stdin is not valid UTF-8") from error
        if len(data) > MAX_TEXT:
            raise click.UsageError(TOO_LONG)
    else:
        text = " ".join(words)
    if not text.strip():
        raise click.UsageError("the text is empty")
    return checked(text).rstrip("\n")


def checked(text: str) -> str:
    """Return a text that can be recorded. Raises `usage` for one that is too long, or no valid UTF-8."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise click.UsageError("the text is not valid UTF-8") from error
    if size > MAX_TEXT:
        raise click.UsageError(TOO_LONG)
    return text


bus_dir_option: Decorator = click.option(
    "--bus-dir", metavar="DIR", callback=_remember_bus, help="Where the bus is (default TRACK/.message-bus)."
)


def examples(*lines: tuple[str, str]) -> str:
    """The end of a verb's help: command lines, each with what it does."""
    width = max(len(command) for command, _ in lines)
    shown = [f"  conductor {command.ljust(width)}  {does}".rstrip() for command, does in lines]
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *shown])


def json_option(help: str) -> Decorator:
    """The option `--json` of a verb."""
    return click.option("--json", "as_json", is_flag=True, help=help)
