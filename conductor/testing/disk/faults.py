"""What is wrong with the disk at the moment, as far as a call can tell."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass


@dataclass(slots=True)
class Faults:
    """Set by a test; as made, everything works."""

    room: int | None = None
    """Bytes that still fit, for data; None is enough. A write of more is short, then ENOSPC."""
    no_names: bool = False
    """Whether nothing new can be made either, not even an empty file."""
    read_only: bool = False
    """Whether every change is refused with EROFS."""
    no_links: bool = False
    """Whether the file system has no hard links."""
    failing_syncs: int = 0
    """Syncs that fail with EIO, from now on; the kernel drops what they should have kept."""
    only_data: bool = False
    """Whether only those of `fdatasync` fail."""

    def check_change(self) -> None:
        """Raise where nothing may be changed."""
        if self.read_only:
            raise error(errno.EROFS)

    def check_name(self) -> None:
        """Raise where no name may be made."""
        self.check_change()
        if self.no_names:
            raise error(errno.ENOSPC)

    def admit(self, size: int) -> int:
        """Return how many of `size` bytes are taken. Raises where none is."""
        self.check_change()
        if self.room is None:
            return size
        if self.room == 0 and size:
            raise error(errno.ENOSPC)
        taken = min(size, self.room)
        self.room -= taken
        return taken

    def free(self, size: int) -> None:
        """Give bytes back."""
        if self.room is not None:
            self.room += size

    def sync_fails(self, *, data: bool) -> bool:
        """Tell whether this sync is one that fails."""
        if self.failing_syncs == 0 or (self.only_data and not data):
            return False
        self.failing_syncs -= 1
        return True


def error(number: int, name: str | bytes | None = None) -> OSError:
    """The error of a call."""
    return OSError(number, os.strerror(number), name)
