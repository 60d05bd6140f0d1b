"""File systems that fail at a chosen call, over a real disk. Crashes and power cuts: conductor.testing.disk."""

from __future__ import annotations

import errno
import os

import pytest

from bus._fs import FileSystem


class FullDisk(FileSystem):
    """Says ENOSPC, or writes only a part, while `full` is set; a sync fails while `unsure` is."""

    def __init__(self) -> None:
        self.full: str | None = None
        self.unsure = False

    def write(self, fd: int, data: bytes) -> int:
        if self.full == "error":
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.full == "broken":
            raise OSError(errno.EIO, "Input/output error")
        if self.full == "short":
            return super().write(fd, data[: len(data) // 2])
        return super().write(fd, data)

    def sync_data(self, fd: int) -> None:
        if self.unsure:
            raise OSError(errno.EIO, "Input/output error")
        super().sync_data(fd)


class Meddler(FileSystem):
    """Somebody else writes to the same file just before the next line of the journal."""

    def __init__(self) -> None:
        self.bytes = b""

    def write(self, fd: int, data: bytes) -> int:
        if self.bytes and data.startswith(b'{"seq":'):
            os.write(fd, self.bytes)
            self.bytes = b""
        return super().write(fd, data)


@pytest.fixture
def meddler() -> Meddler:
    return Meddler()


@pytest.fixture
def full_disk() -> FullDisk:
    return FullDisk()
