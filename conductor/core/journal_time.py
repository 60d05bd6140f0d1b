"""One clock for the machine out of the clocks of all conductors that wrote a journal."""

from __future__ import annotations

from dataclasses import dataclass

from bus.wire import Stamp


@dataclass(slots=True)
class JournalTime:
    """Seconds since the first record of a journal, without the time that passed between two boots.

    `Stamp.mono` has a meaning only within one boot, so a delay that was begun before a reboot would look as if it were
    over, or had not begun. This clock stands still over a reboot and never goes back; the wall clock has no part in it.
    """

    boot: str = ""
    """Of the newest record."""
    offset: float = 0.0
    """What is added to `Stamp.mono` of this boot."""
    now: float = 0.0
    """Journal time of the newest record, in seconds."""

    def at(self, stamp: Stamp) -> float:
        """Take in the next record's stamp; return its journal time."""
        if stamp.boot != self.boot:
            self.boot, self.offset = stamp.boot, self.now - stamp.mono
        self.now = max(self.now, round(stamp.mono + self.offset, 6))
        return self.now
