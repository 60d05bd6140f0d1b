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


KEPT = 1 << 15
"""Bytes kept in memory of what cannot be written now: the newest, for when the disk has room again."""


class Log:
    """The files of one stream, and the end of it in memory."""

    def __init__(self, folder: str, name: str, cap: int) -> None:
        self.total = 0
        """Bytes produced by the command."""
        self.errno: int | None = None
        """Why something could not be written, the last time."""
        self.tail = b""
        self._folder = folder
        self._name = name
        self._cap = max(cap, 1)
        self._fd = -1
        self._segment = -1
        self._rest = bytearray()
        """The end of what was produced, as far as it is not written yet."""
        self._given_up = 0

    @property
    def lost(self) -> int:
        """Bytes that are not on disk, as that was full or something foreign is in the place of the file."""
        return self._given_up + len(self._rest)

    def add(self, data: bytes) -> None:
        """Keep `data`. What cannot be written waits in memory, as much as finds room there: it never costs the
        command anything."""
        self.tail = (self.tail + data)[-TAIL:]
        self.total += len(data)
        self._rest += data
        self.retry()

    def retry(self) -> None:
        """Write what waits, as far as that is possible now."""
        try:
            while self._rest:
                segment, offset = divmod(self.total - len(self._rest), self._cap)
                if segment != self._segment:
                    self._open(segment)
                with memoryview(self._rest) as view:
                    written = os.write(self._fd, view[: self._cap - offset])
                del self._rest[:written]
        except OSError as error:
            self.errno = error.errno
            over = max(len(self._rest) - KEPT, 0)
            del self._rest[:over]
            self._given_up += over

    def close(self) -> None:
        """Write what waits, if that is possible, and close the file. It may be tried again later."""
        self.retry()
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = self._segment = -1

    def _open(self, segment: int) -> None:
        self._close()
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
