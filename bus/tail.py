"""Following the journal: a reader that remembers its place, over all files of the journal and while they change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bus import blobs, layout
from bus._fs import Refused
from bus.folders import Folders, identity
from bus.lines import Chain, Verdict, corrupt, split
from bus.segments import Files, Place, Segment, locate, number_at, open_files, opened, read_segment, wrong
from bus.strict import WireError
from bus.wire import Record, decode_sound, is_line

_UNKNOWN = (0, 0)


@dataclass(slots=True)
class _Cursor:
    """The place of the next line."""

    file: int = 0
    """First seq of the file; 0 where nothing was read yet."""
    inode: tuple[int, int] = _UNKNOWN
    offset: int = 0


class Tail:
    """Reads records and remembers the place, so that following the journal reads only what is new."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._fs = folders.fs
        self._cursor = _Cursor()
        self._chain = Chain()

    def records(self, since: int, naming: tuple[bytes, ...] = (b"",)) -> Iterator[Record]:
        """Yield records with `seq > since`. Stops before a line that is unfinished, or wrong with nothing sound behind.

        With `naming` only those whose lines have any of these bytes: all lines are checked, but few are decoded, which
        is what costs.

        Lines of an epoch lower than one already seen come from a conductor that was replaced: they are passed over.
        Raises BusCorrupt, with its number, for a wrong line that is followed by a sound one, and for missing records.
        """
        if since < self._chain.seq:
            self._cursor, self._chain = _Cursor(), Chain()
        for line in self._lines(since):
            if self._chain.seq > since and any(name in line for name in naming):
                yield blobs.resolve(self._folders, _decoded(line))

    def begin_at(self, place: Place, seq: int, epoch: int) -> None:
        """Go on behind a record whose place was located."""
        self._cursor, self._chain = _Cursor(place.file, _UNKNOWN, place.end), Chain(seq, epoch)

    def locate(self, seq: int, place: Place) -> Place | None:
        """Return the place of a record's line, which was once at `place`; None where the journal has no such line."""
        with self._files() as files:
            return locate(self._folders, files, seq, place) if files else None

    def lost(self) -> tuple[Segment, ...]:
        """The spans of records that a repair had to give up."""
        with self._files() as files:
            return tuple(segment for segment in files.sealed if segment.lost) if files else ()

    @contextmanager
    def _files(self) -> Iterator[Files | None]:
        files = open_files(self._folders)
        try:
            yield files
        finally:
            if files is not None:
                self._fs.close(files.fd)

    def _lines(self, since: int) -> Iterator[bytes]:
        """Yield the lines that count from the cursor on, moving it, to the end of the journal."""
        fd = self._same_file()
        if fd is None:
            files = open_files(self._folders)
            if files is None:
                return
            fd = files.fd
            try:
                files.check()
                for segment in files.behind(max(since, self._chain.seq)):
                    yield from self._of_segment(segment)
                self._enter(files.first, identity(files.found))
            except BaseException:
                self._fs.close(fd)
                raise
        try:
            yield from self._of_active(fd)
        finally:
            self._fs.close(fd)

    def _same_file(self) -> int | None:
        """Open `queue.jsonl` if it is the file in which the cursor stands: then no name needs to be looked at."""
        try:
            fd, found = self._fs.open_regular(layout.JOURNAL, at=self._folders.root)
        except (FileNotFoundError, Refused):
            return None
        if identity(found) == self._cursor.inode and found.st_size >= self._cursor.offset:
            return fd
        self._fs.close(fd)
        return None

    def _enter(self, file: int, inode: tuple[int, int]) -> None:
        """Set the cursor into a file: where it stood in it, or at its beginning."""
        cursor = self._cursor
        if cursor.file == file and cursor.inode in (inode, _UNKNOWN):
            cursor.inode = inode
        else:
            self._cursor, self._chain = _Cursor(file, inode), Chain(file - 1)

    def _of_segment(self, segment: Segment) -> Iterator[bytes]:
        if segment.lost:
            self._chain.seq = segment.last
            return
        with opened(self._folders, segment) as fd:
            inode = identity(self._fs.stat_fd(fd))
        self._enter(segment.first, inode)
        for end, line in read_segment(self._folders, segment, self._cursor.offset, self._chain):
            self._cursor.offset = end
            yield line

    def _of_active(self, fd: int) -> Iterator[bytes]:
        """Yield the lines of the growing file. A wrong line at its end may be one that is being written."""
        cursor, chain = self._cursor, self._chain
        start, bad = cursor.offset, ""
        for line, size, whole in split(self._fs.read_chunks(fd, start)):
            if whole and is_line(line):
                if bad and chain.was_acknowledged(line):
                    raise corrupt(layout.JOURNAL, bad, number_at(self._fs, fd, cursor.offset))
                if not bad:
                    counts = self._take(line, fd)
                    cursor.offset += size
                    if counts:
                        yield line
            elif not bad:
                bad = wrong(whole)

    def _take(self, line: bytes, fd: int) -> bool:
        try:
            return self._chain.take(line) is Verdict.COUNTS
        except WireError as error:
            raise corrupt(layout.JOURNAL, error, number_at(self._fs, fd, self._cursor.offset)) from error


def _decoded(line: bytes) -> Record:
    try:
        return decode_sound(line)
    except WireError as error:
        raise corrupt(layout.JOURNAL, error) from error
