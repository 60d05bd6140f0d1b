"""A process on the model disk: every system call of `bus._fs.FileSystem`, in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from bus._fs import FileSystem
from conductor.testing.disk.faults import error
from conductor.testing.disk.inodes import Change, File, Folder, Node, OpenFile, check_there

if TYPE_CHECKING:
    from conductor.testing.disk.model import ModelDisk

_WRITING = os.O_WRONLY | os.O_RDWR
_OWNER = os.geteuid()


class Killed(BaseException):
    """The process is gone; nothing after this call happened. No error, so nothing of the program may catch it."""


class ModelProcess(FileSystem):
    """One process: its descriptors, its locks, and when it dies. Made by `ModelDisk.process`."""

    def __init__(self, disk: ModelDisk, name: str) -> None:
        self.disk = disk
        self.name = name
        self.calls = 0
        """Calls so far."""
        self.dies_at = 0
        """Number of the call at which it is killed; 0: none. Half of a write is done then, of all else nothing."""
        self.before: Callable[[ModelProcess, str], None] | None = None
        """Called before each call with its name (`append` for a write that appends); it may let others go on, kill
        anybody, or raise an error."""
        self.dead = False
        self._named: tuple[str | bytes, ...] = ()
        self.open_files: dict[int, OpenFile] = {}

    @property
    def about(self) -> str:
        """What the newest call that named something named."""
        return " ".join(map(os.fsdecode, self._named))

    # --- life and descriptors ---------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End it: its descriptors and locks go, all else stays."""
        self.dead = True
        while self.open_files:
            self._drop(self.open_files.popitem()[1])

    def give(self, fd: int, other: ModelProcess) -> int:
        """Pass a descriptor on, as over a socket: both have it, and its lock, until both have closed it."""
        description = self._of(fd)
        description.holders += 1
        return other._add(description)

    def _enter(self, call: str, *names: str | bytes) -> None:
        if self.dead:
            raise Killed
        self.calls += 1
        if names:
            self._named = names
        if self.calls == self.dies_at:
            self.kill()
            raise Killed
        if self.before is not None:
            self.before(self, call)
            if self.dead:
                raise Killed

    def _add(self, description: OpenFile) -> int:
        fd = self.disk.next_descriptor()
        self.open_files[fd] = description
        return fd

    def _of(self, fd: int) -> OpenFile:
        found = self.open_files.get(fd)
        if found is None:
            raise error(errno.EBADF)
        return found

    def _file(self, fd: int) -> File:
        node = self._of(fd).node
        if isinstance(node, Folder):
            raise error(errno.EISDIR)
        return node

    def _readable(self, fd: int) -> File:
        if self._of(fd).flags & os.O_WRONLY:
            raise error(errno.EBADF)
        return self._file(fd)

    def _drop(self, description: OpenFile) -> None:
        description.holders -= 1
        if description.holders == 0:
            description.node.locks.pop(description, None)

    def _folder(self, at: int | None) -> Folder:
        if at is None:
            return self.disk.root
        node = self._of(at).node
        if isinstance(node, File):
            raise error(errno.ENOTDIR)
        return node

    def _place(self, name: str | bytes, at: int | None) -> tuple[Folder, str]:
        """Return the folder of a path's last component, and that component."""
        text = name if isinstance(name, str) else os.fsdecode(name)
        folder = self._folder(at)
        if "/" in text:
            *above, text = text.strip("/").split("/")
            for part in above:
                inner = folder.names.get(part)
                if inner is None:
                    raise error(errno.ENOENT, name)
                if isinstance(inner, File):
                    raise error(errno.ENOTDIR, name)
                folder = inner
        if len(text) > 63 and len(os.fsencode(text)) > 255:
            raise error(errno.ENAMETOOLONG, name)
        return folder, text

    def _node(self, name: str | bytes, at: int | None) -> Node:
        folder, leaf = self._place(name, at)
        node = folder.names.get(leaf) if leaf else folder
        if node is None:
            raise error(errno.ENOENT, name)
        return node

    # --- the calls --------------------------------------------------------------------------------------------------

    def open(self, name: str | bytes, flags: int, mode: int = 0o600, *, at: int | None = None) -> int:
        """`openat`."""
        self._enter("open", name)
        folder, leaf = self._place(name, at)
        node = folder.names.get(leaf) if leaf else folder
        if node is None:
            if not flags & os.O_CREAT:
                raise error(errno.ENOENT, name)
            node = self.disk.make_file(folder, leaf, mode)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise error(errno.EEXIST, name)
        elif isinstance(node, File) and flags & os.O_DIRECTORY:
            raise error(errno.ENOTDIR, name)
        elif flags & _WRITING:
            if isinstance(node, Folder):
                raise error(errno.EISDIR, name)
            self.disk.faults.check_change()
        return self._add(OpenFile(node, flags))

    def close(self, fd: int) -> None:
        """`close`. The dead have closed everything: what unwinds in them is no call, and their next one tells."""
        if self.dead:
            return
        with suppress(Killed):
            self._enter("close")
            self._of(fd)
            self._drop(self.open_files.pop(fd))

    def read(self, fd: int, size: int) -> bytes:
        """`read`."""
        self._enter("read")
        file, description = self._readable(fd), self._of(fd)
        data = bytes(file.data[description.offset : description.offset + size])
        description.offset += len(data)
        return data

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        """`pread`."""
        self._enter("read_at")
        return bytes(self._readable(fd).data[offset : offset + size])

    def write(self, fd: int, data: bytes) -> int:
        """`write`: returns how much was written, perhaps less than all."""
        if self.dead:
            raise Killed
        description, boots = self._of(fd), self.disk.boots
        try:
            self._enter("append" if description.flags & os.O_APPEND else "write")
        except Killed:
            if self.disk.boots == boots:  # killed in the middle of it
                self._put(description, data[: len(data) // 2])
            raise
        return self._put(description, data)

    def _put(self, description: OpenFile, data: bytes) -> int:
        if not description.flags & _WRITING:
            raise error(errno.EBADF)
        file = description.node
        if isinstance(file, Folder):
            raise error(errno.EISDIR)
        taken = self.disk.faults.admit(len(data))
        start = len(file.data) if description.flags & os.O_APPEND else description.offset
        file.data += bytes(max(0, start - len(file.data)))
        file.data[start : start + taken] = data[:taken]
        file.rewrite(start, start + taken)
        description.offset = start + taken
        self.disk.changed(file)
        return taken

    def stat_fd(self, fd: int) -> os.stat_result:
        """`fstat`."""
        self._enter("stat_fd")
        return _stat(self._of(fd).node)

    def stat(self, name: str | bytes, *, at: int | None = None) -> os.stat_result:
        """`fstatat`."""
        self._enter("stat", name)
        return _stat(self._node(name, at))

    def space(self, fd: int) -> os.statvfs_result:
        """`fstatvfs`. Blocks are single bytes here."""
        self._enter("space")
        faults = self.disk.faults
        room = 1 << 40 if faults.room is None else faults.room
        names = 0 if faults.no_names else 1 << 20
        flags = os.ST_RDONLY if faults.read_only else 0
        return os.statvfs_result((1, 1, 1 << 41, room, room, 1 << 21, names, names, flags, 255))

    def sync(self, fd: int) -> None:
        """`fsync`."""
        self._enter("sync")
        self._sync(fd, data=False)

    def sync_data(self, fd: int) -> None:
        """`fdatasync`. It keeps the length too, as everywhere."""
        self._enter("sync_data")
        self._sync(fd, data=True)

    def _sync(self, fd: int, *, data: bool) -> None:
        node = self._of(fd).node
        if self.disk.faults.sync_fails(data=data):
            if isinstance(node, File):
                node.drop()
            raise error(errno.EIO)
        node.sync()

    def truncate(self, fd: int, size: int) -> None:
        """`ftruncate`."""
        self._enter("truncate")
        if not self._of(fd).flags & _WRITING:
            raise error(errno.EINVAL)
        self.disk.faults.check_change()
        file = self._file(fd)
        self.disk.faults.free(len(file.data) - size)
        file.rewrite(size, len(file.data))
        file.data[size:] = bytes(max(0, size - len(file.data)))
        self.disk.changed(file)

    def link(self, name: str, at: int, new: str, new_at: int) -> None:
        """`linkat`: never replaces `new`."""
        self._enter("link", name, new)
        node = self._node(name, at)
        folder, leaf = self._place(new, new_at)
        if leaf in folder.names:
            raise error(errno.EEXIST, new)
        check_there(folder, new)
        if isinstance(node, Folder) or self.disk.faults.no_links:
            raise error(errno.EPERM, name)
        self.disk.faults.check_name()
        node.links += 1
        self.disk.change(Change(((folder, leaf, node),)), self)

    def rename(self, name: str | bytes, at: int, new: str, new_at: int) -> None:
        """`renameat`: replaces `new`."""
        self._enter("rename", name, new)
        source, old = self._place(name, at)
        target, leaf = self._place(new, new_at)
        node, replaced = self._node(name, at), target.names.get(leaf)
        if node in _upwards(target):
            raise error(errno.EINVAL, new)
        if replaced in _upwards(source):
            raise error(errno.ENOTEMPTY, new)
        if replaced is node:
            return
        if isinstance(replaced, Folder) and (isinstance(node, File) or replaced.names):
            raise error(errno.EISDIR if isinstance(node, File) else errno.ENOTEMPTY, new)
        if isinstance(replaced, File) and isinstance(node, Folder):
            raise error(errno.ENOTDIR, new)
        self.disk.faults.check_name()
        check_there(target, new)
        if isinstance(replaced, File):
            self.disk.unlinked(replaced)
        elif replaced is not None:
            replaced.removed = True
        if isinstance(node, Folder):
            node.parent = target
        self.disk.change(Change(((source, old, None), (target, leaf, node))), self)

    def unlink(self, name: str, at: int) -> None:
        """`unlinkat`."""
        self._enter("unlink", name)
        node = self._node(name, at)
        if isinstance(node, Folder):
            raise error(errno.EISDIR, name)
        self.disk.faults.check_change()
        self.disk.unlinked(node)
        self.disk.change(Change(((*self._place(name, at), None),)), self)

    def rmdir(self, name: str, at: int) -> None:
        """`unlinkat` of an empty folder."""
        self._enter("rmdir", name)
        node = self._node(name, at)
        if isinstance(node, File):
            raise error(errno.ENOTDIR, name)
        if node.names:
            raise error(errno.ENOTEMPTY, name)
        self.disk.faults.check_change()
        node.removed = True
        self.disk.change(Change(((*self._place(name, at), None),)), self)

    def mkdir(self, name: str, mode: int = 0o700, *, at: int | None = None) -> None:
        """`mkdirat`."""
        self._enter("mkdir", name)
        folder, leaf = self._place(name, at)
        if leaf in folder.names:
            raise error(errno.EEXIST, name)
        self.disk.faults.check_name()
        check_there(folder, leaf)
        made = Folder(self.disk.next_number(), mode, self.disk.tick(), folder)
        self.disk.change(Change(((folder, leaf, made),)), self)

    def chmod_fd(self, fd: int, mode: int) -> None:
        """`fchmod`."""
        self._enter("chmod_fd")
        self.disk.faults.check_change()
        self._of(fd).node.mode = mode

    def chmod(self, name: str, mode: int, *, at: int | None = None) -> None:
        """`fchmodat`."""
        self._enter("chmod", name)
        node = self._node(name, at)
        self.disk.faults.check_change()
        node.mode = mode

    def touch(self, name: str, at: int) -> None:
        """`utimensat` to now."""
        self._enter("touch", name)
        node = self._node(name, at)
        self.disk.faults.check_change()
        node.touched = self.disk.tick()

    def names(self, fd: int) -> list[str]:
        """The names in a directory, in no order."""
        self._enter("names")
        return self.disk.listing(self._folder(fd), self)

    def lock(self, fd: int, *, shared: bool = False) -> bool:
        """`flock` without waiting; False where another holds it."""
        self._enter("lock")
        description = self._of(fd)
        locks = description.node.locks
        others = (other for holder, other in locks.items() if holder is not description)
        if any(not (shared and theirs) for theirs in others):
            locks.pop(description, None)  # a lock is converted by giving it up first
            return False
        locks[description] = shared
        return True

    def lock_mutex(self, fd: int) -> bool:
        """As `lock`."""
        return self.lock(fd)

    def boot(self) -> str:
        """The id of this boot of the machine: another one after each power cut."""
        self._enter("boot")
        return f"boot-{self.disk.boots}"

    def pause(self, seconds: float) -> None:
        """Wait a moment: others may go on."""
        self._enter("pause")
        self.disk.passes(seconds)


def _upwards(folder: Folder) -> list[Node | None]:
    """The folder, the one above it, and so on."""
    found: list[Node | None] = []
    above: Folder | None = folder
    while above is not None:
        found.append(above)
        above = above.parent
    return found


def _stat(node: Node) -> os.stat_result:
    time = node.touched
    return os.stat_result(
        (node.type, node.number, 1, node.links, _OWNER, 0, node.size, time, time, time),
        {"st_atime_ns": time, "st_mtime_ns": time, "st_ctime_ns": time},
    )
