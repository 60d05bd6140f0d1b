"""File systems that crash or fail at a chosen call."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from bus._fs import FileSystem

CALLS = (
    "open", "read", "read_at", "write", "stat_fd", "stat", "sync", "sync_data", "truncate", "link", "rename", "unlink",
    "rmdir", "mkdir", "chmod_fd", "touch", "names", "lock",
)  # fmt: skip


class Crash(BaseException):
    """The process is gone; nothing after this call happened."""


class CrashingFileSystem(FileSystem):
    """Crashes instead of the n-th call (0: never); a write leaves half of its bytes. After that nothing happens."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.count = 0
        self.dead = False
        self.fds: set[int] = set()

    def close(self, fd: int) -> None:
        self.fds.discard(fd)
        super().close(fd)

    def bury(self) -> None:
        """Close what the dead process had open: its locks are free."""
        for fd in list(self.fds):
            self.close(fd)


def _crashing(name: str) -> Callable[..., Any]:
    def call(self: CrashingFileSystem, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        if self.dead or self.count == self.at:
            if not self.dead and name == "write":
                os.write(args[0], args[1][: len(args[1]) // 2])
            self.dead = True
            raise Crash
        if name in ("sync", "sync_data"):  # counted only: no power is cut here
            return None
        result = getattr(FileSystem, name)(self, *args, **kwargs)
        if name == "open":
            self.fds.add(result)
        return result

    return call


for _name in CALLS:
    setattr(CrashingFileSystem, _name, _crashing(_name))


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
def crash() -> type[Crash]:
    return Crash


@pytest.fixture
def crashing() -> type[CrashingFileSystem]:
    return CrashingFileSystem


@pytest.fixture
def full_disk() -> FullDisk:
    return FullDisk()
