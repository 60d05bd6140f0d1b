"""The claims on files and resources of running and of waiting tasks, by key, and who has to wait for whom.

A running task is named by its rank (0 is the highest priority in the plan). A waiting one stands in line by its *turn*:
its rank, or, where it goes first because others wait for it, its rank less the number of tasks, so that it stands
before all that do not. Either way `turn % number of tasks` is its rank.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from conductor.core.conflicts import Keys


@dataclass(slots=True)
class _Line:
    """Who claims one key: the running ones, and the waiting ones by turn, exclusive and shared apart."""

    running: dict[int, bool] = field(default_factory=dict)
    exclusive: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)


class Claims:
    """Follows who runs and who waits."""

    def __init__(self, keys: Keys, index_of: list[int]) -> None:
        """`index_of` gives the place in the plan of each rank."""
        self._keys = keys
        self._index_of = index_of
        self._lines: dict[int, _Line] = {}

    def run(self, rank: int) -> None:
        """Let a task hold its keys."""
        for key, exclusive in self._keys.claims(self._index_of[rank]):
            self._lines.setdefault(key, _Line()).running[rank] = exclusive

    def end(self, rank: int) -> None:
        """Let a running task give its keys back."""
        for key, _ in self._keys.claims(self._index_of[rank]):
            line = self._lines[key]
            del line.running[rank]
            self._tidy(key, line)

    def wait(self, turn: int) -> None:
        """Let a ready task hold its place in the lines of its keys."""
        for key, exclusive in self._keys.claims(self._index_of[turn]):
            line = self._lines.setdefault(key, _Line())
            insort(line.exclusive if exclusive else line.shared, turn)

    def leave(self, turn: int) -> None:
        """Take a waiting task out of the lines."""
        for key, exclusive in self._keys.claims(self._index_of[turn]):
            line = self._lines[key]
            places = line.exclusive if exclusive else line.shared
            del places[bisect_left(places, turn)]
            self._tidy(key, line)

    def blocker(self, turn: int) -> int | None:
        """Return the rank of a task that a ready one must wait for: the last one in front of it, else a running one."""
        ahead: int | None = None
        runner: int | None = None
        for line, exclusive in self._met(turn):
            for places in (line.exclusive, line.shared) if exclusive else (line.exclusive,):
                if (place := bisect_left(places, turn)) and (ahead is None or places[place - 1] > ahead):
                    ahead = places[place - 1]
            runner = max((other for other, theirs in line.running.items() if exclusive or theirs), default=runner)
        return runner if ahead is None else ahead % len(self._index_of)

    def rivals(self, turn: int) -> set[int]:
        """Return the ranks of all that a task must wait for: running ones that conflict with it, and those in line
        before it, but for such as have one of these before themselves anyway."""
        found: set[int] = set()
        for line, exclusive in self._met(turn):
            found.update(other for other, theirs in line.running.items() if exclusive or theirs)
            place = bisect_left(line.exclusive, turn)
            last = line.exclusive[place - 1 : place]
            shared = line.shared[bisect_left(line.shared, last[0]) if last else 0 : bisect_left(line.shared, turn)]
            found.update(other % len(self._index_of) for other in (*last, *(shared if exclusive else ())))
        return found

    def _met(self, turn: int) -> Iterator[tuple[_Line, bool]]:
        """Yield the lines of all keys that overlap one of a task's, and whether it claims that exclusively."""
        for key, exclusive in self._keys.claims(self._index_of[turn]):
            for neighbour in self._keys.neighbours(key):
                line = self._lines.get(neighbour)
                if line is not None:
                    yield line, exclusive

    def _tidy(self, key: int, line: _Line) -> None:
        if not (line.running or line.exclusive or line.shared):
            del self._lines[key]
