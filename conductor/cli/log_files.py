"""The output of an attempt, read back as the worker keeps it: a first piece, and the newest of the later ones.

`log` holds the first bytes of stdout; `log.1`, `log.2`, … hold as many each, and only the newest stay. `log.err`
likewise. The numbers tell how much is missing in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bus.reader import Pieces


@dataclass(frozen=True, slots=True)
class Gap:
    """Output that was not kept."""

    size: int
    """Bytes."""


class LogReader:
    """Reads one stream of an attempt, again and again for what is new."""

    def __init__(self, pieces: Pieces, name: str) -> None:
        self._pieces = pieces
        self._name = name
        self._segment = 0
        self._offset = 0
        self._size = 0
        """Bytes of a full piece; known once the first is full."""

    def fresh(self) -> Iterator[bytes | Gap]:
        """Yield what came since the last call, in order."""
        while True:
            # Listed before reading: a piece that has a successor now is complete, so reading it to its end is enough.
            later = [number for number in self._segments() if number > self._segment]
            for chunk in self._pieces.read(self._file(self._segment), self._offset):
                self._offset += len(chunk)
                yield chunk
            if not later:
                return
            if self._segment == 0:
                self._size = self._offset
            missing = (later[0] - self._segment) * self._size - self._offset
            if missing > 0:
                yield Gap(missing)
            self._segment, self._offset = later[0], 0

    def _segments(self) -> list[int]:
        head = self._name + "."
        names = (name.removeprefix(head) for name in self._pieces.names() if name.startswith(head))
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def _file(self, number: int) -> str:
        return f"{self._name}.{number}" if number else self._name
