"""How a lock is taken and given back, whatever grants and waits are kept in: the directory, or memory.

Standard library only. Grants never change: what is left of one is another one. So who reads them sees, at any moment,
nothing that was not held.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from bus import keys
from bus.contention import covers, in_the_way
from bus.errors import AttemptRevoked
from bus.grants import Busy, Grant, WaitFile
from bus.times import utc
from bus.wire import AttemptId

Part = tuple[tuple[str, ...], bool]
"""Keys that are wanted in one mode (shared or not)."""


class Store(Protocol):
    """Where grants and waits are kept."""

    def alone(self, patience: float | None = None) -> AbstractContextManager[None]:
        """Keep all others from making grants. Raises Shortage where that takes longer than `patience` seconds (None:
        so long that somebody must stand still)."""

    def grants(self) -> Sequence[Grant]:
        """Return all grants."""

    def waits(self) -> Sequence[WaitFile]:
        """Return the waits of living processes."""

    def next_token(self) -> int:
        """Return a number that is higher than all before. Only while `alone`."""

    def add(self, grant: Grant) -> None:
        """Make a grant."""

    def remove(self, grant: Grant) -> bool:
        """End a grant; False where it has ended already."""

    def begin(self, wait: WaitFile) -> None:
        """Make a wait, which holds as long as this process lives."""

    def end(self, wait: WaitFile) -> None:
        """End a wait of this process; nothing where it has ended already."""


class Desk:
    """Takes and gives back the locks of one attempt."""

    def __init__(self, store: Store, attempt: AttemptId, over: Callable[[], str | None]) -> None:
        """`over` tells why nothing of the attempt counts any more, None as long as it does."""
        self._store = store
        self._attempt = attempt
        self._over = over
        self.made: set[int] = set()
        """Tokens of the grants that were made here."""
        self._queued: dict[tuple[Part, ...], tuple[WaitFile, ...]] = {}

    def try_lock(
        self, wanted: Iterable[tuple[str, bool]], *, queue: bool, lasting: bool, patience: float | None
    ) -> tuple[Grant, ...] | Busy:
        """See `bus.contract.Hand.try_lock`."""
        parts = parts_of(wanted)
        place = self._queued.get(parts, ())
        if place:  # seen without the mutex: what is in the way may have gone meanwhile, and is asked for again
            attempts = self._in_the_way(parts, place)
            if attempts:
                return Busy(attempts, place)
        with self._store.alone(patience):
            self._check()
            granted = self._held(parts, self._store.grants(), lasting=lasting)
            if not granted:
                place = self._place(parts)
                attempts = self._in_the_way(parts, place)
                if attempts:
                    if queue and not place:
                        place = self._queued[parts] = self._stand_in_line(parts, attempts)
                    return Busy(attempts, place)
                granted = self._grant(parts, lasting=lasting)
                self._check(granted)
            self._leave(parts)
        return granted

    def _check(self, granted: Iterable[Grant] = ()) -> None:
        """Raise AttemptRevoked where the attempt is over; what was granted is none then. Only while `alone`: an attempt
        that ends from now on has had its locks when it ended, and the conductor removes them."""
        reason = self._over()
        if reason is not None:
            for grant in granted:
                self._store.remove(grant)
            raise AttemptRevoked(reason)

    def _in_the_way(self, parts: Sequence[Part], place: Sequence[WaitFile]) -> tuple[AttemptId, ...]:
        """Return who keeps us from these keys now: the holders, and where there are none, who waits before us."""
        ticket = place[0].ticket if place else None
        held, _ = in_the_way(self._attempt, parts, ticket, self._store.grants(), ())
        if held:
            return tuple(dict.fromkeys(grant.attempt for grant in held))
        _, before = in_the_way(self._attempt, parts, ticket, self._store.grants(), self._lock_waits())
        return tuple(dict.fromkeys(wait.attempt for wait in before))

    def _lock_waits(self) -> list[WaitFile]:
        return [wait for wait in self._store.waits() if wait.kind == "lock"]

    def unlock(self, wanted: Iterable[str] | None, patience: float | None) -> tuple[str, ...]:
        """See `bus.contract.Hand.unlock`. Grants are read, changed and ended in one: another process of the attempt
        that unlocks at the same moment would bring back what we end, or we what it does."""
        given_up = None if wanted is None else {keys.normal(key) for key in wanted}
        released: dict[str, None] = {}
        with self._store.alone(patience):
            for grant in self._own(self._store.grants()):
                gone = [key for key in grant.keys if given_up is None or key in given_up]
                if not gone or grant.lasting:
                    continue
                kept = tuple(key for key in grant.keys if key not in gone)
                part = replace(grant, id=new_id(), keys=kept) if kept else None
                if part is not None:
                    self._store.add(part)
                if not self._store.remove(grant) and part is not None:  # it was taken from us meanwhile: all of it
                    self._store.remove(part)
                released.update(dict.fromkeys(gone))
        return tuple(released)

    def lasting(self) -> tuple[Grant, ...]:
        """See `bus.contract.Hand.lasting`."""
        return tuple(grant for grant in self._own(self._store.grants()) if grant.lasting)

    def release(self, grants: Iterable[Grant], patience: float | None) -> None:
        """See `bus.contract.Hand.release`. What is left of a grant has its token."""
        tokens = {grant.token for grant in grants}
        with self._store.alone(patience):
            for grant in self._own(self._store.grants()):
                if grant.token in tokens and not grant.lasting:
                    self._store.remove(grant)

    def begin_wait(self, kind: str, what: Iterable[str], text: str, id: str | None) -> WaitFile:
        """See `bus.contract.Hand.begin_wait`."""
        wait = WaitFile(id or new_id(), self._attempt, kind, tuple(what), text=text, since=utc())
        self._store.begin(wait)
        return wait

    def end_wait(self, wait: WaitFile) -> None:
        """See `bus.contract.Hand.end_wait`."""
        for parts, place in list(self._queued.items()):
            if wait in place:
                self._leave(parts)
                return
        self._store.end(wait)

    def _place(self, parts: tuple[Part, ...]) -> tuple[WaitFile, ...]:
        """Return our place in the queue. If it was removed by somebody else, we have none any more."""
        place = self._queued.get(parts, ())
        if place and not set(place) <= set(self._store.waits()):
            self._leave(parts)
            return ()
        return place

    def _own(self, grants: Iterable[Grant]) -> list[Grant]:
        return [grant for grant in grants if grant.attempt == self._attempt]

    def _held(self, parts: Sequence[Part], grants: Iterable[Grant], *, lasting: bool) -> tuple[Grant, ...]:
        """Return the attempt's grants that cover all that is wanted (and last, where that is wanted); none where they
        do not."""
        own = [grant for grant in self._own(grants) if grant.lasting or not lasting]
        found: dict[Grant, None] = {}
        for wanted, shared in parts:
            for key in wanted:
                by = next((grant for grant in own if covers(grant, key, shared=shared)), None)
                if by is None:
                    return ()
                found[by] = None
        return tuple(found)

    def _grant(self, parts: Sequence[Part], *, lasting: bool = False) -> tuple[Grant, ...]:
        made = tuple(
            Grant(new_id(), self._attempt, wanted, shared, self._store.next_token(), utc(), lasting)
            for wanted, shared in parts
        )
        for grant in made:
            self._store.add(grant)
            self.made.add(grant.token)
        return made

    def _stand_in_line(self, parts: Sequence[Part], holders: tuple[AttemptId, ...]) -> tuple[WaitFile, ...]:
        ticket = self._store.next_token()
        place = tuple(
            WaitFile(new_id(), self._attempt, "lock", wanted, shared, holders, ticket, since=utc())
            for wanted, shared in parts
        )
        for wait in place:
            self._store.begin(wait)
        return place

    def _leave(self, parts: tuple[Part, ...]) -> None:
        for wait in self._queued.pop(parts, ()):
            self._store.end(wait)


def parts_of(wanted: Iterable[tuple[str, bool]]) -> tuple[Part, ...]:
    """Return what is wanted by mode, exclusive first, each key once, spelled as it must be. ValueError for nothing, too
    much, and what is no key."""
    modes: dict[str, bool] = {}
    for text, shared in wanted:
        key = keys.normal(text)
        modes[key] = shared and modes.get(key, True)
    if not 0 < len(modes) <= keys.MAX_KEYS:
        raise ValueError(f"a lock is of 1 to {keys.MAX_KEYS} paths, not of {len(modes)}")
    return tuple((of_mode, shared) for shared in (False, True) if (of_mode := _of_mode(modes, shared)))


def _of_mode(modes: Mapping[str, bool], shared: bool) -> tuple[str, ...]:
    return tuple(sorted(key for key, mode in modes.items() if mode is shared))


def new_id() -> str:
    """Return the id of a new grant or wait."""
    return os.urandom(4).hex()
