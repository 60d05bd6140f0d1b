"""Who is in the way of whom: the rule by which locks are granted. Pure; the one place that knows it.

Two claims conflict if they are of different attempts, have a key in common and are not both shared. A lock is granted
where no grant conflicts with it, and no wait that stands before it in the queue. So nobody starves: what comes later
never overtakes. One exception: a wait that the asker itself holds up does not count, since it cannot go on before the
asker does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

from bus import patterns
from bus.wire import AttemptId


class Claim(Protocol):
    """Somebody's hold on keys, or wish for them."""

    @property
    def attempt(self) -> AttemptId: ...
    @property
    def shared(self) -> bool: ...


class Held(Claim, Protocol):
    """A grant."""

    @property
    def keys(self) -> tuple[str, ...]: ...


class Queued(Claim, Protocol):
    """A wait for a lock."""

    @property
    def what(self) -> tuple[str, ...]: ...
    @property
    def ticket(self) -> int: ...


Wanted = Sequence[tuple[Sequence[str], bool]]
"""(keys, shared) pairs, asked for together."""

H = TypeVar("H", bound=Held)
Q = TypeVar("Q", bound=Queued)


def in_the_way(
    attempt: AttemptId, wanted: Wanted, ticket: int | None, grants: Iterable[H], waits: Iterable[Q]
) -> tuple[list[H], list[Q]]:
    """Return the grants and the waits that keep `attempt` from what it wants. `ticket` is its place in the queue, None
    behind everybody; `waits` are those for locks."""
    grants = list(grants)
    own = [grant for grant in grants if grant.attempt == attempt]
    held = [grant for grant in grants if grant.attempt != attempt and _meets(wanted, grant.keys, grant.shared)]
    before = [
        wait
        for wait in waits
        if wait.attempt != attempt
        and (ticket is None or wait.ticket < ticket)
        and _meets(wanted, wait.what, wait.shared)
        and not any(_conflict(grant.keys, grant.shared, wait.what, wait.shared) for grant in own)
    ]
    return held, before


def overlapping(grants: Iterable[H], key: str) -> list[H]:
    """Return the grants that have something in common with a key."""
    return [grant for grant in grants if any(overlap(key, held) for held in grant.keys)]


def covers(grant: Held, key: str, *, shared: bool) -> bool:
    """Tell whether who holds `grant` holds `key` by it: the key itself, or a folder above it."""
    return (shared or not grant.shared) and any(_covers(_split(held), _split(key)) for held in grant.keys)


@lru_cache(maxsize=1 << 14)
def overlap(a: str, b: str) -> bool:
    """Tell whether two keys have a file in common."""
    return a == b or patterns.overlap(_split(a), _split(b))


def _meets(wanted: Wanted, keys: Sequence[str], shared: bool) -> bool:
    return any(_conflict(ours, mode, keys, shared) for ours, mode in wanted)


def _conflict(ours: Sequence[str], our_mode: bool, theirs: Sequence[str], their_mode: bool) -> bool:
    return not (our_mode and their_mode) and any(overlap(a, b) for a in ours for b in theirs)


def _covers(held: patterns.Segments, key: patterns.Segments) -> bool:
    return held == key or (key[: len(held)] == held and not any(map(patterns.is_wild, held)))


@lru_cache(maxsize=1 << 14)
def _split(key: str) -> patterns.Segments:
    return patterns.split(key)
