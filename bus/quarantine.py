"""What is not what its place asks for: moved aside with the reason beside it, never read again, never lost."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from bus import layout
from bus._fs import FileSystem, passes
from bus.contract import Quarantined
from bus.errors import BusGone
from bus.folders import Folders
from bus.wire import AttemptId, TaskId, dumps

SUFFIX = ".why"

_NUMBERED = re.compile(r"([0-9]{8})-")
_LAST = 99_999_999


class Quarantine:
    """`quarantine/<number>-<name>` and `….why`. One writer: the host."""

    def __init__(self, folders: Folders, check: Callable[[], None]) -> None:
        """`check` raises BusGone where the bus is not ours any more: then nothing in it is foreign to its new owner."""
        self._folders = folders
        self._check = check
        self._next: int | None = None
        self._found: list[Quarantined] = []

    @property
    def _fs(self) -> FileSystem:
        return self._folders.fs

    def take_found(self) -> tuple[Quarantined, ...]:
        """Return what was set aside since the last call: each is told once."""
        found, self._found = tuple(self._found), []
        return found

    def take(
        self,
        name: str,
        at: int,
        reason: str,
        *,
        task: TaskId | None = None,
        attempt: AttemptId | None = None,
        foreign: bool = False,
    ) -> None:
        """Move a thing here, whatever it is. The reason is written first, so that nothing lies here unexplained, unless
        the power was cut: what somebody else made is not worth a sync.

        Nothing to do where its owner took it back meanwhile. Raises OSError where it cannot be moved, and BusGone: it
        lies where it was then, and nothing is told of it.
        """
        found = os.fsencode(name)
        kept = self._explain(found, reason)
        try:
            self._check()
            self._fs.rename(found, at, kept, self._folders.fd(layout.QUARANTINE))
        except (OSError, BusGone) as error:
            self._fs.discard(kept + SUFFIX, self._folders.fd(layout.QUARANTINE))
            if isinstance(error, FileNotFoundError):
                return
            raise
        self.tell(Quarantined(kept, reason, task, attempt, foreign))

    def keep(self, name: str, data: bytes, reason: str, *, sync: bool, foreign: bool = False) -> Quarantined:
        """Keep bytes that were found in a file of ours, written by a foreign hand or not; with `sync` for good."""
        kept = self._explain(name.encode(), reason, sync=sync)
        at = self._folders.fd(layout.QUARANTINE)
        self._fs.create(kept, data, at=at, sync=sync)
        if sync:
            self._fs.sync(at)
        found = Quarantined(kept, reason, foreign=foreign)
        self.tell(found)
        return found

    def replace(
        self, scratch: str, scratch_at: int, name: str, at: int, data: bytes, *, sync: bool = False, mode: int = 0o600
    ) -> None:
        """As `FileSystem.replace`; a folder that stands in the place of the file is set aside before."""
        try:
            self._fs.replace(scratch, scratch_at, name, at, data, sync=sync, mode=mode)
        except OSError as error:
            if passes(error) or not self._fs.is_folder(name, at):
                raise
            self.take(name, at, "a folder in the place of a file")
            self._fs.replace(scratch, scratch_at, name, at, data, sync=sync, mode=mode)

    def tell(self, found: Quarantined) -> None:
        """Let the next `take_found` tell of it."""
        self._found.append(found)

    def _explain(self, found: bytes, reason: str, *, sync: bool = False) -> str:
        """Write the reason under a number of which nothing is here, and return the name for the thing itself."""
        at = self._folders.refresh(layout.QUARANTINE)
        why = dumps({"name": ascii(os.fsdecode(found))[1:-1], "reason": reason.encode(errors="replace").decode()})
        for kept in self._free_names(found, at):
            try:
                self._fs.create(kept + SUFFIX, why.encode() + b"\n", at=at, sync=sync)
            except FileExistsError:  # whoever writes here is not the host
                continue
            if sync:
                self._fs.sync(at)
            return kept
        raise AssertionError("the numbers never end")

    def _free_names(self, found: bytes, at: int) -> Iterator[str]:
        if self._next is None:
            heads = [int(match[1]) for name in self._fs.names(at) if (match := _NUMBERED.match(name))]
            self._next = max((head for head in heads if head < _LAST), default=0) + 1
        while True:
            kept = layout.quarantine_name(self._next, found)
            self._next += 1
            try:
                self._fs.stat(kept, at=at)
            except FileNotFoundError:
                yield kept
