"""Files and folders of the model disk, each with what is seen now and what a power cut cannot take any more.

Nothing here is promised that POSIX does not promise: an `fsync` of a file keeps its bytes and not its name, an `fsync`
of a folder keeps the names in it and not the bytes behind them. A rename is one step, as on every journaled file
system; apart from that the changes of a folder may reach the disk in any combination.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from conductor.testing.disk.faults import error

BLOCK = 64
"""Bytes that reach the disk together. Small, so that short journals are torn inside as long ones are."""


@dataclass(slots=True, eq=False)
class OpenFile:
    """An open file description: what descriptors of one or several processes share, and what holds a lock."""

    node: Node
    flags: int
    holders: int = 1
    """Descriptors that refer to it."""
    offset: int = 0


@dataclass(slots=True, eq=False)
class File:
    """A regular file."""

    number: int
    mode: int
    touched: int
    """Its mtime, in ticks of the disk."""
    links: int = 0
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    """What was synced."""
    lost: tuple[int, int] = (0, 0)
    """Where bytes stand (first, behind the last) that a failed sync has dropped: seen, and written by no later sync."""
    locks: dict[OpenFile, bool] = field(default_factory=dict)
    """Who holds it; True where the lock is shared."""

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self.data)

    @property
    def type(self) -> int:
        """Type and permissions, as `st_mode` has them."""
        return stat.S_IFREG | self.mode

    def sync(self) -> None:
        """Make the bytes durable."""
        first, end = self.lost
        end = min(end, len(self.data))
        self.durable = bytes(self.data)
        if first < end:
            self.durable = self.durable[:first] + bytes(end - first) + self.durable[end:]

    def drop(self) -> None:
        """A sync failed: the kernel takes for written what is not."""
        if self.data != self.durable:
            first = agreement(self.durable, self.data)
            self.lost = (min(first, self.lost[0]) if self.lost[1] else first, len(self.data))

    def rewrite(self, first: int, end: int) -> None:
        """Bytes are written anew, or cut off: they are no longer among the lost."""
        start, behind = self.lost
        if first <= start:
            start = max(start, end)
        elif end >= behind:
            behind = min(behind, first)
        self.lost = (start, behind) if start < behind else (0, 0)

    def lose_power(self, random: Random) -> None:
        """Keep what was synced, and of the rest whatever the disk had got to."""
        self.data = bytearray(torn(random, self.durable, bytes(self.data)))
        self.durable = bytes(self.data)
        self.lost = (0, 0)


@dataclass(slots=True, eq=False)
class Folder:
    """A directory."""

    number: int
    mode: int
    touched: int
    parent: Folder | None
    names: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[Change] = field(default_factory=list)
    """Changes that no sync has made durable, oldest first."""
    by_name: dict[str, list[Change]] = field(default_factory=dict)
    """The same by the names that they change, without those that are durable."""
    locks: dict[OpenFile, bool] = field(default_factory=dict)
    removed: bool = False
    """It is open somewhere, and has no name any more: nothing can be made in it."""

    size = 4096

    @property
    def links(self) -> int:
        """Names of it, `.` included."""
        return 0 if self.removed else 2

    @property
    def type(self) -> int:
        """Type and permissions, as `st_mode` has them."""
        return stat.S_IFDIR | self.mode

    def sync(self) -> None:
        """Make the names durable, and whatever must come before them."""
        for change in self.pending:
            change.settle()
        self.pending.clear()
        self.by_name.clear()

    def lose_power(self) -> None:
        """Forget what is not durable."""
        self.names = dict(self.durable)
        self.pending.clear()
        self.by_name.clear()


Node: TypeAlias = File | Folder


@dataclass(slots=True, eq=False)
class Change:
    """What one call did to names: a link, an unlink, or both sides of a rename, which come together or not at all."""

    parts: tuple[tuple[Folder, str, Node | None], ...]
    """(folder, name, what the name means now; None: it is gone)."""
    settled: bool = False

    def make(self) -> None:
        """Let it be seen."""
        for folder, name, node in self.parts:
            if node is None:
                del folder.names[name]
            else:
                folder.names[name] = node
            folder.pending.append(self)
            folder.by_name.setdefault(name, []).append(self)

    def settle(self) -> None:
        """Make it durable, after what happened to the same names before."""
        if self.settled:
            return
        self.settled = True
        for folder, name, node in self.parts:
            line = folder.by_name.get(name, [])
            for earlier in list(line):
                if earlier is self:
                    break
                earlier.settle()
            folder.by_name[name] = [change for change in line if not change.settled]
            if node is None:
                folder.durable.pop(name, None)
            else:
                folder.durable[name] = node


def check_there(folder: Folder, name: str) -> None:
    """Raise where no name can be made, because the folder itself has none any more."""
    if folder.removed:
        raise error(errno.ENOENT, name)


def walk(folder: Folder) -> Iterator[Node]:
    """Yield everything below a folder; a file with two names twice."""
    for node in folder.names.values():
        yield node
        if isinstance(node, Folder):
            yield from walk(node)


def agreement(a: bytes | bytearray, b: bytes | bytearray) -> int:
    """Return how many bytes two contents have in common at their beginning."""
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return shorter
    return next(at for at in range(shorter) if a[at] != b[at])


def torn(random: Random, durable: bytes, current: bytes) -> bytes:
    """Return what may be found after a power cut: `durable` where the two agree; elsewhere, block by block, the one,
    the other, or zeros; the end at any byte between the two lengths."""
    same = agreement(durable, current)
    kind = random.choice(("nothing", "everything", "cut", "blocks"))
    if kind == "nothing":
        return durable
    if kind == "everything":
        return current
    if kind == "cut" and len(current) > same:
        return current[: random.randint(same, len(current))]
    size = random.choice((len(durable), len(current), random.randint(same, max(len(durable), len(current)))))
    found = bytearray(durable[:same])
    while len(found) < size:
        end = min(size, (len(found) // BLOCK + 1) * BLOCK)
        source = random.choice((durable, current, b""))
        found += source[len(found) : end].ljust(end - len(found), b"\0")
    return bytes(found)
