"""The lines of the journal: how bytes become lines, and which lines count. Pure.

A line is *sound* if its checksum fits. A sound line *counts* if it goes on where the one before ended: its seq is the
next one, and its epoch is not lower than one already seen. A lower epoch is that of a conductor that had been replaced
and did not know it yet; its lines change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from bus import layout
from bus.errors import BusCorrupt
from bus.strict import WireError
from bus.wire import MAX_LINE, decode_sound

REPAIR_HINT = "keep a copy of the bus, then: conductor doctor TRACK --repair"

PUT_BACK = (
    "put back what was removed, if you have it; otherwise keep a copy of the bus, then: conductor doctor TRACK --repair"
)

_HEAD = re.compile(rb'\{"seq":([0-9]+),"epoch":([0-9]+),"t":\{(?:"batch":([0-9]+),)?')


def split(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, int, bool]]:
    """Cut bytes into lines: (line without its newline, its bytes with newline, whether it has one).

    Of a line that is longer than any of ours only the beginning is kept: there may be no newline for gigabytes.
    """
    rest, size = b"", 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        size += len(first)
        if len(rest) <= MAX_LINE:
            rest += first
        if not others:
            continue
        yield rest, size + 1, True
        for line in others[:-1]:
            yield line, len(line) + 1, True
        rest = others[-1]
        size = len(rest)
    if size:
        yield rest, size, False


@dataclass(frozen=True, slots=True)
class Head:
    """How a line begins."""

    seq: int
    epoch: int
    batch: int | None
    """Seq of the first line of the same write; None in lines of programs that did not say so."""


def head_of(line: bytes) -> Head:
    """Read the beginning of a sound line. Raises WireError where it is no record."""
    match = _HEAD.match(line)
    if match is not None:
        seq, epoch, batch = match.groups()
        return Head(int(seq), int(epoch), int(batch) if batch else None)
    record = decode_sound(line)  # sound, and yet not written by us
    if type(record.seq) is not int or type(record.epoch) is not int:
        raise WireError("seq or epoch is no number")
    return Head(record.seq, record.epoch, None)


def crc_of(line: bytes) -> str:
    """The checksum that stands in a sound line."""
    return line.rstrip(b"\n")[-10:-2].decode()


class Verdict(Enum):
    """What a sound line is to those before it."""

    COUNTS = "counts"
    STALE = "stale"
    """Of a conductor that had been replaced."""
    SUPERSEDES = "supersedes"
    """The first line of a newer conductor, with the number of a line that its predecessor wrote in that very moment."""


@dataclass(slots=True)
class Chain:
    """How far the journal was read: the last record that counts, and the highest epoch."""

    seq: int = 0
    epoch: int = 0

    def take(self, line: bytes) -> Verdict:
        """Take in the next sound line. Raises WireError where records are missing before it, or it stands twice."""
        match = _HEAD.match(line)
        if match is not None:
            seq, epoch = int(match[1]), int(match[2])
        else:
            head = head_of(line)
            seq, epoch = head.seq, head.epoch
        if epoch < self.epoch:
            return Verdict.STALE
        if seq == self.seq + 1:
            self.seq, self.epoch = seq, epoch
            return Verdict.COUNTS
        if seq <= self.seq and epoch > self.epoch:
            self.epoch = epoch
            return Verdict.SUPERSEDES
        raise WireError(missing(self.seq + 1, seq - 1) if seq > self.seq else f"record {seq} stands here again")

    def was_acknowledged(self, line: bytes) -> bool:
        """Tell of a sound line behind a damaged one whether the damage hit what had been acknowledged.

        Only one write at a time is not yet on disk. A power cut may keep its end and lose its beginning; then all that
        is sound behind the damage is of the same write as what is damaged, and none of it was acknowledged.
        """
        head = head_of(line)
        return head.epoch >= self.epoch and (head.batch is None or head.batch > self.seq + 1)


def missing(first: int, last: int) -> str:
    """Say which records are not there."""
    return f"record {first} is missing" if first == last else f"records {first} to {last} are missing"


def corrupt(path: str, reason: object, line: int | None = None, *, hint: str = REPAIR_HINT) -> BusCorrupt:
    """The error that damage before the end of the journal is."""
    where = f"line {line} of {_spoken(path)}" if line else _spoken(path)
    return BusCorrupt(f"{where} is damaged: {reason}", path=path, line=line, hint=hint)


def _spoken(path: str) -> str:
    return "the journal" if path == layout.JOURNAL else path
