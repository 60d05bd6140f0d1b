"""The files of the journal: sealed `segments/<first seq>-<last seq>.jsonl`, then `queue.jsonl`, which grows.

What a repair had to give up is a gap that has a name too: `segments/<first seq>-<last seq>.lost` says which records are
gone and why. So the names alone tell whether anything is missing, and where a record is.

A file is sealed by giving it its second name first, and then putting an empty file in the place of `queue.jsonl`. Who
opens `queue.jsonl` and lists the segments *after* that misses nothing, whatever happens in between; a segment that
begins where the opened file begins is that file.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from bus import layout
from bus._fs import FileSystem, Refused, Withheld
from bus.errors import BusCorrupt, BusError, BusUnsafe
from bus.folders import Folders, identity
from bus.lines import PUT_BACK, Chain, Verdict, corrupt, crc_of, head_of, missing, split
from bus.strict import WireError
from bus.wire import MAX_LINE, is_line


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the journal: behind a certain line."""

    file: int
    """First seq of the file that holds the line."""
    end: int
    """Offset of the byte behind it."""
    crc: str
    """Its checksum."""


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One name in `segments/`."""

    first: int
    last: int
    name: str
    lost: bool = False
    """It stands for records that are gone."""

    @property
    def path(self) -> str:
        """Its name below the root."""
        return f"{layout.SEGMENTS}/{self.name}"


@dataclass(frozen=True, slots=True)
class Files:
    """The journal's files at one moment. The descriptor of `queue.jsonl` is the caller's to close."""

    sealed: tuple[Segment, ...]
    """In order; all before `first`."""
    copies: tuple[Segment, ...]
    """Segments that begin at `first` or later: names that the active file was given before it was to be replaced."""
    fd: int
    found: os.stat_result
    first: int
    """Seq of the first record of `queue.jsonl`, or the one that it will have."""

    def check(self) -> None:
        """Raise BusCorrupt where the names tell that records are missing or stand twice."""
        expected = 1
        for segment in self.sealed:
            if segment.first > expected:
                raise corrupt(layout.SEGMENTS, missing(expected, segment.first - 1), hint=PUT_BACK)
            if segment.first < expected or segment.last < segment.first:
                raise corrupt(segment.path, f"record {segment.first} stands in another segment too")
            expected = segment.last + 1
        if self.first > expected:
            raise corrupt(layout.SEGMENTS, missing(expected, self.first - 1), hint=PUT_BACK)

    def behind(self, seq: int) -> tuple[Segment, ...]:
        """The sealed segments that hold records behind this one."""
        return tuple(segment for segment in self.sealed if segment.last > seq)


def listed(folders: Folders) -> list[Segment]:
    """Return all segments, in order."""
    found = ((name, layout.parse_segment_name(name)) for name in folders.names(layout.SEGMENTS))
    return sorted(Segment(span[0], span[1], name, span[2]) for name, span in found if span is not None)


def open_active(folders: Folders, flags: int = 0) -> tuple[int, os.stat_result] | None:
    """Open `queue.jsonl`; None where it is missing. Raises BusCorrupt where it is no file."""
    try:
        return folders.fs.open_regular(layout.JOURNAL, at=folders.root, flags=flags)
    except FileNotFoundError:
        return None
    except Refused as error:
        raise refused(layout.JOURNAL, error) from error


def refused(path: str, error: Exception) -> BusError:
    """The error that a file of the journal is that cannot be opened: where its mode or owner is wrong, no damage."""
    if isinstance(error, Withheld):
        hint = "give the file back to the user who runs the conductor, with mode 0600; nothing in it need be damaged"
        return BusUnsafe(f"the journal may not be opened: {error}", path=path, hint=hint)
    return corrupt(path, error)


def open_files(folders: Folders, flags: int = 0) -> Files | None:
    """Look at the journal; None where the bus was never used. Raises BusCorrupt where there is no such file."""
    active = open_active(folders, flags)
    if active is None:
        if folders.names(layout.EPOCHS) or listed(folders):
            raise corrupt(layout.JOURNAL, "it is missing", hint=PUT_BACK)
        return None
    fd, found = active
    try:
        segments = listed(folders)
        # Only now: the file may have been empty when it was opened, and filled and sealed since.
        first = first_seq(folders.fs, fd) or (segments[-1].last + 1 if segments else 1)
        sealed = tuple(segment for segment in segments if segment.first < first)
        copies = tuple(segment for segment in segments if segment.first >= first)
        return Files(sealed, copies, fd, found, first)
    except BaseException:
        folders.fs.close(fd)
        raise


def first_seq(fs: FileSystem, fd: int) -> int | None:
    """Seq of the file's first line; None where there is none, or it is damaged."""
    line, newline, _ = fs.read_at(fd, MAX_LINE, 0).partition(b"\n")
    try:
        return head_of(line).seq if newline and is_line(line) else None
    except WireError:
        return None


def read_segment(
    folders: Folders, segment: Segment, offset: int, chain: Chain
) -> Generator[tuple[int, bytes], None, None]:
    """Yield (offset behind it, line) of each line that counts, from `offset` to the segment's last record.

    What stands behind that was written by somebody who did not know that the file was sealed. Records that are lost
    are passed over. Raises BusCorrupt where a line is damaged or the segment ends too early.
    """
    if segment.lost:
        chain.seq = max(chain.seq, segment.last)
    if chain.seq >= segment.last:
        return
    fs = folders.fs
    with opened(folders, segment) as fd:
        end = offset
        for line, size, whole in split(fs.read_chunks(fd, offset)):
            try:
                if not whole or not is_line(line):
                    raise WireError(wrong(whole))
                verdict = chain.take(line)
                if verdict is Verdict.SUPERSEDES:
                    raise WireError("it has the number of a line before it")
            except WireError as error:
                raise corrupt(segment.path, error, number_at(fs, fd, end)) from error
            end += size
            if verdict is Verdict.COUNTS:
                yield end, line
                if chain.seq == segment.last:
                    return
        raise corrupt(segment.path, f"it ends before record {segment.last}")


class opened:
    """A segment's descriptor, for a `with`. Raises BusCorrupt where there is no such file."""

    def __init__(self, folders: Folders, segment: Segment) -> None:
        self._folders = folders
        self._segment = segment

    def __enter__(self) -> int:
        fs = self._folders.fs
        try:
            self._fd, _ = fs.open_regular(self._segment.name, at=self._folders.fd(layout.SEGMENTS))
        except (FileNotFoundError, Refused) as error:
            raise refused(self._segment.path, error) from error
        return self._fd

    def __exit__(self, *_: object) -> None:
        self._folders.fs.close(self._fd)


def wrong(whole: bool) -> str:
    """Say what is wrong with a line that is not sound."""
    return "the checksum does not fit the line" if whole else "the line is unfinished"


def number_at(fs: FileSystem, fd: int, offset: int) -> int:
    """Number of the line that begins at `offset`; counted only when somebody has to be told."""
    before = 0
    for chunk in fs.read_chunks(fd, 0):
        before += chunk[: max(0, offset)].count(b"\n")
        offset -= len(chunk)
        if offset <= 0:
            break
    return before + 1


def locate(folders: Folders, files: Files, seq: int, place: Place) -> Place | None:
    """Return the place of a record's line; None where the journal has no such line.

    `place` is where it was once. A repair may have moved it into another file since.
    """
    for first, fd in _holding(folders, files, seq):
        if first == place.file and _holds(folders.fs, fd, place):
            return place
        end = 0
        for line, size, whole in split(folders.fs.read_chunks(fd, 0)):
            end += size
            if whole and is_line(line) and crc_of(line) == place.crc and line.startswith(b'{"seq":%d,' % seq):
                return Place(first, end, place.crc)
    return None


def _holding(folders: Folders, files: Files, seq: int) -> Iterator[tuple[int, int]]:
    """Yield (first seq, descriptor) of the file that should hold a record, if it can be opened."""
    if seq >= files.first:
        yield files.first, files.fd
    for segment in files.sealed:
        if segment.first <= seq <= segment.last and not segment.lost:
            with suppress(BusCorrupt), opened(folders, segment) as fd:
                yield segment.first, fd


def _holds(fs: FileSystem, fd: int, place: Place) -> bool:
    start = max(0, place.end - MAX_LINE)
    found = fs.read_at(fd, place.end - start, start)
    if len(found) != place.end - start or not found.endswith(b"\n"):
        return False
    line = found[:-1].rpartition(b"\n")[2]
    return is_line(line) and crc_of(line) == place.crc


def is_beginning(folders: Folders, segment: Segment, active: int) -> bool:
    """Tell whether a segment holds nothing but what `queue.jsonl` begins with, or is that very file."""
    fs = folders.fs
    with opened(folders, segment) as fd:
        if identity(fs.stat_fd(fd)) == identity(fs.stat_fd(active)):
            return True
        offset = 0
        for chunk in fs.read_chunks(fd, 0):
            if fs.read_at(active, len(chunk), offset) != chunk:
                return False
            offset += len(chunk)
        return True


def unreachable(sealed: Iterable[Segment]) -> BusCorrupt:
    """The error where records are lost for good and no snapshot leads over the gap."""
    gaps = ", ".join(missing(segment.first, segment.last) for segment in sealed if segment.lost)
    return BusCorrupt(
        f"{gaps}, and there is no snapshot behind them that this program understands",
        path=layout.SEGMENTS,
        hint="use the version that wrote the snapshots, or let the journal end before: conductor doctor TRACK --repair",
    )
