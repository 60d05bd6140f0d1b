"""What of a damaged journal is sound: the half of a repair that only looks."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from bus import blobs, layout, snapshots
from bus._fs import Refused, Withheld
from bus.errors import BusCorrupt
from bus.folders import Folders
from bus.lines import Chain, crc_of, head_of, split
from bus.losses import ahead
from bus.reader import FileReader
from bus.recovery import Looked, look_through
from bus.segments import Files, Segment, first_seq, is_beginning, listed, open_active, read_segment, refused
from bus.strict import WireError
from bus.wire import decode_sound, is_line

FAR = 10**12
"""Beyond any seq."""


@dataclass(frozen=True, slots=True)
class Span:
    """Records from one to another, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"record {self.first}" if self.first == self.last else f"records {self.first} to {self.last}"

    @property
    def count(self) -> int:
        """How many."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class File:
    """A file of the journal and what is sound in it. `segment` is None for `queue.jsonl`."""

    segment: Segment | None
    should: Span
    """What it should hold; of `queue.jsonl` the end is open."""
    runs: tuple[Span, ...]
    """What it holds: records that follow each other."""
    clean: bool
    """A reader takes it as it is."""
    has_rest: bool = False
    """Something that is no record stands behind the last one; a start cuts that off."""

    @property
    def count(self) -> int:
        """How many sound records it holds; a name for lost ones holds none."""
        return 0 if self.is_lost else sum(run.count for run in self.runs)

    @property
    def is_lost(self) -> bool:
        """It stands for records that are gone."""
        return self.segment is not None and self.segment.lost

    @property
    def name(self) -> str:
        """Its name in its folder."""
        return self.segment.name if self.segment else layout.JOURNAL

    @property
    def path(self) -> str:
        """Its name below the root."""
        return self.segment.path if self.segment else layout.JOURNAL


class Survey:
    """Looks at the files of one journal."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._fs = folders.fs
        self._load_plan = FileReader(folders).load_plan

    def files(self) -> list[File]:
        """All files that are there, in order."""
        segments = listed(self._folders)
        active = self.look_at_active(segments[-1].last + 1 if segments else 1)
        return [*map(self.look_at, segments), *([active] if active else [])]

    def look_at(self, segment: Segment) -> File:
        """Look at a segment."""
        should = Span(segment.first, segment.last)
        if segment.lost:
            return File(segment, should, (should,), clean=True)
        try:
            with closing(read_segment(self._folders, segment, 0, Chain(segment.first - 1))) as lines:
                if all(self._has_payload(line) for _, line in lines):
                    return File(segment, should, (should,), clean=True)
        except BusCorrupt:
            pass
        return File(segment, should, self._runs(segment), clean=False)

    def look_at_active(self, expected: int) -> File | None:
        """Look at `queue.jsonl`, which should begin with the record `expected`; None where there is none."""
        try:
            found = open_active(self._folders)
        except BusCorrupt:  # no file
            return File(None, Span(expected, FAR), (), clean=False)
        if found is None:
            return None
        fd, stat = found
        first = first_seq(self._fs, fd) or expected
        try:
            looked = look_through(self._folders, Files((), (), fd, stat, first))
            with closing(self._sound(None, check=False)) as lines:
                if not self._is_proved(looked) and all(self._has_payload(line) for _, line in lines):
                    runs = (Span(first, looked.last),) if looked.last >= first else ()
                    return File(None, Span(first, FAR), runs, clean=True, has_rest=looked.end < stat.st_size)
        except BusCorrupt:
            pass
        finally:
            self._fs.close(fd)
        return File(None, Span(min(first, expected), FAR), self._runs(None), clean=False)

    def _is_proved(self, looked: Looked) -> bool:
        """Tell whether records behind a damaged line, which may be of a write that was cut off, were acknowledged: a
        snapshot was taken behind them."""
        crcs = {kept.snapshot.seq: kept.place.crc for kept in ahead(self._folders, looked.last)} if looked.bad else {}
        with closing(self._sound(None, check=False)) as lines:
            return bool(crcs) and any(crcs.get(seq) == crc_of(line) for seq, line in lines)

    def _runs(self, segment: Segment | None) -> tuple[Span, ...]:
        runs: list[Span] = []
        for seq, _ in self._sound(segment):
            if runs and runs[-1].last == seq - 1:
                runs[-1] = Span(runs[-1].first, seq)
            else:
                runs.append(Span(seq, seq))
        return tuple(runs)

    def _sound(self, segment: Segment | None, *, check: bool = True) -> Generator[tuple[int, bytes], None, None]:
        """Yield (seq, line) of all that is sound in a file and is what its name promises; nothing where it is none.

        With `check` only records that have their payload.
        """
        name, at = self.where(segment)
        try:
            fd, _ = self._fs.open_regular(name, at=at)
        except Withheld as error:
            raise refused(segment.path if segment else layout.JOURNAL, error) from error
        except (FileNotFoundError, Refused):
            return
        try:
            chain, last = Chain(segment.first - 1 if segment else 0), segment.last if segment else FAR
            for line, _, whole in split(self._fs.read_chunks(fd, 0)):
                if not whole or not is_line(line) or (check and not self._has_payload(line)):
                    continue
                try:
                    head = head_of(line)
                except WireError:
                    continue
                if head.epoch >= chain.epoch and chain.seq < head.seq <= last:
                    chain = Chain(head.seq, head.epoch)
                    yield head.seq, line
        finally:
            self._fs.close(fd)

    def _has_payload(self, line: bytes) -> bool:
        """Tell whether a sound line is a record, with all that it names: a payload in a blob, a plan."""
        try:
            head_of(line)
            if b'"blob":"' in line:
                blobs.resolve(self._folders, decode_sound(line))
            if (plan := plan_of(line)) is not None:
                self._load_plan(plan[0])
        except (WireError, BusCorrupt):
            return False
        return True

    def records(self, files: Iterable[File], *, check: bool = True) -> Iterator[tuple[int, bytes]]:
        """Yield (seq, line) of all that is sound; with `check` only what has all that it names."""
        for file in files:
            if not file.is_lost:
                with closing(self._sound(file.segment, check=check)) as lines:
                    yield from lines

    def bridges(self, files: list[File]) -> Iterator[snapshots.Kept]:
        """Yield the snapshots of which the record is there, newest first."""
        for kept in snapshots.read_all(self._folders):
            seq = kept.snapshot.seq
            if any(self._crc(file, seq) == kept.place.crc for file in files if not file.is_lost):
                yield kept

    def _crc(self, file: File, seq: int) -> str | None:
        """The checksum of a record's line in this file; None where the file does not have it."""
        if not any(run.first <= seq <= run.last for run in file.runs):
            return None
        with closing(self._sound(file.segment)) as lines:
            return next(crc_of(line) for number, line in lines if number == seq)

    def body(self, file: File, span: Span) -> bytes:
        """The sound lines of a file that hold these records."""
        lines = self._sound(file.segment)
        return b"".join(line + b"\n" for seq, line in lines if span.first <= seq <= span.last)

    def is_half_sealed(self, copies: list[Segment]) -> bool:
        """Tell whether a conductor was killed while it sealed the file; the next start puts that right."""
        fd, _ = self._fs.open_regular(layout.JOURNAL, at=self._folders.root)
        try:
            return all(not one.lost and is_beginning(self._folders, one, fd) for one in copies)
        except BusCorrupt:
            return False
        finally:
            self._fs.close(fd)

    def where(self, segment: Segment | None) -> tuple[str, int]:
        """Name and folder of a segment, or of `queue.jsonl`."""
        if segment is None:
            return layout.JOURNAL, self._folders.root
        return segment.name, self._folders.fd(layout.SEGMENTS)


def plan_of(line: bytes) -> tuple[str, str] | None:
    """Return (SHA-256 of the plan, project) of a line that begins a round; None for any other."""
    if b'"type":"RUN_STARTED"' not in line:
        return None
    payload = decode_sound(line).payload
    return str(payload.get("plan_sha")), str(payload.get("project"))


def gaps_of(files: Iterable[File]) -> Iterator[Span]:
    """Yield what is missing, in order."""
    expected = 1
    for file in files:
        for run in file.runs:
            if run.first > expected:
                yield from _apart(Span(expected, run.first - 1), file.should.first)
            expected = max(expected, run.last + 1)
        if file.segment is not None and file.segment.last >= expected:
            yield from _apart(Span(expected, file.segment.last), file.should.first)
            expected = file.segment.last + 1


def _apart(gap: Span, at: int) -> Iterator[Span]:
    """Yield a gap, in two where a file begins within it: what no file held, and what that file should hold."""
    if gap.first < at <= gap.last:
        yield Span(gap.first, at - 1)
        yield Span(at, gap.last)
    else:
        yield gap


def covers(file: File, gap: Span) -> bool:
    """Tell whether a file should hold the missing records."""
    return (
        not file.is_lost
        and file.should.first <= gap.first
        and gap.last <= file.should.last
        and bool(file.segment or file.runs)
    )


def reaches(file: File, first: int) -> bool:
    """Tell whether a file holds, or should hold, records from `first` on, or something of which that cannot be told."""
    return file.segment is not None or file.has_rest or any(run.last >= first for run in file.runs)
