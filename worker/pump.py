"""Takes what a command prints and keeps the first and the last part of it on disk.

The file `log` holds the first `cap` bytes. What follows goes to `log.1`, `log.2`, … of `cap` bytes each, of which only
the newest two stay: together they hold at least the last `cap` bytes, at any moment, whoever is killed. Segment n
begins at byte n × cap, so a reader sees from the names where the gap is. stderr likewise: `log.err`, `log.err.1`, …
Files are made when their first byte comes.
"""

from __future__ import annotations

import contextlib
import os

CHUNK = 1 << 16
"""Most bytes taken in one go: a command that prints without end must not keep the worker from its other duties."""

TAIL = 2048
"""Bytes of the end kept in memory for `exit.json`."""


class Log:
    """The files of one stream, and the end of it in memory."""

    def __init__(self, folder: str, name: str, cap: int) -> None:
        self.total = 0
        """Bytes produced by the command."""
        self.lost = 0
        """Bytes that could not be written (disk full)."""
        self.tail = b""
        self._folder = folder
        self._name = name
        self._cap = max(cap, 1)
        self._fd = -1
        self._segment = -1

    def add(self, data: bytes) -> None:
        """Keep `data`. A full disk, or something foreign in the place of the file, loses bytes, never the command: they
        are counted in `lost`."""
        self.tail = (self.tail + data)[-TAIL:]
        view = memoryview(data)
        while view:
            segment, offset = divmod(self.total, self._cap)
            part = view[: self._cap - offset]
            try:
                self._write(segment, part)
            except OSError:
                self.lost += len(part)
            self.total += len(part)
            view = view[len(part) :]

    def close(self) -> None:
        """Close the file; nothing is added after that."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, segment: int, data: memoryview) -> None:
        if segment != self._segment:
            self._open(segment)
        rest = data
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def _open(self, segment: int) -> None:
        self.close()
        self._segment = -1
        # The command can put anything in this place; a FIFO must not stop the worker, here or at a write.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._fd = os.open(self._path(segment), flags, 0o600)
        self._segment = segment
        if segment > 2:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(segment - 2))

    def _path(self, segment: int) -> str:
        name = f"{self._name}.{segment}" if segment else self._name
        return os.path.join(self._folder, name)


class Pump:
    """One pipe from the command and its log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)

    def take(self) -> bool:
        """Take what is there, at most CHUNK bytes. False where nothing is there now or will ever be."""
        if self.reader < 0:
            return False
        try:
            data = os.read(self.reader, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close_reader()
            return False
        self.log.add(data)
        return True

    def close_writer(self) -> None:
        """Close our copy of the end that the command writes to."""
        os.close(self.writer)
        self.writer = -1

    def close_reader(self) -> None:
        """Read no more. Whoever still writes gets EPIPE."""
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1
