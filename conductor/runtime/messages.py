"""Which messages and orders are recorded, so that one that is found again is not recorded twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import Any

from bus.wire import AttemptId

KEPT = 1024
"""Attempts that are over whose messages are still known.

Only the files of what was recorded last can be there still, because a conductor died before it removed them. One of an
attempt longer gone is refused whatever its id.
"""

ORDERS = 1024
"""Orders that are still known, likewise."""


class Messages:
    """Ids of recorded messages: of open attempts, and of those that ended last. They do not grow with history."""

    def __init__(
        self,
        known: Mapping[AttemptId, Iterable[str]] | None = None,
        orders: Iterable[str] = (),
        *,
        open: Container[AttemptId] = (),
    ) -> None:
        self._of = {attempt: set(ids) for attempt, ids in (known or {}).items()}
        self._ids = {id for ids in self._of.values() for id in ids}
        self._over = deque(attempt for attempt in self._of if attempt not in open)
        self._orders = deque(orders, ORDERS)

    def __contains__(self, id: object) -> bool:
        return id in self._ids or id in self._orders

    def __len__(self) -> int:
        return len(self._ids) + len(self._orders)

    def add(self, attempt: AttemptId, id: str) -> None:
        """A message of an open attempt is recorded."""
        self._of.setdefault(attempt, set()).add(id)
        self._ids.add(id)

    def ordered(self, id: str) -> None:
        """An order is recorded."""
        self._orders.append(id)

    def closed(self, attempt: AttemptId) -> None:
        """The end of an attempt is recorded."""
        if attempt in self._of:
            self._over.append(attempt)
        while len(self._over) > KEPT:
            self._ids -= self._of.pop(self._over.popleft())

    def dump(self) -> dict[str, Any]:
        """Return what is known, as JSON data and the arguments of `Messages`; those that are over in the order in which
        they ended."""
        over = set(self._over)
        order = (*self._over, *(attempt for attempt in self._of if attempt not in over))
        known = {attempt: sorted(self._of[attempt]) for attempt in order}
        return {"known": known, "orders": list(self._orders)}
