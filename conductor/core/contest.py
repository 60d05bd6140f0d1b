"""The locks that running attempts hold and wait for: who is in the way of whom.

The rule is that of `bus.contention`. Here it is asked of all waits at once, and of those in front in a queue only the
nearest are named: each of these is itself behind all that stands before it. So a thousand attempts that wait for one
file are a thousand edges, not a million.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from bus.contention import overlap
from bus.wire import TaskId
from conductor.core.neighbours import Neighbours
from conductor.core.state import ALIVE, State
from conductor.core.waits import Grant, Wait

MOST_HOLDERS = 10
"""Holders of one key that are named."""


def live_waits(state: State) -> dict[TaskId, list[Wait]]:
    """Return what running attempts wait for, by task. What an attempt that is over waited for counts no more."""
    found: dict[TaskId, list[Wait]] = {}
    for wait in state.waits.values():
        if _is_live(state, wait):
            found.setdefault(wait.task, []).append(wait)
    return found


def live_grants(state: State) -> list[Grant]:
    """Return what running attempts hold."""
    return [grant for grant in state.grants.values() if _is_live(state, grant)]


def _is_live(state: State, one: Grant | Wait) -> bool:
    task = state.tasks.get(one.task)
    return task is not None and task.attempt == one.attempt and isinstance(task.status, ALIVE)


@dataclass(slots=True)
class _Line:
    """Who holds one key, and who waits for it by ticket, exclusive and shared apart."""

    holders: list[Grant] = field(default_factory=list)
    exclusive: list[Wait] = field(default_factory=list)
    shared: list[Wait] = field(default_factory=list)


class Contest:
    """Indexed by key, so that only those are compared that can meet."""

    def __init__(self, grants: Iterable[Grant], waits: Iterable[Wait]) -> None:
        """Of running attempts."""
        self._lines: dict[str, _Line] = {}
        self._grants: dict[TaskId, list[Grant]] = {}
        self._waits: dict[TaskId, list[Wait]] = {}
        for grant in grants:
            self._grants.setdefault(grant.task, []).append(grant)
            for key in grant.keys:
                self._lines.setdefault(key, _Line()).holders.append(grant)
        for wait in sorted((one for one in waits if one.kind == "lock"), key=_ticket):
            self._waits.setdefault(wait.task, []).append(wait)
            for key in wait.what:
                line = self._lines.setdefault(key, _Line())
                (line.shared if wait.shared else line.exclusive).append(wait)
        self._near = Neighbours(self._lines)

    def holds(self, task: TaskId) -> int:
        """Return how many keys the running attempt of a task holds."""
        return sum(len(grant.keys) for grant in self._grants.get(task, ()))

    def blockers(self, wait: Wait) -> set[TaskId]:
        """Return tasks whose attempts must end before a wait for a lock does: all others are behind one of these."""
        found: set[TaskId] = set()
        for line in self._met(wait):
            ahead = list(self._ahead(wait, line))
            found.update(one.task for one in ahead)
            if not any(self._is_plain(one) for one in ahead):  # else that one is behind the holders too
                found.update(one.task for one in self._holders(wait, line))
        return found

    def obstacles(self, wait: Wait) -> list[tuple[TaskId, str]]:
        """Return (task, key) of those in the way, to be named: holders first, then the nearest in the queue."""
        found: dict[TaskId, str] = {}
        for line in self._met(wait):
            for grant in islice(self._holders(wait, line), MOST_HOLDERS):
                found.setdefault(grant.task, _common(wait.what, grant.keys))
        for line in self._met(wait):
            for one in self._ahead(wait, line):
                found.setdefault(one.task, _common(wait.what, one.what))
        return list(found.items())

    def _met(self, wait: Wait) -> Iterator[_Line]:
        """Yield the lines of all keys that have something in common with one of a wait's."""
        return (self._lines[other] for key in wait.what for other in self._near.of(key))

    def _holders(self, wait: Wait, line: _Line) -> Iterator[Grant]:
        return (one for one in line.holders if one.task != wait.task and not (one.shared and wait.shared))

    def _ahead(self, wait: Wait, line: _Line) -> Iterator[Wait]:
        """Yield the nearest in front that want one key: the last exclusive one, and the shared ones behind it."""
        last = -1
        for one in reversed(line.exclusive[: bisect_left(line.exclusive, wait.ticket, key=_ticket)]):
            if one.task != wait.task and not self._is_held_up(one, wait.task):
                yield one
                if self._is_plain(one):
                    last = one.ticket
                    break
        if not wait.shared:
            start, end = (bisect_left(line.shared, at, key=_ticket) for at in (last, wait.ticket))
            shared = line.shared[start:end]
            yield from (one for one in shared if one.task != wait.task and not self._is_held_up(one, wait.task))

    def _is_plain(self, wait: Wait) -> bool:
        """Tell whether a wait is behind all that stands before it: exclusive, and of somebody who holds up none of
        these himself."""
        return not wait.shared and wait.task not in self._grants and len(self._waits[wait.task]) == 1

    def _is_held_up(self, wait: Wait, by: TaskId) -> bool:
        """Tell whether `by` holds what a wait is for, or will before its turn comes: then `by` does not wait for it."""
        older = (one for one in self._waits.get(by, ()) if one.ticket < wait.ticket)
        return any(_clash(wait, one.keys, one.shared) for one in self._grants.get(by, ())) or any(
            _clash(wait, one.what, one.shared) for one in older
        )


def _ticket(wait: Wait) -> int:
    return wait.ticket


def _clash(wait: Wait, keys: Iterable[str], shared: bool) -> bool:
    return not (wait.shared and shared) and any(overlap(ours, theirs) for ours in wait.what for theirs in keys)


def _common(wanted: Iterable[str], theirs: Iterable[str]) -> str:
    """Return the key that is wanted and that somebody else has something of."""
    others = list(theirs)
    return next(key for key in wanted if any(overlap(key, other) for other in others))
