"""The journal's next write: records that are staged in memory until all of them are written at once."""

from __future__ import annotations

from bus import blobs
from bus._fs import passes, why
from bus.errors import BusError
from bus.folders import Folders
from bus.journal import Journal, Keep
from bus.wire import Record


class Batch:
    """Lines that are not written yet. One: the host's."""

    def __init__(self, folders: Folders, journal: Journal, keep: Keep, owner: str, last: int) -> None:
        """`owner` is whose scratch files are made here: the epoch. `last` is the seq of the journal's last record."""
        self._folders = folders
        self._journal = journal
        self._keep = keep
        self._owner = owner
        self._lines: list[bytes] = []
        self._blobs: list[tuple[str, bytes]] = []
        self.last = last
        """Seq of the last record, staged or written."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is staged."""
        return not self._lines

    @property
    def first(self) -> int:
        """Seq of the first record of this batch, staged or to come."""
        return self.last + 1 - len(self._lines)

    def add(self, record: Record) -> None:
        """Stage a record: the one that follows the last."""
        line, blob = blobs.encode(record)
        self._lines.append(line)
        if blob is not None:
            self._blobs.append(blob)
        self.last = record.seq

    def write(self) -> int:
        """Append everything with one write, blobs before it; return the bytes that the journal grew by.

        The batch is kept, so that it can be written again, until `clear`. Raises OSError where nothing of it is in the
        journal.
        """
        for sha, body in self._blobs:
            blobs.store(self._folders, sha, body, scratch=f"{self._owner}.blob", sync=self._journal.sync)
        data = b"".join(self._lines)
        self._journal.append(data, self._keep)
        return len(data)

    def clear(self) -> None:
        """It is written."""
        self._lines.clear()
        self._blobs.clear()

    def rotate(self) -> None:
        """Seal the journal's file if that is due; where the disk is full, behind a later batch."""
        try:
            self._journal.rotate(self.last, f"{self._owner}.journal")
        except OSError as error:
            if not passes(error):
                raise BusError(f"the journal cannot be sealed: {why(error)}", path=self._folders.path) from error
