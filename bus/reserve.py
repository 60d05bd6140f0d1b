"""`reserve`: a file that only takes up room. It is given up when the disk is full, so that what workers hand in at that
moment can still be recorded."""

from __future__ import annotations

import contextlib
import errno
import math
from collections.abc import Iterable

from bus import layout
from bus._fs import passes
from bus.folders import Folders
from bus.process import waits_for_disk
from bus.room import NAMES, NEEDED_AGAIN, free_bytes
from bus.wire import ProcRecord

SIZE = 1 << 20

AGAIN_AFTER = 60.0
"""Seconds after which the file is made again, where the disk has room: trying fills it up for a moment."""

BEFORE_TIME = math.inf
"""What the clock says before there is one: at a start."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Reserve:
    """Room on the disk. One: the host's."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._fs = folders.fs
        self._again_at: float | None = None
        """When to try to make it, in seconds of the conductor's clock; None while it is there."""

    def begin(self, owner: str) -> None:
        """Make it at a start, unless it was just given up."""
        if self._again_at is None:
            self.make(owner, BEFORE_TIME)

    def make(self, owner: str, now: float) -> None:
        """Make the file unless it is there or the disk has no room for it and for going on beside it."""
        at = self._folders.root
        self._again_at = None
        try:
            with contextlib.suppress(FileNotFoundError):
                if self._fs.stat(layout.RESERVE, at=at).st_size >= SIZE:
                    return
            free = free_bytes(self._fs.space(at))
            if free is not None and free < SIZE + NEEDED_AGAIN:
                self._again_at = now + AGAIN_AFTER
                return
            # Not zeros: some file systems store none. It is no secret, so it need not be random.
            body = bytes(range(256)) * (SIZE // 256)
            tmp = self._folders.refresh(layout.TMP)
            if self._fs.is_folder(layout.RESERVE, at) and not self._folders.clear(layout.RESERVE):
                self._again_at = now + AGAIN_AFTER  # it cannot be moved: a run does without
                return
            self._fs.replace(f"{owner}.reserve", tmp, layout.RESERVE, at, body)
        except FileNotFoundError:  # our scratch, swept by whoever took the track over: the next look says so
            return
        except OSError as error:
            if not passes(error):
                raise
            self._again_at = now + AGAIN_AFTER

    def release(self, error: OSError, now: float) -> bool:
        """Give the room up, if the disk is full; tell whether there was any."""
        return error.errno in _FULL and self._give_up(now)

    def lend(self, workers: Iterable[ProcRecord | None], now: float) -> None:
        """Give the room up on a full disk if one of these workers waits for it: its result must not wait for people.

        Where files cannot be made, although there are bytes, the reserve is no help.
        """
        if self._again_at is not None:
            return
        with contextlib.suppress(OSError):
            found = self._fs.space(self._folders.root)
            if found.f_files and found.f_favail < NAMES:
                return
            if any(one is not None and waits_for_disk(one.pid, one.start_ticks) for one in workers):
                self._give_up(now)

    def _give_up(self, now: float) -> bool:
        self._again_at = now + AGAIN_AFTER
        try:
            return self._fs.discard(layout.RESERVE, self._folders.root)
        except OSError:  # read-only, or something foreign in its place
            return False

    def look(self, owner: str, now: float) -> None:
        """Make it again where it was given up some time ago."""
        if self._again_at == BEFORE_TIME:
            self._again_at = now + AGAIN_AFTER
        if self._again_at is not None and now >= self._again_at:
            self.make(owner, now)
