"""Whether the bus can be written: asked of the file system, and learnt from what could not be written."""

from __future__ import annotations

import errno
import os

from bus import layout
from bus._fs import NO_SPACE, why
from bus.folders import Folders
from bus.process import is_shortage

NEEDED = 1 << 17
"""Bytes below which a disk counts as full: a result, its message and a batch of records must find room."""

NEEDED_AGAIN = 1 << 20
"""Bytes below which a disk that was full still counts as full, so that a run does not go on and pause by turns.

The reserve is not among them: it is made again only where so much is left beside it."""

NAMES = 16
"""Files for which there must be room: the folder of an attempt, a result, a message, and the scratch of each."""

_PROBE = bytes(4096)


_REMEDIES = {
    errno.ENOSPC: "free some space on that disk, then try again; nothing that was recorded is lost",
    errno.EDQUOT: "delete something or have the quota raised, then try again; nothing that was recorded is lost",
    errno.EROFS: "mount it for writing, then try again; `status`, `events`, `logs` and `why` work meanwhile",
}

_MORE = "raise the limit (`ulimit -u`, `ulimit -n`) or end what uses it up, then try again; nothing is lost"


def remedy(error: OSError) -> str | None:
    """Say what to do about a disk that cannot be written, or a machine that ran short; None for any other error."""
    return _MORE if is_shortage(error) else _REMEDIES.get(error.errno or 0)


class Room:
    """Looks once a pass, before anything is started."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.failed = False
        """Whether something could not be written, and nothing says yet that it can be again."""

    def lost(self, error: OSError) -> None:
        """Something could not be written. Only what a disk refuses counts, not a lack of descriptors."""
        if error.errno in NO_SPACE:
            self.failed = True

    def look(self, owner: str) -> str | None:
        """Return why nothing can be written now. `owner` is whose scratch files a probe is among.

        A full and a read-only disk say so themselves. A quota and a limit on file sizes only fail, so after a failure
        something is written until that succeeds.
        """
        lacking = self.said_by_disk()
        if lacking is None and self.failed:
            lacking = self._said_by_probe(owner)
        self.failed = lacking is not None
        return lacking

    def said_by_disk(self) -> str | None:
        """Return why nothing can be written, as far as the disk itself tells: it is full, or read-only."""
        try:
            found = self._folders.fs.space(self._folders.root)
        except OSError:  # it does not tell
            return None
        if found.f_flag & os.ST_RDONLY:
            return why(OSError(errno.EROFS, ""))
        full = why(OSError(errno.ENOSPC, ""))
        free, needed = free_bytes(found), NEEDED_AGAIN if self.failed else NEEDED
        if free is not None and free < needed:
            return f"{full} ({_size(free)} free, {_size(NEEDED_AGAIN)} needed to go on)"
        names = found.f_ffree if os.geteuid() == 0 else found.f_favail
        if found.f_files > 0 and names < NAMES:
            return f"{full} (room for {names} more files, for {NAMES} needed to go on)"
        return None

    def _said_by_probe(self, owner: str) -> str | None:
        name = f"{owner}.probe"
        try:
            at = self._folders.refresh(layout.TMP)
            self._folders.fs.discard(name, at)
            self._folders.fs.create(name, _PROBE, at=at)
            self._folders.fs.discard(name, at)
        except OSError as error:
            return why(error)
        return None


def free_bytes(found: os.statvfs_result) -> int | None:
    """Return how many bytes we may still write; None where the file system does not count them (zero of zero)."""
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return blocks * found.f_frsize if found.f_blocks > 0 else None


def _size(size: int) -> str:
    return f"{size >> 10} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"
