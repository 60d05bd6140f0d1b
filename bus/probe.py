"""What a bus needs of the file system that it lies on, proved there by doing it, in a scratch folder that is removed.

Nothing is believed that a mount says about itself: each call is made as the bus makes it, and looked at. Standard
library only, but for the watch, which is what it is in a run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field

from bus import layout
from bus._fs import NO_SPACE, FileSystem, Refused
from bus.process import is_shortage
from bus.watch import Watch

SCRATCH = "operator.probe-"
"""How the names of scratch folders begin: in `tmp/` they belong to an operator."""

LONGEST_NEEDED = 180
"""Characters of the longest name that a bus makes: a scratch file of the attempt of a task with a long id."""

EVENT_LIMIT = 1.0
"""Seconds within which a file event must come to be worth anything."""

_NAME_MAX = 255

_FOR_REMOVAL = 8
"""Descriptors that are put by, so that the scratch folder can be removed however few the proof has left."""

_CHILD = """\
import fcntl, os, sys
try:
    fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(1, b"free")
except BlockingIOError:
    os.write(1, b"held")
os.read(0, 1)
"""
"""Tries to lock its argument, says how that went, and lives on with all it inherited until its stdin ends."""


@dataclass(frozen=True, slots=True)
class Mount:
    """What holds on a mount. Only `refused` and the space mean anything where nothing could be written."""

    refused: str | None = None
    """Why nothing can be written; None where it can."""
    full: bool = False
    """Whether it was refused for lack of space, or because the mount is read-only: both may pass."""
    failed: dict[str, str] = field(default_factory=dict)
    """What does not hold, with the reason: `link`, `exclusive`, `rename`, `directory_sync`, `lock`."""
    events: str | None = None
    """Why no file event came within `EVENT_LIMIT`; None where one did."""
    case_sensitive: bool = True
    longest_name: int = _NAME_MAX
    """Characters (ASCII) of the longest name that could be made."""
    free_bytes: int = 0
    free_files: int | None = None
    """None where the file system does not count them."""


def prove(folder: str, *, fs: FileSystem | None = None) -> Mount:
    """Try what a bus does in a scratch folder of `folder`, which must be one of ours. Raises OSError where it is none.

    The scratch folder is removed again, whatever happens.
    """
    fs = fs or FileSystem()
    parent = fs.open_directory(folder)
    spare: list[int] = []
    try:
        spare += [os.dup(parent) for _ in range(_FOR_REMOVAL)]
        free_bytes, free_files = _space(parent)
        name = SCRATCH + os.urandom(4).hex()
        try:
            fs.mkdir(name, at=parent)
        except OSError as error:
            why = error.strerror or str(error)
            return Mount(why, error.errno in NO_SPACE, free_bytes=free_bytes, free_files=free_files)
        try:
            return _Proof(fs, os.path.join(folder, name)).take(free_bytes, free_files)
        finally:
            while spare:
                os.close(spare.pop())
            with contextlib.suppress(OSError):
                shutil.rmtree(name, dir_fd=parent)
    finally:
        for fd in (*spare, parent):
            fs.close(fd)


def _space(at: int) -> tuple[int, int | None]:
    found = os.fstatvfs(at)
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None


class _Proof:
    """One scratch folder and what is tried in it."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._at = -1

    def take(self, free_bytes: int, free_files: int | None) -> Mount:
        self._at = self._fs.open_directory(self._path)
        try:
            try:
                self._fs.create("first", b"first\n", at=self._at)
            except OSError as error:
                why = error.strerror or str(error)
                return Mount(why, error.errno in NO_SPACE, free_bytes=free_bytes, free_files=free_files)
            return Mount(
                failed=self._failed(),
                events=self._events(),
                case_sensitive=not self._exists("FIRST"),
                longest_name=self._longest_name(),
                free_bytes=free_bytes,
                free_files=free_files,
            )
        finally:
            self._fs.close(self._at)

    def _failed(self) -> dict[str, str]:
        tries = {
            "exclusive": self._exclusive,
            "link": self._link,
            "rename": self._rename,
            "directory_sync": self._directory_sync,
            "lock": self._lock,
        }
        failed = {}
        for what, attempt in tries.items():
            try:
                why = attempt()
            except OSError as error:
                if is_shortage(error):  # it says nothing about the mount
                    raise
                why = error.strerror or str(error)
            if why is not None:
                failed[what] = why
        return failed

    def _exclusive(self) -> str | None:
        try:
            self._fs.create("first", b"second\n", at=self._at)
        except FileExistsError:
            return None
        return "a file that was there was made once more"

    def _link(self) -> str | None:
        self._fs.link("first", self._at, "linked", self._at)
        if self._read("linked") != b"first\n":
            return "what was linked does not hold what it should"
        try:
            self._fs.link("first", self._at, "linked", self._at)
        except FileExistsError:
            return None
        return "a link replaced a file that was there"

    def _rename(self) -> str | None:
        self._fs.create("new", b"new\n", at=self._at)
        self._fs.create("old", b"old\n", at=self._at)
        self._fs.rename("new", self._at, "old", self._at)
        if self._exists("new") or self._read("old") != b"new\n":
            return "a file that was renamed over another is not in its place"
        return None

    def _directory_sync(self) -> str | None:
        self._fs.sync(self._at)
        return None

    def _lock(self) -> str | None:
        """Hold a lock and let a child try it; then let the child alone hold it, by what it inherited."""
        held, tried = self._open_lock(), self._open_lock()
        child = None
        try:
            if not self._fs.lock(held):
                return "a file that nobody has locked cannot be locked"
            command = [sys.executable, "-I", "-S", "-c", _CHILD, str(tried)]
            try:
                child = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(held, tried), close_fds=True
                )
            except PermissionError as error:
                return f"another process could not try it, as it does not start ({error.strerror})"
            assert child.stdout is not None
            said = child.stdout.read(4)
            if said != b"held":
                return "two processes hold the same lock" if said == b"free" else "another process could not try it"
            self._fs.close(held)
            held = -1
            if self._is_free():
                return "a lock is lost when one of those who have it closes it"
        finally:
            for fd in (held, tried):
                if fd >= 0:
                    self._fs.close(fd)
            if child is not None:
                child.communicate()
        return None if self._is_free() else "a lock stays when the process that held it has ended"

    def _open_lock(self) -> int:
        return self._fs.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, at=self._at)

    def _is_free(self) -> bool:
        fd = self._open_lock()
        try:
            return self._fs.lock(fd, shared=True)
        finally:
            self._fs.close(fd)

    def _events(self) -> str | None:
        for name in layout.FOLDERS:
            self._fs.mkdir(os.path.join(self._path, name))
        came = threading.Event()
        watch = Watch(self._path, came.set)
        watch.start()
        try:
            if not watch.working:
                return watch.why or "the watch does not start"
            inbox = self._fs.open_directory(layout.INBOX, at=self._at)
            try:
                self._fs.create("event", b"", at=inbox)
            finally:
                self._fs.close(inbox)
            return None if came.wait(EVENT_LIMIT) else f"no file event came within {EVENT_LIMIT:g} s"
        finally:
            watch.stop()

    def _longest_name(self) -> int:
        """The longest name that can be made, found by halving."""
        if self._can_be_made(_NAME_MAX):
            return _NAME_MAX
        good, bad = 1, _NAME_MAX
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._can_be_made(middle):
                good = middle
            else:
                bad = middle
        return good

    def _can_be_made(self, length: int) -> bool:
        name = "n" * length
        try:
            self._fs.create(name, b"", at=self._at)
        except OSError:
            return False
        return self._fs.discard(name, self._at)

    def _exists(self, name: str) -> bool:
        try:
            self._fs.stat(name, at=self._at)
        except FileNotFoundError:
            return False
        return True

    def _read(self, name: str) -> bytes:
        try:
            return self._fs.read_file(name, at=self._at, cap=64)
        except (FileNotFoundError, Refused):
            return b""
