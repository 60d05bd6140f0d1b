"""`queue.jsonl`: one line per record, appended by one writer, read by anybody at any time.

A batch is one `write`. The file's size before and after tells of foreign hands, and lets a short write be undone. What
is wrong at the very end was never acknowledged and is cut off at the next start; what is wrong before it is damage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bus import blobs, layout
from bus._fs import NO_SPACE, FileSystem, Refused
from bus.errors import BusCorrupt, BusError, JournalBlocked
from bus.folders import Folders, identity
from bus.snapshots import Place
from bus.wire import MAX_LINE, Record, WireError, decode_record, is_line


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the journal with its place."""

    number: int
    start: int
    """Offset of its first byte."""
    data: bytes
    """Without its newline."""


def split(chunks: Iterable[bytes], start: int, number: int) -> Iterator[tuple[Line, bool]]:
    """Cut bytes into lines; the flag tells whether the line has its newline. `start`, `number`: place of the first."""
    rest = b""
    for chunk in chunks:
        pieces = (rest + chunk).split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            yield Line(number, start, piece), True
            start += len(piece) + 1
            number += 1
    if rest:
        yield Line(number, start, rest), False


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader has read: the place of the next line, and what the last one said."""

    offset: int = 0
    number: int = 1
    seq: int = 0
    epoch: int = 0


class Tail:
    """Reads records and remembers the place, so that following the journal reads only what is new."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._cursor = Cursor()
        self._inode = 0

    def records(self, since: int) -> Iterator[Record]:
        """Yield records with `seq > since`. Stops before a line that is unfinished, or wrong at the very end.

        Lines of an epoch lower than one already seen come from a conductor that was replaced: they are passed over.
        Raises BusCorrupt, with its number, for a wrong line that is followed by another.
        """
        try:
            fd, found = self._folders.fs.open_regular(layout.JOURNAL, at=self._folders.root)
        except FileNotFoundError:
            return
        except Refused as error:
            raise BusCorrupt(f"the journal is {error}", path=layout.JOURNAL) from error
        try:
            cursor = self._cursor
            if found.st_ino != self._inode or found.st_size < cursor.offset or since < cursor.seq:
                cursor = Cursor()
            self._inode = found.st_ino
            wrong: tuple[Line, WireError] | None = None
            for line, whole in split(self._folders.fs.read_chunks(fd, cursor.offset), cursor.offset, cursor.number):
                if wrong is not None:
                    raise corrupt(*wrong)
                if not whole:
                    return
                try:
                    record = decode_record(line.data)
                except WireError as error:
                    wrong = line, error
                    continue
                after = line.start + len(line.data) + 1
                stale = record.epoch < cursor.epoch
                cursor = Cursor(
                    after, line.number + 1, cursor.seq if stale else record.seq, max(cursor.epoch, record.epoch)
                )
                self._cursor = cursor
                if record.seq > since and not stale:
                    yield blobs.resolve(self._folders, record)
        finally:
            self._folders.fs.close(fd)

    def holds(self, place: Place) -> bool:
        """Tell whether the journal has a sound line of this checksum that ends here."""
        try:
            fd, _ = self._folders.fs.open_regular(layout.JOURNAL, at=self._folders.root)
        except (FileNotFoundError, Refused):
            return False
        try:
            return holds(self._folders.fs, fd, place)
        finally:
            self._folders.fs.close(fd)


def holds(fs: FileSystem, fd: int, place: Place) -> bool:
    """Tell whether a file of the journal has a sound line of this checksum that ends at this place."""
    start = max(0, place.end - MAX_LINE)
    found = fs.read_at(fd, place.end - start, start)
    if len(found) != place.end - start or not found.endswith(b"\n"):
        return False
    line = found[:-1].rpartition(b"\n")[2]
    return is_line(line) and crc_of(line) == place.crc


def crc_of(line: bytes) -> str:
    """The checksum that stands in a sound line."""
    return line.rstrip(b"\n")[-10:-2].decode()


def corrupt(line: Line, error: Exception) -> BusCorrupt:
    """The error that a wrong line before the end is."""
    return BusCorrupt(
        f"line {line.number} of the journal is damaged: {error}",
        path=layout.JOURNAL,
        line=line.number,
        hint="keep a copy of the bus; nothing after this line can be trusted without a look",
    )


class Journal:
    """The writer. One per bus: the holder of `conductor.lock`."""

    def __init__(self, folders: Folders, *, sync: bool) -> None:
        self._folders = folders
        self._fs = folders.fs
        self.sync = sync
        self._broken = False
        try:
            self._fs.create(layout.JOURNAL, b"", at=folders.root, sync=sync)
            if sync:
                self._fs.sync(folders.root)
        except FileExistsError:
            pass
        try:
            self.fd, _ = self._fs.open_regular(layout.JOURNAL, at=folders.root, flags=os.O_RDWR | os.O_APPEND)
        except Refused as error:
            raise BusCorrupt(f"the journal is {error}", path=layout.JOURNAL) from error
        self.identity = identity(self._fs.stat_fd(self.fd))
        """Device and inode: a file of this name that has others is not ours."""
        self._size = self._fs.stat_fd(self.fd).st_size

    def replay(self, keep: Callable[[bytes, str], None]) -> Iterator[bytes]:
        """Yield all sound lines, once, before the first `append`.

        An unfinished or wrong last line is handed to `keep` (bytes, reason) and cut off. Raises BusCorrupt for a wrong
        line before the end.
        """
        pending: Line | None = None
        reason = ""
        for line, whole in split(self._fs.read_chunks(self.fd, 0), 0, 1):
            if pending is not None:
                raise corrupt(pending, ValueError(reason))
            if whole and is_line(line.data):
                yield line.data
            else:
                pending = line
                reason = "the checksum does not fit the line" if whole else "the line is unfinished"
        if pending is not None:
            keep(self._read_from(pending.start), reason)
            self._cut(pending.start)

    def append(self, data: bytes, keep: Callable[[bytes, str], None]) -> None:
        """Add whole lines with one write; on disk when this returns, in `power`.

        Bytes that a foreign hand has added since the last time are handed to `keep` and taken out. Raises
        JournalBlocked where nothing could be written: the file is as before. Raises BusError where a sync failed: what
        is on disk then is unknown, and only a new start may look.
        """
        if self._broken:
            raise _unsynced()
        found = self._fs.stat_fd(self.fd).st_size
        if found != self._size:
            self._expel(found, b"", keep)
        self._write(data)
        found = self._fs.stat_fd(self.fd).st_size
        if found != self._size + len(data):
            self._expel(found, data, keep)
            self._write(data)
        self._size += len(data)
        if self.sync:
            self._flush()

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self.fd)

    def _write(self, data: bytes) -> None:
        try:
            written = self._fs.write(self.fd, data)
        except OSError as error:
            self._undo()
            if error.errno in NO_SPACE:
                raise JournalBlocked(
                    f"the journal cannot be written: {error.strerror}", path=layout.JOURNAL, hint="free some space"
                ) from error
            raise BusError(f"the journal cannot be written: {error.strerror}", path=layout.JOURNAL) from error
        if written != len(data):
            self._undo()
            raise JournalBlocked("the journal took only a part", path=layout.JOURNAL, hint="free some space")

    def _undo(self) -> None:
        if self._fs.stat_fd(self.fd).st_size > self._size:
            self._fs.truncate(self.fd, self._size)

    def _expel(self, found: int, own: bytes, keep: Callable[[bytes, str], None]) -> None:
        """Keep what a foreign hand added behind our last line, and take it out; `own` may stand among it."""
        if found < self._size:
            raise BusCorrupt("somebody has cut the journal", path=layout.JOURNAL, hint="stop whatever writes to it")
        foreign = self._read_from(self._size)
        keep(foreign.replace(own, b"", 1) if own else foreign, "somebody else has written to the journal")
        self._cut(self._size)

    def _read_from(self, offset: int) -> bytes:
        return b"".join(self._fs.read_chunks(self.fd, offset))

    def _cut(self, size: int) -> None:
        self._fs.truncate(self.fd, size)
        self._size = size
        if self.sync:
            self._flush()

    def _flush(self) -> None:
        try:
            self._fs.sync_data(self.fd)
        except OSError as error:
            self._broken = True
            raise _unsynced() from error


def _unsynced() -> BusError:
    return BusError(
        "the disk did not confirm what was written to the journal",
        path=layout.JOURNAL,
        hint="look at the disk, then run again: the journal is read anew",
    )
