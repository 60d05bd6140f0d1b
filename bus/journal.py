"""`queue.jsonl`: one line per record, appended by one writer, read by anybody at any time.

A batch is one `write`. The file's size before and after tells of foreign hands, and lets a short write be undone. A
file that has grown large, or that somebody else has written to, is sealed at the end of a batch and a new one begun.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from bus import layout
from bus._fs import NO_LINKS
from bus.errors import BusCorrupt, BusError
from bus.folders import Folders, identity
from bus.lines import REPAIR_HINT, crc_of
from bus.segments import Place, listed

FLAGS = os.O_RDWR | os.O_APPEND
"""How the writer opens its file."""

SEGMENT = 16 << 20
"""Bytes from which a file of the journal is sealed."""

MAX_KEPT = 16 << 20
"""Bytes that are kept of what has no place in the journal."""

Check = Callable[[], None]
"""Raises BusGone where the track is not ours any more. It is the last call before each one that takes something away:
whoever stood still for a while must not cut or replace what his successor has written."""


class Keep(Protocol):
    """Sets bytes aside."""

    def __call__(self, data: bytes, reason: str, *, foreign: bool = False) -> None:
        """Keep them, with the reason; `foreign`: a foreign hand wrote them."""


class Journal:
    """The writer. One per bus: the holder of `conductor.lock`. Made by `bus.recovery`, over a file that is sound."""

    def __init__(self, folders: Folders, fd: int, first: int, check: Check, *, sync: bool) -> None:
        self._folders = folders
        self._fs = folders.fs
        self.check = check
        self.fd = fd
        self.sync = sync
        self._broken = False
        found = self._fs.stat_fd(fd)
        self.identity = identity(found)
        """Device and inode: a file of this name that has others is not ours."""
        self.first = first
        """Seq of the file's first record."""
        self.size = found.st_size
        self.place = Place(first, 0, "")
        """Where the last record ends; in a file that was just begun, still in the one before."""
        self.doubtful = False
        """Something was wrong with this file: the next batch is its last."""

    def append(self, data: bytes, keep: Keep) -> None:
        """Add whole lines with one write; on disk when this returns, in `power`.

        Bytes that a foreign hand has added since the last time are handed to `keep` and taken out. Raises OSError where
        nothing could be written: the file is as before. Raises BusError where a sync failed: what is on disk then is
        unknown, and only a new start may look; BusGone where the track was taken over in that very moment.
        """
        if self._broken:
            raise _unsynced()
        self.size = self._added(data, self.size, keep)
        self.place = Place(self.first, self.size, crc_of(data))
        if self.sync:
            self.flush()

    def _added(self, data: bytes, size: int, keep: Keep) -> int:
        """Write behind `size`, and again if a foreign hand wrote in that moment; return the new size."""
        found = self._fs.stat_fd(self.fd).st_size
        if found != size:
            self._expel(found, b"", keep)
        for _ in range(2):
            self._write(data)
            found = self._fs.stat_fd(self.fd).st_size
            if found == size + len(data):
                break
            self._expel(found, data, keep)
        else:
            raise BusCorrupt("somebody else writes to the journal all the time", path=layout.JOURNAL)
        return found

    def rotate(self, last: int, scratch: str) -> None:
        """Seal the file, whose last record is `last`, and begin a new one, if that is due.

        The file has its second name, on disk in `power`, before the new one takes its place, so `queue.jsonl` is there
        at every moment. Killed in between, the next start takes the second name away again. Raises OSError; whatever
        was done by then, the journal is whole.
        """
        if last < self.first or not (self.doubtful or self.size >= SEGMENT):
            return
        fs, root, tmp = self._fs, self._folders.root, self._folders.refresh(layout.TMP)
        segments = self._folders.refresh(layout.SEGMENTS)
        fs.discard(scratch, tmp)
        fs.create(scratch, b"", at=tmp, sync=self.sync)
        # Opened before it takes its place: there is no way back from there, and descriptors may run short.
        fd, found = fs.open_regular(scratch, at=tmp, flags=FLAGS)
        try:
            self._name_twice(layout.segment_name(self.first, last), segments, f"{scratch}.copy")
            self.check()
            fs.rename(scratch, tmp, layout.JOURNAL, root)
        except BaseException:
            fs.close(fd)
            raise
        fs.close(self.fd)
        self.fd, self.identity = fd, identity(found)
        self.first, self.size, self.doubtful = last + 1, 0, False
        if self.sync:
            self._settle_name()

    def _settle_name(self) -> None:
        """Have the new file's name on disk: otherwise what is written to it next might be found by nobody."""
        try:
            self._fs.sync(self._folders.root)
        except OSError as error:
            self._broken = True
            raise _unsynced() from error

    def _name_twice(self, name: str, segments: int, scratch: str) -> None:
        """Let the file be found under a second name, as a copy where there are no hard links."""
        fs = self._fs
        for segment in listed(self._folders):
            if segment.first >= self.first:  # left by a call that failed behind this
                self.check()
                fs.discard(segment.name, segments)
        self.check()
        try:
            fs.link(layout.JOURNAL, self._folders.root, name, segments)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            self._copy(name, segments, scratch)
        if self.sync:
            fs.sync(segments)

    def _copy(self, name: str, segments: int, scratch: str) -> None:
        fs, tmp = self._fs, self._folders.fd(layout.TMP)
        fs.discard(scratch, tmp)
        fs.create(scratch, b"".join(fs.read_chunks(self.fd, 0)), at=tmp, sync=self.sync)
        self.check()
        fs.rename(scratch, tmp, name, segments)

    def close(self) -> None:
        """Close the file."""
        self._fs.close(self.fd)

    def _write(self, data: bytes) -> None:
        try:
            self._fs.write_all(self.fd, data)
        except OSError:
            if self._fs.stat_fd(self.fd).st_size > self.size:
                self.check()
                self._fs.truncate(self.fd, self.size)
            raise

    def _expel(self, found: int, own: bytes, keep: Keep) -> None:
        """Keep what a foreign hand added behind our last line, and take it out; `own` may stand among it."""
        if found < self.size:
            raise BusCorrupt("somebody has cut the journal", path=layout.JOURNAL, hint=REPAIR_HINT)
        foreign = b"".join(self._fs.read_chunks(self.fd, self.size))
        keep(foreign.replace(own, b"", 1) if own else foreign, "somebody else has written to the journal", foreign=True)
        self.doubtful = True
        self.cut(self.size)

    def cut(self, size: int) -> None:
        """Take away what is behind `size`."""
        self.check()
        self._fs.truncate(self.fd, size)
        self.size = size
        if self.sync:
            self.flush()

    def flush(self) -> None:
        """Have what was written on disk. Raises BusError where that failed, and leaves word for the next start."""
        try:
            self._fs.sync_data(self.fd)
        except OSError as error:
            self._broken = True
            mark_doubt(self._folders)
            raise _unsynced() from error


def mark_doubt(folders: Folders) -> None:
    """Leave word that the active file must be copied before it is used: what a failed sync left on disk is unknown,
    and a second sync of the same file may succeed without having written it. As well as that can be done."""
    try:
        folders.fs.create(layout.DOUBT, b"", at=folders.root, sync=True)
    except OSError:  # it is there already, or nothing can be written at all
        return


def _unsynced() -> BusError:
    return BusError(
        "the disk did not confirm what was written to the journal",
        path=layout.JOURNAL,
        hint="look at the disk, then run again: the journal is copied into a new file first",
    )
