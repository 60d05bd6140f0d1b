"""Grants and waits in memory: `bus.desk.Store`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bus.contract import Grant, WaitFile
from bus.wire import AttemptId


@dataclass(slots=True)
class MemoryLocks:
    """What all attempts hold and wait for. A wait lives until it is ended, or its hand closed."""

    held: dict[tuple[AttemptId, str], Grant] = field(default_factory=dict)
    waiting: dict[tuple[AttemptId, str], WaitFile] = field(default_factory=dict)
    token: int = 0

    @property
    def changes(self) -> object:
        """A value that is another one after each change."""
        return frozenset(self.held), frozenset(self.waiting)

    def close(self, attempt: AttemptId) -> None:
        """Forget all of an attempt."""
        self.held = {place: grant for place, grant in self.held.items() if place[0] != attempt}
        self.waiting = {place: wait for place, wait in self.waiting.items() if place[0] != attempt}


class MemoryStore:
    """`bus.desk.Store` over `MemoryLocks`, for one hand."""

    def __init__(self, locks: MemoryLocks) -> None:
        self._locks = locks
        self._ours: list[WaitFile] = []

    @contextmanager
    def alone(self, patience: float | None = None) -> Iterator[None]:
        """Nobody else is there."""
        yield

    def grants(self) -> Sequence[Grant]:
        """Return all grants, by token."""
        return sorted(self._locks.held.values(), key=lambda grant: (grant.token, grant.id))

    def waits(self) -> Sequence[WaitFile]:
        """Return all waits, by attempt and id."""
        return [wait for _, wait in sorted(self._locks.waiting.items())]

    def next_token(self) -> int:
        """Return a number higher than all before."""
        self._locks.token += 1
        return self._locks.token

    def add(self, grant: Grant) -> None:
        """Make a grant."""
        self._locks.held[grant.attempt, grant.id] = grant

    def remove(self, grant: Grant) -> bool:
        """End a grant; False where there is none."""
        return self._locks.held.pop((grant.attempt, grant.id), None) is not None

    def begin(self, wait: WaitFile) -> None:
        """Make a wait. Raises FileExistsError where there is one of this id."""
        if (wait.attempt, wait.id) in self._locks.waiting:
            raise FileExistsError(wait.id)
        self._locks.waiting[wait.attempt, wait.id] = wait
        self._ours.append(wait)

    def end(self, wait: WaitFile) -> None:
        """End a wait of this hand."""
        if wait in self._ours:
            self._ours.remove(wait)
            self._locks.waiting.pop((wait.attempt, wait.id), None)

    def close(self) -> None:
        """End all waits of this hand."""
        for wait in self._ours[:]:
            self.end(wait)
