"""Timers by key on one monotonic clock. Setting a key again replaces it."""

from __future__ import annotations

import heapq
from itertools import count


class Timers:
    """A set of (key, deadline); the shell of the machine's `StartTimer` and `CancelTimer`."""

    def __init__(self) -> None:
        self._deadline: dict[str, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._serial = count()

    def start(self, key: str, deadline: float) -> None:
        """Let `key` run out at `deadline` (monotonic seconds)."""
        serial = next(self._serial)
        self._deadline[key] = (deadline, serial)
        heapq.heappush(self._heap, (deadline, serial, key))

    def cancel(self, key: str) -> None:
        """Forget `key`, if it runs."""
        self._deadline.pop(key, None)

    def next_deadline(self) -> float | None:
        """Return when the next key runs out; None where none runs."""
        while self._heap and self._deadline.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[str]:
        """Remove and return the keys that ran out, in order of their deadlines."""
        due = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            key = heapq.heappop(self._heap)[2]
            del self._deadline[key]
            due.append(key)
        return due
