"""`conductor.lock`: who holds it is the one conductor of the track."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress

from bus import layout
from bus._fs import passes, why
from bus.contract import Holder
from bus.errors import BusGone, BusUnsafe, HeldByOther
from bus.folders import Folders, identity
from bus.process import HAVE_PROC, look
from bus.reader import holder_by_lock, read_holder

_TRIES, _PAUSE = 5, 0.01

_PATIENCE = 100
"""Pauses within which a holder has said who it is."""


def take_lock(folders: Folders, *, unsafe: bool) -> int:
    """Hold `conductor.lock`, for as long as the descriptor is open. Raises HeldByOther, BusUnsafe.

    A raw flock: filelock works by path and falls back to other kinds of locks where this one fails; here the lock must
    be on a file below our own directory, whose inode is compared again before each commit.
    """
    fs = folders.fs
    fd, found = _open(folders, os.O_CREAT)
    try:
        fs.chmod_fd(fd, 0o600)
        for _ in range(_TRIES):  # somebody who only looks holds it for a moment
            if fs.lock(fd):
                break
            fs.pause(_PAUSE)
        else:
            raise _held(folders, found)
        if not unsafe and not _works(folders):
            raise BusUnsafe(
                "locks do not work on this file system",
                path=folders.path,
                hint="put the bus elsewhere with --bus-dir, or take the risk with --unsafe-fs",
            )
    except BaseException:
        fs.close(fd)
        raise
    return fd


def check_lock_file(folders: Folders) -> None:
    """Raise BusUnsafe where something stands in the place of the lock; take nothing."""
    with suppress(FileNotFoundError):
        folders.fs.close(_open(folders)[0])


def _open(folders: Folders, flags: int = 0) -> tuple[int, os.stat_result]:
    fs = folders.fs
    try:
        fd = fs.open(layout.LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | flags, at=folders.root)
    except OSError as error:
        if passes(error) or isinstance(error, FileNotFoundError):
            raise
        raise _not_ours(folders, why(error)) from error
    try:
        found = fs.stat_fd(fd)
        if not stat.S_ISREG(found.st_mode):
            raise _not_ours(folders, "not a regular file")
        if found.st_uid != os.geteuid():
            raise _not_ours(folders, f"belongs to user {found.st_uid}")
    except BaseException:
        fs.close(fd)
        raise
    return fd, found


def _not_ours(folders: Folders, reason: str) -> BusUnsafe:
    hint = "look at what it is, and move it away while nothing runs; then run again"
    place = os.path.join(folders.path, layout.LOCK)
    return BusUnsafe(f"the lock is no file of our own: {reason}", path=place, hint=hint)


def _held(folders: Folders, lock: os.stat_result) -> HeldByOther:
    holder = read_holder(folders)
    for _ in range(_PATIENCE):  # it may just have taken the lock, and the last one's words still stand there
        if holder is not None and _may_hold(holder):
            break
        folders.fs.pause(_PAUSE)
        holder = read_holder(folders)
    holder = holder or holder_by_lock(folders, lock)
    who = f"pid {holder.pid} on {holder.host} since {holder.started_at}"
    return HeldByOther(f"another conductor holds the track ({who})", path=folders.path)


def _may_hold(holder: Holder) -> bool:
    """Tell whether the holder may live, as far as can be told from here."""
    return not HAVE_PROC or holder.host != socket.gethostname() or look(holder.pid) is not None


def _works(folders: Folders) -> bool:
    """Tell whether a lock that is held keeps a second opener out."""
    fs = folders.fs
    second, _ = fs.open_regular(layout.LOCK, at=folders.root)
    try:
        return not fs.lock(second, shared=True)
    finally:
        fs.close(second)


class Ours:
    """Tells whether the track is still ours: what is written must reach the bus that others see."""

    def __init__(self, folders: Folders, lock: int) -> None:
        self._folders = folders
        self._lock = identity(folders.fs.stat_fd(lock))
        self.journal: Callable[[], tuple[int, int]] | None = None
        """Says which file our journal is, once it is open."""

    def check(self) -> None:
        """Raise BusGone where the root, the journal or the lock is another one than that which we opened."""
        if self.journal is not None and not self._still(layout.JOURNAL, self.journal()):
            self.check_lock()
            raise BusGone(
                "the journal was replaced or removed while in use",
                path=layout.JOURNAL,
                hint="find out what wrote to it (an editor, `sed -i`, a clean-up), then run again",
            )
        self.check_lock()

    def check_lock(self) -> None:
        """Raise BusGone where the root or the lock is another one.

        The lock comes last: who takes a track over has another lock before he touches anything else.
        """
        if not self._folders.is_same_root() or not self._still(layout.LOCK, self._lock):
            raise BusGone("the bus was moved, removed or replaced while in use", path=self._folders.path)

    def _still(self, name: str, known: tuple[int, int]) -> bool:
        """Tell whether a name in the root means the same file as when we opened it."""
        try:
            return identity(self._folders.fs.stat(name, at=self._folders.root)) == known
        except FileNotFoundError:
            return False
