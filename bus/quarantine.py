"""What is not what its place asks for: moved aside with the reason beside it, never read again, never lost."""

from __future__ import annotations

import os

from bus import layout
from bus._fs import FileSystem
from bus.contract import Quarantined
from bus.folders import Folders
from bus.wire import dumps

SUFFIX = ".why"


class Quarantine:
    """`quarantine/<number>-<name>` and `….why`. One writer: the host."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._next: int | None = None

    @property
    def _fs(self) -> FileSystem:
        return self._folders.fs

    def take(self, name: str, at: int, reason: str) -> Quarantined:
        """Move a thing here, whatever it is. The reason is written first, so that nothing lies here unexplained."""
        found = os.fsencode(name)
        kept = self._explain(found, reason)
        try:
            self._fs.rename(found, at, kept, self._folders.fd(layout.QUARANTINE))
        except FileNotFoundError:  # its owner took it back meanwhile
            self._fs.discard(kept + SUFFIX, self._folders.fd(layout.QUARANTINE))
        return Quarantined(kept, reason)

    def keep(self, name: str, data: bytes, reason: str, *, sync: bool) -> Quarantined:
        """Keep bytes that were found inside a file; they survive a power cut if `sync`."""
        kept = self._explain(name.encode(), reason)
        self._fs.create(kept, data, at=self._folders.fd(layout.QUARANTINE), sync=sync)
        return Quarantined(kept, reason)

    def _explain(self, found: bytes, reason: str) -> str:
        at = self._folders.refresh(layout.QUARANTINE)
        if self._next is None:
            heads = (name[:8] for name in self._fs.names(at))
            self._next = 1 + max((int(head) for head in heads if head.isascii() and head.isdigit()), default=0)
        kept = layout.quarantine_name(self._next, found)
        self._next += 1
        why = dumps({"name": ascii(os.fsdecode(found))[1:-1], "reason": reason.encode(errors="replace").decode()})
        self._fs.create(kept + SUFFIX, why.encode() + b"\n", at=at)
        return kept
