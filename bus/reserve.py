"""`reserve`: a file that only takes up room. It is given up when the disk is full, so that what workers hand in at that
moment can still be recorded."""

from __future__ import annotations

import contextlib
import errno

from bus import layout
from bus._fs import passes
from bus.folders import Folders

SIZE = 1 << 20

AGAIN_AFTER = 60.0
"""Seconds after which the file is made again, where the disk has room: trying fills it up for a moment."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Reserve:
    """Room on the disk. One: the host's."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._fs = folders.fs
        self._again_at: float | None = None
        """When to try to make it, in seconds of the conductor's clock; None while it is there."""

    def make(self, owner: str, now: float = 0.0) -> None:
        """Make the file unless it is there or the disk has no room for it."""
        at = self._folders.root
        self._again_at = None
        try:
            with contextlib.suppress(FileNotFoundError):
                if self._fs.stat(layout.RESERVE, at=at).st_size >= SIZE:
                    return
            # Not zeros: some file systems store none. It is no secret, so it need not be random.
            body = bytes(range(256)) * (SIZE // 256)
            tmp = self._folders.refresh(layout.TMP)
            self._fs.replace(f"{owner}.reserve", tmp, layout.RESERVE, at, body)
        except FileNotFoundError:  # our scratch, swept by whoever took the track over: the next look says so
            return
        except OSError as error:
            if not passes(error):
                raise
            self._again_at = now + AGAIN_AFTER

    def release(self, error: OSError, now: float) -> bool:
        """Give the room up, if the disk is full; tell whether there was any."""
        if error.errno not in _FULL:
            return False
        self._again_at = now + AGAIN_AFTER
        try:
            return self._fs.discard(layout.RESERVE, self._folders.root)
        except OSError:  # read-only, or something foreign in its place
            return False

    def look(self, owner: str, now: float) -> None:
        """Make it again where it was given up some time ago."""
        if self._again_at is not None and now >= self._again_at:
            self.make(owner, now)
