"""The output of an attempt, read back as the worker keeps it: a first piece, and the newest of the later ones.

`log` holds the first bytes of stdout; `log.1`, `log.2`, … hold as many each, and only the newest stay. `log.err`
likewise. The numbers tell how much is missing in between. The command can write there as well, whatever it likes, so
nothing is taken for small: sizes are asked for first, and of what is too much only both ends are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bus.errors import BusUnsafe
from bus.reader import Pieces

MOST_DIGITS = 12
"""Digits of a piece's number, at most: nobody prints more, and what stands there besides is no output."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Output that is not shown."""

    size: int
    """Bytes."""
    is_kept: bool = False
    """Whether it is on disk, and only too much to be shown."""


@dataclass(frozen=True, slots=True)
class Span:
    """Output that is there."""

    piece: int
    start: int
    end: int
    """Offsets in the piece."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


class LogReader:
    """Reads one stream of an attempt, again and again for what is new."""

    def __init__(self, pieces: Pieces, name: str, notice: Callable[[str], None] = lambda text: None) -> None:
        """`notice` is told, once each, of later pieces that are no files: the good ones are read all the same."""
        self._pieces = pieces
        self._name = name
        self._notice = notice
        self._odd: set[int] = set()
        self._segment = 0
        self._offset = 0
        self._size = 0
        """Bytes of a full piece; known once the first is full."""

    def fresh(self, most: int) -> Iterator[bytes | Gap]:
        """Yield what came since the last call, in order; where that is more than `most` bytes, both ends of it."""
        for part in self.parts(most):
            if isinstance(part, Gap):
                yield part
            else:
                yield from self.read(part)

    def parts(self, most: int) -> list[Span | Gap]:
        """Tell what `fresh` would yield, and count it as seen. Raises BusUnsafe where the first piece is no file."""
        return both_ends(list(self._parts()), most)

    def read(self, span: Span) -> Iterator[bytes]:
        """Yield the bytes of a part."""
        return self._pieces.read(self._file(span.piece), span.start, span.end)

    def _parts(self) -> Iterator[Span | Gap]:
        # Listed before anything else: a piece that has a successor now is complete, so its size now is its last.
        later = [number for number in self._segments() if number > self._segment]
        while True:
            end = self._pieces.size(self._file(self._segment))
            if end > self._offset:
                yield Span(self._segment, self._offset, end)
                self._offset = end
            if not later:
                return
            if self._segment == 0:
                self._size = self._offset
            following = later.pop(0)
            missing = (following - self._segment) * self._size - self._offset
            if missing > 0:
                yield Gap(missing)
            self._segment, self._offset = following, 0

    def _segments(self) -> list[int]:
        head = self._name + "."
        names = (name.removeprefix(head) for name in self._pieces.names() if name.startswith(head))
        numbers = (int(name) for name in names if name.isascii() and name.isdigit() and len(name) <= MOST_DIGITS)
        return sorted(number for number in numbers if self._is_file(number))

    def _is_file(self, number: int) -> bool:
        """Tell whether a piece is a file; the command can put anything in its place."""
        try:
            self._pieces.size(self._file(number))
        except BusUnsafe as error:
            if number not in self._odd:
                self._odd.add(number)
                self._notice(f"{error.path}: {error.message}; it is left out")
            return False
        return True

    def _file(self, number: int) -> str:
        return f"{self._name}.{number}" if number else self._name


def both_ends(parts: Sequence[Span | Gap], most: int) -> list[Span | Gap]:
    """Return the parts, at most `most` bytes of them: the first third of that and, behind a gap, the last two."""
    total = sum(part.size for part in parts if isinstance(part, Span))
    over, first = total - most, most // 3
    if over <= 0:
        return list(parts)
    found: list[Span | Gap] = []
    before = 0
    for part in parts:
        if isinstance(part, Gap):
            found.append(part)
            continue
        head = min(part.size, max(first - before, 0))
        tail = min(part.size, max(before + part.size - first - over, 0))
        if head:
            found.append(Span(part.piece, part.start, part.start + head))
        if before <= first < before + part.size:
            found.append(Gap(over, is_kept=True))
        if tail:
            found.append(Span(part.piece, part.end - tail, part.end))
        before += part.size
    return found
