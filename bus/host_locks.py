"""What the conductor has to do with locks, waits and texts: it looks, clears up, and delivers."""

from __future__ import annotations

from collections.abc import Iterable

from bus import layout
from bus.grants import Grant, WaitFile
from bus.reader import FileReader
from bus.upkeep import Upkeep
from bus.wire import AttemptId


class HostLocks(FileReader):
    """The part of `bus.contract.Host` that needs no journal."""

    _upkeep: Upkeep

    def grants(self) -> tuple[Grant, ...]:
        """Return what is held, by token; what is no grant is set aside."""
        found, bad = self._grants.read()
        self._upkeep.expel_from_locks(bad)
        return tuple(found)

    def waits(self) -> tuple[WaitFile, ...]:
        """Return what is waited for by processes that live; what dead ones have left is removed."""
        found = self._waits.read()
        self._upkeep.remove(layout.WAITS, found.void)
        self._upkeep.expel(layout.WAITS, found.bad)
        return found.alive

    def take_grants(self, grants: Iterable[Grant]) -> None:
        """End grants by force, now or later. Idempotent."""
        self._upkeep.remove(layout.LOCKS, (layout.grant_name(grant.attempt, grant.id) for grant in grants))

    def deliver(self, attempt: AttemptId, name: str, data: bytes) -> None:
        """Lay a text into the attempt's `in/`, now or later. Idempotent."""
        self._upkeep.deliver(attempt, name, data)
