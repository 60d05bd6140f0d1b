"""Signals as facts: Ctrl-C once drains, twice stops, three times leaves at once; TERM stops; HUP and PIPE do nothing.

The handlers only count and write a byte to a pipe, which wakes the loop.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from types import FrameType
from typing import Any

from conductor.core.events import ControlReceived


class LeaveAtOnce(Exception):
    """The third Ctrl-C, or TERM where nothing can be recorded: write nothing more.

    Workers live on and are adopted by the next start.
    """

    def __init__(self, *, terminated: bool) -> None:
        super().__init__("left at once")
        self.terminated = terminated
        """Whether TERM said so."""


class Signals:
    """Takes over the signals of this process between `__enter__` and `__exit__`."""

    def __init__(self) -> None:
        self._caught: list[signal.Signals] = []
        self._interrupts = 0
        self._old: dict[signal.Signals, Any] = {}
        self.wake_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else os.pipe()
        os.set_blocking(self._write_fd, False)
        os.set_blocking(self.wake_fd, False)
        self.terminated = False
        """Whether TERM came: the exit code is 143 then, not 130."""

    def __enter__(self) -> Signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._old[number] = signal.signal(number, self._on_signal)
        for number in (signal.SIGHUP, signal.SIGPIPE):
            self._old[number] = signal.signal(number, signal.SIG_IGN)
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        if kind is not None and issubclass(kind, LeaveAtOnce):  # who presses on must not hide how and why we left
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.close(self.wake_fd)
        os.close(self._write_fd)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._caught.append(signal.Signals(number))
        self.wake()

    def wake(self) -> None:
        """Make `wake_fd` readable; safe from any thread and from a signal handler."""
        with suppress(OSError):  # full: a wake is under way already; closed: the run is over
            os.write(self._write_fd, b"\0")

    def wait(self, seconds: float, *fds: int) -> None:
        """Wait until a signal or a watch wakes us, one of `fds` is readable, or time is up."""
        poll = select.poll()
        for fd in (self.wake_fd, *fds):
            poll.register(fd, select.POLLIN)
        poll.poll(max(seconds, 0.0) * 1000)
        self.clear()

    def clear(self) -> None:
        """Empty the pipe behind `wake_fd`."""
        try:
            while len(os.read(self.wake_fd, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    @property
    def pending(self) -> bool:
        """Whether a signal came that was not taken yet."""
        return bool(self._caught)

    def check_leave(self) -> None:
        """Raise LeaveAtOnce where three interrupts or a TERM came while nothing can be recorded."""
        self.terminated |= signal.SIGTERM in self._caught
        if self.terminated or self._interrupts + self._caught.count(signal.SIGINT) > 2:
            raise LeaveAtOnce(terminated=self.terminated)

    def take(self, *, draining: bool = False) -> list[ControlReceived]:
        """Return what came since the last call, as controls. Raises LeaveAtOnce at the third interrupt.

        In a run that drains already, because an operator wanted it, the first interrupt stops.
        """
        facts = []
        while self._caught:
            number = self._caught.pop(0)
            if number is signal.SIGTERM:
                self.terminated = True
                facts.append(ControlReceived("stop", "signal:TERM"))
                continue
            self._interrupts += 1
            if self._interrupts > 2:
                raise LeaveAtOnce(terminated=self.terminated)
            facts.append(ControlReceived("drain" if self._interrupts == 1 and not draining else "stop", "signal:INT"))
        return facts
