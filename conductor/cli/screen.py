"""What `run` shows while it works: a live screen, plain lines, or NDJSON. The run does not know which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TextIO

from bus.contract import Reader
from bus.wire import Record, TaskId
from conductor.cli.output import is_terminal
from conductor.cli.track import Track
from conductor.core.view import RunView


class RunScreen(Protocol):
    """Shows one run. Never raises because of its output: a closed terminal or pipe makes it silent, the run goes on.

    A context manager: leaving it restores the terminal, also where `close` was never reached.
    """

    def __enter__(self) -> RunScreen:
        """Begin; nothing is shown before `start`."""

    def __exit__(self, *_: object) -> None:
        """Give the terminal back as it was."""

    def start(self, view: RunView, now: float) -> None:
        """Show how the run begins. `now` is the time of all calls: `Stamp.mono`."""

    def update(self, view: Callable[[], RunView], records: Sequence[Record], now: float) -> float | None:
        """Show what is new: records since the last call (perhaps none), and the time.

        `view` is called only where a picture is drawn, because making one walks over all tasks. Returns the seconds
        after which the screen wants to be called again at the latest; None where only records matter.
        """

    def note(self, text: str) -> None:
        """Say something that is no record."""

    def idle(self, view: RunView, tasks: Sequence[TaskId]) -> None:
        """Show, last of all and in place of `close`, that there was nothing to do: `tasks` are done already."""

    def close(self, view: RunView, exit_code: int) -> None:
        """Show how it ended, last of all."""


def choose(*, json: bool, quiet: bool, stdout: TextIO, track: Track, reader: Reader) -> RunScreen:
    """Return the screen for this output: `--json` > `--quiet` > a terminal > plain lines."""
    if json:
        from conductor.cli.screen_json import JsonScreen

        return JsonScreen(stdout, reader)
    if not quiet and is_terminal(stdout):
        from conductor.cli.screen_live import LiveScreen

        return LiveScreen(stdout, track, reader)
    from conductor.cli.screen_plain import PlainScreen

    return PlainScreen(stdout, track, reader, quiet=quiet)
