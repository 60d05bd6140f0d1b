"""`locks/`: one file for each grant, made under one short mutex. Standard library, and filelock to lock it.

A grant appears whole, by a link, and is the truth: there is nothing else that could say otherwise. What cannot be read
as a grant is none.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bus import layout
from bus._fs import Refused, passes
from bus.errors import BusError, MutexHeld
from bus.folders import Folders, identity
from bus.grants import Grant, WaitFile
from bus.process import flock_holders
from bus.strict import WireError, loads_strict
from bus.waits import OpenWaits, WaitFiles
from bus.wire import AttemptId, JsonObject, dumps

MAX_GRANT = 2 << 20
"""Bytes of a grant or a wait: as many keys as one may have, each as long as it may be."""

MUTEX_LIMIT = 30.0
"""Seconds after which somebody else is taken to stand still with the mutex (a stopped program)."""

_PAUSE = 0.002

_LOOKS = 10

_BETWEEN = 0.05

_MUTEX = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class GrantFiles:
    """Reads the grants. What was read once is not read again: a grant never changes."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._known: dict[str, Grant] = {}

    def read(self) -> tuple[list[Grant], list[str]]:
        """Return the grants by token, and the names of what is none. Raises OSError for what passes."""
        names = [name for name in self._folders.names(layout.LOCKS) if not name.startswith(".")]
        known, bad = {}, []
        for name in names:
            try:
                known[name] = self._known.get(name) or self._read(name)
            except FileNotFoundError:  # released meanwhile
                continue
            except (Refused, WireError, layout.LayoutError):
                bad.append(name)
        self._known = known
        return sorted(known.values(), key=lambda grant: (grant.token, grant.id)), bad

    def _read(self, name: str) -> Grant:
        named = layout.parse_grant_name(name)
        if named is None:
            raise layout.LayoutError(f"{name!r} is no grant's name")
        body = loads_strict(self._folders.read(layout.LOCKS, name, cap=MAX_GRANT))
        return grant_of(named[1], named[0], body)


def grant_of(id: str, attempt: AttemptId, body: object) -> Grant:
    """Return what a grant's file says. Raises WireError where it is none."""
    if not isinstance(body, dict):
        raise WireError("not an object")
    keys, shared, token, since = (body.get(name) for name in ("keys", "shared", "token", "since"))
    if (
        not isinstance(keys, list)
        or not keys
        or not all(isinstance(key, str) and key for key in keys)
        or not isinstance(shared, bool)
        or type(token) is not int
    ):
        raise WireError("not a grant")
    return Grant(
        id, attempt, tuple(keys), shared, token, since if isinstance(since, str) else "", body.get("lasting") is True
    )


def body_of(grant: Grant) -> JsonObject:
    """Return the content of a grant's file."""
    body: JsonObject = {"keys": list(grant.keys), "shared": grant.shared, "token": grant.token, "since": grant.since}
    return {**body, "lasting": True} if grant.lasting else body


def odd_marks(folders: Folders) -> list[str]:
    """Return which of the mutex and the count are there and no files: nobody could lock anything."""
    return [name for name in (layout.MUTEX, layout.TOKEN) if _is_odd(folders, name)]


def _is_odd(folders: Folders, name: str) -> bool:
    try:
        return not stat.S_ISREG(folders.fs.stat(name, at=folders.fd(layout.LOCKS)).st_mode)
    except (OSError, BusError):
        return False


def mutex_holders(folders: Folders) -> list[int]:
    """Return the pids of who holds the mutex at this moment, as far as the system tells."""
    try:
        return flock_holders(folders.fs.stat(layout.MUTEX, at=folders.fd(layout.LOCKS)))
    except (OSError, BusError):
        return []


def who_stands_still(folders: Folders) -> int | None:
    """Return the pid of who has the mutex for longer than anybody who goes on, None where there is nobody. Takes
    `_LOOKS * _BETWEEN` seconds where somebody has it, no time otherwise."""
    held = set(mutex_holders(folders))
    for _ in range(_LOOKS):
        if not held:
            return None
        folders.fs.pause(_BETWEEN)
        held &= set(mutex_holders(folders))
    return min(held, default=None)


class FileStore:
    """`bus.desk.Store` over the directory."""

    def __init__(self, folders: Folders, owner: str) -> None:
        """`owner` is whose scratch files are made."""
        self._folders = folders
        self._fs = folders.fs
        self._owner = owner
        self._grants = GrantFiles(folders)
        self._waits = WaitFiles(folders)
        self._own = OpenWaits(folders, owner)

    @contextmanager
    def alone(self, patience: float | None = None) -> Iterator[None]:
        """Hold the mutex. Raises MutexHeld where another holds it for longer than `patience` (`MUTEX_LIMIT`)."""
        fd = self._lock_mutex(MUTEX_LIMIT if patience is None else patience)
        try:
            yield
        finally:
            self._fs.close(fd)

    def _lock_mutex(self, patience: float) -> int:
        until = time.monotonic() + patience
        for _ in range(1 + int(patience / _PAUSE)):
            fd = self._try_mutex(self._folders.refresh(layout.LOCKS))
            if fd is not None:
                return fd
            if time.monotonic() >= until:
                break
            self._fs.pause(_PAUSE)
        pids = mutex_holders(self._folders)
        who = f"process {pids[0]}" if pids else "a process"
        hint = "find out who stands still (`ps -e`, state T), and let it go on or end it"
        raise MutexHeld(f"{who} holds the mutex of the file locks and does not go on", path=self._place, hint=hint)

    def _try_mutex(self, at: int) -> int | None:
        """Return the mutex, locked; None where another holds it, or where something else has its name: the conductor
        puts that aside."""
        fs = self._fs
        try:
            fd = fs.open(layout.MUTEX, _MUTEX, 0o600, at=at)
        except OSError as error:
            if passes(error):
                raise
            return None
        try:
            if fs.lock_mutex(fd) and self._is_the_mutex(fd, at):
                return fd
        except BaseException:
            fs.close(fd)
            raise
        fs.close(fd)
        return None

    def _is_the_mutex(self, fd: int, at: int) -> bool:
        """Tell whether what was locked is a file and still has the name: if it was removed, others lock another one."""
        found = self._fs.stat_fd(fd)
        try:
            return stat.S_ISREG(found.st_mode) and identity(self._fs.stat(layout.MUTEX, at=at)) == identity(found)
        except FileNotFoundError:
            return False

    @property
    def _place(self) -> str:
        return f"{layout.LOCKS}/{layout.MUTEX}"

    def grants(self) -> Sequence[Grant]:
        """Return all grants."""
        return self._grants.read()[0]

    def waits(self) -> Sequence[WaitFile]:
        """Return the waits of living processes."""
        return self._waits.read().alive

    def next_token(self) -> int:
        """Return a number higher than all before. A lost or broken count goes on from the grants that are there."""
        at = self._folders.fd(layout.LOCKS)
        try:
            last = int(self._fs.read_file(layout.TOKEN, at=at, cap=32))
        except (FileNotFoundError, Refused, ValueError):
            last = 0
        token = 1 + max([last, *(grant.token for grant in self.grants()), *(wait.ticket for wait in self.waits())])
        scratch = f"{self._owner}.token"
        self._fs.replace(scratch, self._folders.refresh(layout.TMP), layout.TOKEN, at, b"%d\n" % token)
        return token

    def add(self, grant: Grant) -> None:
        """Make a grant's file."""
        name = layout.grant_name(grant.attempt, grant.id)
        tmp, at = self._folders.refresh(layout.TMP), self._folders.fd(layout.LOCKS)
        if not self._fs.publish(name, tmp, name, at, dumps(body_of(grant)).encode() + b"\n"):
            raise FileExistsError(f"{layout.LOCKS}/{name}")

    def remove(self, grant: Grant) -> bool:
        """Remove a grant's file; False where there is none."""
        return self._fs.discard(layout.grant_name(grant.attempt, grant.id), self._folders.refresh(layout.LOCKS))

    def begin(self, wait: WaitFile) -> None:
        """Make a wait's file, locked."""
        self._own.begin(wait)

    def end(self, wait: WaitFile) -> None:
        """Remove a wait's file."""
        self._own.end(wait)

    def close(self) -> None:
        """Give up all places in the queue."""
        self._own.close()
