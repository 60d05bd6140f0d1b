"""What signals of a terminal do to whoever draws on it: in each case it is given back as it was."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import IOBase
from types import FrameType

from conductor.cli.exit_codes import Exit

SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def orderly() -> Iterator[None]:
    """Around whatever may hold a terminal: TERM leaves by way of all `finally`s, a hang-up does nothing.

    A run takes TERM over while its loop works (`runtime.signals`); this is for the time before and after.
    """
    old = {signal.SIGTERM: signal.signal(signal.SIGTERM, _leave)}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        # A handler, not SIG_IGN, which every process that is started would inherit.
        old[signal.SIGHUP] = signal.signal(signal.SIGHUP, _do_nothing)
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def in_background(stream: IOBase) -> bool:
    """Tell whether the terminal behind `stream` belongs to another job now."""
    try:
        return os.tcgetpgrp(stream.fileno()) != os.getpgrp()
    except (OSError, ValueError):  # no terminal, or none of ours
        return False


def _leave(*_: object) -> None:
    raise SystemExit(int(Exit.TERMINATED))


def _do_nothing(*_: object) -> None:
    pass


class Suspension:
    """Ctrl-Z: give the terminal back, stop, and take it again when somebody lets us go on.

    A context manager, for the main thread. A stop that comes while something is drawn waits for the end of that.
    """

    def __init__(self, give_back: Callable[[], None], take_again: Callable[[], None]) -> None:
        self._give_back = give_back
        self._take_again = take_again
        self._busy = False
        self._asked = False
        self._ours = False

    def __enter__(self) -> Suspension:
        # Whoever ignores it (an interactive shell's background job) goes on to do so.
        self._ours = signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
        if self._ours:
            signal.signal(signal.SIGTSTP, self._on_stop)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """While this lasts, nobody stops us half-way through a picture."""
        outer, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = outer
            if self._asked and not self._busy:
                self._suspend()

    def _on_stop(self, number: int, _: FrameType | None) -> None:
        self._asked = True
        if not self._busy:
            self._suspend()

    def _suspend(self) -> None:
        self._asked = False
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # here we stand still
        signal.signal(signal.SIGTSTP, self._on_stop)
        self._take_again()
