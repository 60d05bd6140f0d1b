"""The disk: what its processes share, what a power cut leaves, and a look at it from outside."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from random import Random

from conductor.testing.disk.calls import ModelProcess
from conductor.testing.disk.faults import Faults, error
from conductor.testing.disk.inodes import Change, File, Folder, Node, check_there, walk


class ModelDisk:
    """A file system in memory with processes on it, for tests of crashes and power cuts.

    The same `random` gives the same: the order of listings, what a power cut leaves.
    """

    def __init__(self, random: Random | None = None) -> None:
        self.random = random or Random(0)
        self.faults = Faults()
        self.boots = 1
        """How often the machine was started."""
        self.late = 0.0
        """How likely a listing misses a name that another process has just made, from 0 to 1."""
        self.is_late: Callable[[str], bool] = lambda name: True
        """Which names that concerns."""
        self.passes: Callable[[float], object] = lambda seconds: None
        """Told how many seconds a process has waited."""
        self._numbers = 1
        self._descriptors = 2
        self._ticks = 0
        self.root = Folder(1, 0o755, 0, None)
        self.processes: list[ModelProcess] = []
        """Those that live."""
        self._dirty: dict[File, None] = {}
        self._changes: list[Change] = []
        self._fresh: dict[tuple[Folder, str], ModelProcess] = {}

    # --- processes and power ----------------------------------------------------------------------------------------

    def process(self, name: str = "process") -> ModelProcess:
        """Start a process; it is the file system that it sees."""
        self.processes = [one for one in self.processes if not one.dead]
        made = ModelProcess(self, name)
        self.processes.append(made)
        return made

    def crash_process(self, process: ModelProcess) -> None:
        """Kill it (SIGKILL): descriptors and locks go, all data stays."""
        process.kill()

    def power_cut(self, random: Random | None = None) -> None:
        """Kill everybody and lose what was not synced: bytes torn at any place or zeroed by block, names dropped in any
        combination. What was synced stays."""
        random = random or self.random
        self.boots += 1
        for process in self.processes:
            process.kill()
        share = random.choice((0.0, 0.5, 0.9, 1.0))
        for change in self._changes:
            if not change.settled and random.random() < share:
                change.settle()
        folders = {folder: None for change in self._changes for folder, _, _ in change.parts}
        for folder in folders:
            folder.lose_power()
        for file in self._dirty:
            file.lose_power(random)
        self._dirty.clear()
        self._changes.clear()
        self._fresh.clear()
        self._count_links()

    def _count_links(self) -> None:
        """Count the names anew: some came back, some went."""
        found: dict[File, int] = {}
        for node in walk(self.root):
            if isinstance(node, File):
                found[node] = found.get(node, 0) + 1
            else:
                node.removed = False
        for file, links in found.items():
            file.links = links

    # --- a look from outside ----------------------------------------------------------------------------------------

    def find(self, path: str) -> Node | None:
        """Return what an absolute path means; None where it means nothing."""
        node: Node | None = self.root
        for part in filter(None, path.split("/")):
            node = node.names.get(part) if isinstance(node, Folder) else None
        return node

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises FileNotFoundError."""
        return bytes(self._file(path).data)

    def durable(self, path: str) -> bytes:
        """Return what a power cut could not take of a file that is there now; its name may still be lost."""
        return self._file(path).durable

    def write(self, path: str, data: bytes) -> None:
        """Put bytes into a file, as a foreign hand does; it is made if it is missing."""
        head, _, leaf = path.rpartition("/")
        folder = self.find(head)
        if not isinstance(folder, Folder):
            raise error(errno.ENOENT, head)
        file = folder.names.get(leaf) or self.make_file(folder, leaf, 0o600)
        if isinstance(file, Folder):
            raise error(errno.EISDIR, path)
        file.data[:] = data
        self.changed(file)

    def files(self, path: str) -> dict[str, bytes]:
        """Return the files in a folder, each with its bytes; nothing where there is no such folder."""
        folder = self.find(path)
        names = folder.names if isinstance(folder, Folder) else {}
        return {name: bytes(node.data) for name, node in sorted(names.items()) if isinstance(node, File)}

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; none where there is no such folder."""
        folder = self.find(path)
        return sorted(folder.names) if isinstance(folder, Folder) else []

    def paths(self, path: str = "") -> Iterator[str]:
        """Yield the paths of all files below a folder."""
        folder = self.find(path)
        for name, node in sorted(folder.names.items()) if isinstance(folder, Folder) else ():
            if isinstance(node, File):
                yield f"{path}/{name}"
            else:
                yield from self.paths(f"{path}/{name}")

    def _file(self, path: str) -> File:
        node = self.find(path)
        if not isinstance(node, File):
            raise error(errno.ENOENT, path)
        return node

    # --- for the calls ----------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """A new inode's number."""
        self._numbers += 1
        return self._numbers

    def next_descriptor(self) -> int:
        """A descriptor that no process ever had: one that is used after its close is found out."""
        self._descriptors += 1
        return self._descriptors

    def tick(self) -> int:
        """The next moment, for mtimes."""
        self._ticks += 1
        return self._ticks

    def make_file(self, folder: Folder, name: str, mode: int) -> File:
        """Make an empty file."""
        self.faults.check_name()
        check_there(folder, name)
        file = File(self.next_number(), mode, self.tick(), links=1)
        self.change(Change(((folder, name, file),)), None)
        return file

    def changed(self, file: File) -> None:
        """Its bytes were written."""
        file.touched = self.tick()
        self._dirty[file] = None

    def unlinked(self, file: File) -> None:
        """It has a name less."""
        file.links -= 1
        if file.links == 0:
            self.faults.free(len(file.data))

    def change(self, change: Change, by: ModelProcess | None) -> None:
        """Change names."""
        change.make()
        self._changes.append(change)
        if self.late and by is not None:
            self._fresh.update(
                {(folder, name): by for folder, name, node in change.parts if node and self.is_late(name)}
            )

    def listing(self, folder: Folder, by: ModelProcess) -> list[str]:
        """Return the names in a folder in any order; a new one of another process may be missing, for a while."""
        names = list(folder.names)
        if self._fresh:
            names = [name for name in names if not self._is_late(folder, name, by)]
        self.random.shuffle(names)
        return names

    def _is_late(self, folder: Folder, name: str, by: ModelProcess) -> bool:
        maker = self._fresh.get((folder, name))
        if maker is None or maker is by:
            return False
        if self.random.random() < self.late:
            return True
        del self._fresh[folder, name]
        return False
