"""The clocks of a conductor. The only place of ours that reads them; everything else is given the time."""

from __future__ import annotations

import time
from typing import Protocol

from bus.process import boot_id
from bus.wire import Stamp

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Where the time comes from."""

    def stamp(self) -> Stamp:
        """Return the time for a journal record."""

    def monotonic(self) -> float:
        """Return seconds that never go back; for timers and deadlines of this process."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._boot = boot_id()

    def stamp(self) -> Stamp:
        """Return the time for a journal record."""
        return Stamp(wall=round(time.time(), 6), mono=round(time.clock_gettime(_BOOTTIME), 6), boot=self._boot)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()
