"""`waits/`: one file for each wait, locked by the process that waits; void once that lock is free.

The file is locked before it gets its name, and never locked again by anybody: whoever looks takes a shared lock for a
moment, and sees that nobody waits any more when he gets it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from bus import layout
from bus._fs import Refused
from bus.folders import Folders
from bus.grants import WaitFile
from bus.strict import WireError, loads_strict
from bus.wire import AttemptId, JsonObject, dumps

KINDS = frozenset({"lock", "task", "question"})

MAX_WAIT = 2 << 20
"""Bytes of a wait's file."""


@dataclass(frozen=True, slots=True)
class FoundWaits:
    """What lies in `waits/`."""

    alive: tuple[WaitFile, ...]
    """Whose process waits, by attempt and id."""
    void: tuple[str, ...]
    """Names of those whose process has gone."""
    bad: tuple[str, ...]
    """Names of what is no wait."""


class WaitFiles:
    """Looks at the waits. What was read once is not read again: a wait never changes."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._known: dict[tuple[str, int], WaitFile] = {}
        """By name and inode: a question asked again has the name that it had."""

    def read(self) -> FoundWaits:
        """Look at all waits. Raises OSError for what passes."""
        alive: dict[tuple[str, int], WaitFile] = {}
        void, bad = [], []
        for name in sorted(self._folders.names(layout.WAITS)):
            if name.startswith("."):
                continue
            try:
                found = self._look(name)
            except FileNotFoundError:  # it ended meanwhile
                continue
            except (Refused, WireError, layout.LayoutError):
                bad.append(name)
                continue
            if found is None:
                void.append(name)
            else:
                alive[found[0]] = found[1]
        self._known = alive
        return FoundWaits(tuple(alive.values()), tuple(void), tuple(bad))

    def _look(self, name: str) -> tuple[tuple[str, int], WaitFile] | None:
        """Return the wait of this name, None where nobody waits any more."""
        named = layout.parse_wait_name(name)
        if named is None:
            raise layout.LayoutError(f"{name!r} is no wait's name")
        fs, at = self._folders.fs, self._folders.fd(layout.WAITS)
        fd, found = fs.open_regular(name, at=at)
        try:
            if fs.lock(fd, shared=True):
                return None
        finally:
            fs.close(fd)
        key = (name, found.st_ino)
        known = self._known.get(key)
        return key, known or wait_of(named[1], named[0], loads_strict(fs.read_file(name, at=at, cap=MAX_WAIT)))


def wait_of(id: str, attempt: AttemptId, body: object) -> WaitFile:
    """Return what a wait's file says. Raises WireError where it is none."""
    if not isinstance(body, dict):
        raise WireError("not an object")
    kind, shared, ticket = body.get("kind"), body.get("shared", False), body.get("ticket", 0)
    text, since = body.get("text", ""), body.get("since", "")
    what, holders = body.get("what", []), body.get("holders", [])
    sound = isinstance(kind, str) and kind in KINDS and isinstance(shared, bool) and type(ticket) is int
    if (
        not sound
        or not isinstance(text, str)
        or not isinstance(since, str)
        or not _are_texts(what)
        or not _are_texts(holders)
    ):
        raise WireError("not a wait")
    return WaitFile(id, attempt, str(kind), tuple(what), shared, tuple(holders), ticket, text, since)


def _are_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def body_of(wait: WaitFile) -> JsonObject:
    """Return the content of a wait's file."""
    return {
        "kind": wait.kind,
        "what": list(wait.what),
        "shared": wait.shared,
        "holders": list(wait.holders),
        "ticket": wait.ticket,
        "text": wait.text,
        "since": wait.since,
    }


class OpenWaits:
    """The waits of this process: their files, kept locked."""

    def __init__(self, folders: Folders, owner: str) -> None:
        self._folders = folders
        self._fs = folders.fs
        self._owner = owner
        self._held: dict[str, list[int]] = {}

    def begin(self, wait: WaitFile) -> None:
        """Make a wait's file, locked. Of a question, another locked one lies in the attempt's `in/`, where its worker
        sees that a person's answer is waited for. Raises FileExistsError where another process waits under this id,
        OSError; nothing of it is there then."""
        name = layout.wait_name(wait.attempt, wait.id)
        body = dumps(body_of(wait)).encode() + b"\n"
        held = [self._publish(name, name, self._folders.refresh(layout.WAITS), body)]
        self._held[name] = held
        if wait.kind != "question":
            return
        try:
            with self._texts(wait.attempt) as at:
                held.append(self._publish(name, layout.question_name(wait.id), at, wait.text.encode() + b"\n"))
        except BaseException:
            self.end(wait)
            raise

    @contextlib.contextmanager
    def _texts(self, attempt: AttemptId) -> Iterator[int]:
        """Open the attempt's `in/`, making it at the first call."""
        folder = self._folders.attempt(attempt)
        try:
            at = open_texts(self._folders, folder)
        finally:
            self._fs.close(folder)
        try:
            yield at
        finally:
            self._fs.close(at)

    def _publish(self, scratch: str, name: str, at: int, body: bytes) -> int:
        """Let a file appear whole and locked; return its descriptor."""
        fs, tmp = self._fs, self._folders.refresh(layout.TMP)
        self._clear(name, at)
        fs.discard(scratch, tmp)
        fd = fs.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, at=tmp)
        try:
            fs.chmod_fd(fd, 0o600)
            fs.write_all(fd, body)
            fs.lock(fd)
            if not fs.put(scratch, tmp, name, at):
                raise FileExistsError(name)
        except BaseException:
            fs.close(fd)
            fs.discard(scratch, tmp)
            raise
        return fd

    def _clear(self, name: str, at: int) -> None:
        """Remove what a process has left that died while it waited for the same."""
        with contextlib.suppress(FileNotFoundError, Refused):
            fd, _ = self._fs.open_regular(name, at=at)
            try:
                void = self._fs.lock(fd, shared=True)
            finally:
                self._fs.close(fd)
            if void:
                self._fs.discard(name, at)

    def end(self, wait: WaitFile) -> None:
        """Remove a wait's file, then let its lock go."""
        name = layout.wait_name(wait.attempt, wait.id)
        held = self._held.pop(name, None)
        if held is None:
            return
        try:
            self._fs.discard(name, self._folders.refresh(layout.WAITS))
            if wait.kind == "question":
                with self._texts(wait.attempt) as at:
                    self._fs.discard(layout.question_name(wait.id), at)
        finally:
            for fd in held:
                self._fs.close(fd)

    def close(self) -> None:
        """Let all locks go: the files left are void."""
        for held in self._held.values():
            for fd in held:
                self._fs.close(fd)
        self._held.clear()


def open_texts(folders: Folders, attempt: int) -> int:
    """Open `in/` below the attempt's folder that is open as `attempt`, making it at the first call."""
    folders.fs.make_directory(layout.IN, at=attempt)
    return folders.fs.open_directory(layout.IN, at=attempt)
