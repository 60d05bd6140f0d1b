"""What `run` shows while it works: a live screen, plain lines, or NDJSON. The run does not know which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TextIO, TypeVar

from bus.contract import Reader
from bus.wire import Record, TaskId
from conductor.cli.output import is_terminal
from conductor.cli.track import Track
from conductor.core.view import RunView

T = TypeVar("T")


class RunScreen(Protocol):
    """Shows one run. Never raises because of its output: a closed terminal or pipe makes it silent, the run goes on.

    A context manager: leaving it restores the terminal, also where `close` was never reached.
    """

    def __enter__(self) -> RunScreen:
        """Begin; nothing is shown before `start`."""

    def __exit__(self, *_: object) -> None:
        """Give the terminal back as it was."""

    def start(self, now: float) -> None:
        """Begin, before the first record. `now` is the time of all calls: `Stamp.mono`."""

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
    from conductor.cli.screen_plain import PlainScreen

    plain = PlainScreen(stdout, track, reader, quiet=quiet)
    if quiet or not is_terminal(stdout):
        return plain
    from conductor.cli.screen_live import LiveScreen

    return Fallback(LiveScreen(stdout, track, reader), plain)


class Fallback:
    """A screen that draws, and a plain one for when that fails: a picture must never end a run."""

    def __init__(self, first: RunScreen, then: RunScreen) -> None:
        self._shown = self._first = first
        self._then = then
        self._begun: float | None = None

    def __enter__(self) -> Fallback:
        self._first.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._try(lambda screen: screen.__exit__(*error))

    def start(self, now: float) -> None:
        """Begin."""
        self._begun = now
        self._try(lambda screen: screen.start(now))

    def update(self, view: Callable[[], RunView], records: Sequence[Record], now: float) -> float | None:
        """Show what is new."""
        return self._try(lambda screen: screen.update(view, records, now))

    def note(self, text: str) -> None:
        """Say something that is no record."""
        self._try(lambda screen: screen.note(text))

    def idle(self, view: RunView, tasks: Sequence[TaskId]) -> None:
        """Show that there was nothing to do."""
        self._try(lambda screen: screen.idle(view, tasks))

    def close(self, view: RunView, exit_code: int) -> None:
        """Show how it ended."""
        self._try(lambda screen: screen.close(view, exit_code))

    def _try(self, call: Callable[[RunScreen], T]) -> T:
        if self._shown is self._first:
            try:
                return call(self._first)
            except Exception as error:  # whatever it is, it concerns the picture alone
                self._fall_back(error)
        return call(self._then)

    def _fall_back(self, error: Exception) -> None:
        self._shown = self._then
        with suppress(Exception):
            self._first.__exit__()
        if self._begun is not None:
            self._then.start(self._begun)
        self._then.note(f"the live screen failed ({type(error).__name__}: {error}); the run goes on, in plain lines")
