"""Which messages are recorded, so that one that is found in the inbox again is not recorded twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bus.wire import AttemptId


class Messages:
    """Ids of recorded messages, by attempt.

    Only those of open attempts, and those recorded since the last snapshot, are kept: a message of any other attempt is
    refused whatever its id, and the file of one that was recorded before a snapshot is gone. So what is kept does not
    grow with history.
    """

    def __init__(self, known: Mapping[AttemptId, Iterable[str]] | None = None) -> None:
        self._of = {attempt: set(ids) for attempt, ids in (known or {}).items()}
        self._ids = {id for ids in self._of.values() for id in ids}

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, attempt: AttemptId, id: str) -> None:
        """A message of the attempt is recorded."""
        self._of.setdefault(attempt, set()).add(id)
        self._ids.add(id)

    def keep_only(self, attempts: Iterable[AttemptId]) -> None:
        """Forget what is recorded of all other attempts: the files of it are removed."""
        kept = set(attempts)
        for attempt in self._of.keys() - kept:
            self._ids -= self._of.pop(attempt)

    def dump(self) -> dict[AttemptId, Sequence[str]]:
        """Return what is known, as JSON data."""
        return {attempt: sorted(ids) for attempt, ids in self._of.items()}
