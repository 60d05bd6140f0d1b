"""The directories of one bus, as descriptors: each opened once, all relative to the root's."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from typing import Protocol

from bus import layout
from bus._fs import FileSystem, passes, why
from bus.errors import BusError, BusGone, BusUnsafe, FolderReplaced
from bus.wire import AttemptId


class Evict(Protocol):
    """Sets something foreign aside."""

    def __call__(self, name: str, at: int, reason: str) -> None:
        """Move what has this name, in the folder open as `at`, to quarantine."""


class Folders:
    """Opens the folders of a bus when they are first used. Not thread-safe; shared over a fork."""

    def __init__(self, fs: FileSystem, path: str, root: int) -> None:
        self.fs = fs
        self.path = path
        self.root = root
        self.evict: Evict | None = None
        """Takes away what stands in a folder's place, so that it can be made anew; only the host does that."""
        self._open: dict[str, int] = {"": root}
        self._identity: dict[str, tuple[int, int]] = {}

    def fd(self, name: str) -> int:
        """Return the descriptor of a folder of `layout.FOLDERS`. Raises BusGone where it is missing, FolderReplaced,
        BusError, and OSError for what passes.

        Where it may evict, what stands in the place of the folder is set aside, and the folder made anew.
        """
        fd = self._open.get(name)
        if fd is None:
            parent, _, leaf = name.rpartition("/")
            fd = self._open[name] = self._enter(name, leaf, self.fd(parent))
        return fd

    def _enter(self, name: str, leaf: str, at: int) -> int:
        try:
            return self.fs.open_directory(leaf, at=at)
        except NotADirectoryError as error:
            if self.evict is not None:
                self._put_in_place(name, leaf, at)
                return self.fs.open_directory(leaf, at=at)
            hint = "`conductor run TRACK` puts it aside and makes the folder again"
            raise FolderReplaced(
                f"something else stands in the place of the folder {name}", path=self.path, hint=hint
            ) from error
        except FileNotFoundError as error:
            hint = "`conductor run TRACK` makes it again; if it was removed while in use, find out by what"
            raise BusGone(f"the bus has no folder {name}", path=self.path, hint=hint) from error
        except OSError as error:
            if passes(error):
                raise
            hint = "it must be a folder of the user who runs the conductor, with mode 0700: `ls -ld` shows what it is"
            text = f"the folder {name} cannot be opened: {error.strerror}"
            raise BusError(text, path=self.path, hint=hint) from error

    def _put_in_place(self, name: str, leaf: str, at: int) -> None:
        """Make a folder where something else stands. That moves to a name beside it first: it may be in the place of
        the quarantine itself."""
        assert self.evict is not None
        aside = f"{leaf}.{os.urandom(4).hex()}"
        self.fs.rename(leaf, at, aside, at)
        self._make_directory(leaf, at)
        self.evict(aside, at, f"stood in the place of the folder {name}")

    def find(self, name: str) -> int | None:
        """As `fd`, for who looks on; None where the folder is missing or something else stands in its place."""
        try:
            return self.fd(name)
        except (BusGone, FolderReplaced):
            return None

    def names(self, name: str) -> list[str]:
        """Return the names in a folder; none where there is no such folder now."""
        fd = self.find(name)
        return [] if fd is None else self.fs.names(fd)

    def shown(self, name: str) -> list[str]:
        """As `names`, for what is only shown; none also where the folder may not be opened."""
        try:
            return self.names(name)
        except BusError:
            return []

    def read(self, name: str, file: str, *, cap: int) -> bytes:
        """Return a whole file of a folder, as `FileSystem.read_file`; FileNotFoundError where there is no folder."""
        fd = self.find(name)
        if fd is None:
            raise FileNotFoundError(errno.ENOENT, "no folder", name)
        return self.fs.read_file(file, at=fd, cap=cap)

    def refresh(self, name: str) -> int:
        """Return the folder's descriptor after making sure that it is the one that `name` means now.

        A folder that somebody removed and made again, or only removed, is opened (and made) anew.
        """
        parent, _, leaf = name.rpartition("/")
        at = self.fd(parent)
        known = self._open.get(name)
        try:
            found = self.fs.stat(leaf, at=at)
        except FileNotFoundError:
            self._make_directory(leaf, at)
        else:
            if known is not None and identity(found) == self._identify(name, known):
                return known
            if self.evict is not None and not (stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()):
                self._put_in_place(name, leaf, at)
        if known is not None:
            self.fs.close(self._open.pop(name))
            self._identity.pop(name, None)
        return self.fd(name)

    def refresh_all(self, names: Iterable[str]) -> bool:
        """Refresh folders, parents first; tell whether one of them had been removed."""
        changed = False
        for name in names:
            before = self._identify(name, self.fd(name))
            changed |= self._identify(name, self.refresh(name)) != before
        return changed

    def _identify(self, name: str, fd: int) -> tuple[int, int]:
        if name not in self._identity:
            self._identity[name] = identity(self.fs.stat_fd(fd))
        return self._identity[name]

    def attempt(self, attempt: AttemptId) -> int:
        """Open the attempt's folder; the caller closes it. Raises FileNotFoundError where there is none."""
        try:
            return self.fs.open_directory(attempt, at=self.fd(layout.bucket_dir(attempt)))
        except (BusGone, FolderReplaced, NotADirectoryError) as error:  # or a link, or a file, in the place of either
            raise FileNotFoundError(errno.ENOENT, "no folder", attempt) from error

    def make(self, name: str) -> int:
        """Return the folder's descriptor, making the folder if it is missing."""
        if name not in self._open:
            parent, _, leaf = name.rpartition("/")
            self._make_directory(leaf, self.fd(parent))
        return self.fd(name)

    def _make_directory(self, leaf: str, at: int) -> None:
        try:
            self.fs.make_directory(leaf, at=at)
        except FileNotFoundError as error:  # the folder that we hold open has no name any more
            raise BusGone("the bus was removed while in use", path=self.path) from error

    def clear(self, name: str) -> bool:
        """Take a file out of the bus's own folder; tell whether nothing has its name now. Raises OSError.

        A folder in its place is set aside, where that is ours to do and possible.
        """
        try:
            self.fs.discard(name, self.root)
        except OSError:
            if not self.fs.is_folder(name, self.root):
                raise
            if self.evict is not None:
                self.evict(name, self.root, "a folder in the place of a file")
            return not self.fs.is_folder(name, self.root)
        return True

    def is_same_root(self) -> bool:
        """Tell whether the bus is still found under its path."""
        try:
            found = self.fs.stat(self.path)
        except OSError:
            return False
        return identity(found) == self._identify("", self.root)

    def close(self) -> None:
        """Close all of them."""
        for fd in self._open.values():
            self.fs.close(fd)
        self._open.clear()


def identity(found: os.stat_result) -> tuple[int, int]:
    """What tells one file from all others while somebody has it open."""
    return found.st_dev, found.st_ino


def open_folders(fs: FileSystem, path: str) -> Folders:
    """Open a bus that is there, after checking that nobody else can write it.

    Raises BusGone where there is none, BusUnsafe where it is not a directory of our own with mode 0700.
    """
    path = os.path.abspath(path)
    try:
        root = fs.open_directory(path)
    except FileNotFoundError as error:
        raise BusGone("there is no bus", path=path, hint="start `conductor run TRACK` first") from error
    except OSError as error:
        if passes(error):
            raise
        raise not_opened(path, error) from error
    try:
        if {layout.FORMAT, layout.JOURNAL, layout.EPOCHS}.isdisjoint(fs.names(root)):
            raise BusGone("there is no bus in this folder", path=path, hint="start `conductor run TRACK` first")
        check_root(fs.stat_fd(root), path)
    except BaseException:
        fs.close(root)
        raise
    return Folders(fs, path, root)


def not_opened(path: str, error: OSError) -> BusUnsafe:
    """The error that a bus is which cannot be opened, for a reason that does not pass."""
    if isinstance(error, PermissionError):
        hint = (
            f"it must be a folder of the user who runs the conductor, with mode 0700: `ls -ld {path}` shows what it is"
        )
        return BusUnsafe(f"the bus cannot be opened: {error.strerror}", path=path, hint=hint)
    hint = "look at what it is, and move it away; or name another place with --bus-dir"
    return BusUnsafe(f"the bus is not a directory: {error.strerror}", path=path, hint=hint)


def check_root(found: os.stat_result, path: str) -> None:
    """Raise BusUnsafe where the bus belongs to somebody else or is open to others."""
    check_owner(found, path)
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise BusUnsafe(f"others can reach into the bus (mode {mode:04o})", path=path, hint=f"chmod 700 {path}")


def check_owner(found: os.stat_result, path: str) -> None:
    """Raise BusUnsafe where the bus belongs to somebody else."""
    if found.st_uid != os.geteuid():
        hint = "run as that user, or name another place with --bus-dir"
        raise BusUnsafe(f"the bus belongs to user {found.st_uid}", path=path, hint=hint)


def check_parents(fs: FileSystem, path: str) -> None:
    """Raise BusUnsafe where somebody else could put another directory in the place of the bus, which need not be there.

    Folders that are still missing will be made by us, and for us alone.
    """
    parent = os.path.dirname(os.path.realpath(path))
    while True:
        mode = _mode(fs, parent)
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise BusUnsafe("everybody can write a folder above the bus", path=parent, hint=f"chmod o-w {parent}")
        if parent == os.path.dirname(parent):
            return
        parent = os.path.dirname(parent)


def _mode(fs: FileSystem, folder: str) -> int:
    """Return the mode of a folder above the bus; 0 where there is none."""
    try:
        return fs.stat(folder).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        hint = "make the folders above it readable for you, or name another place with --bus-dir"
        raise BusError(f"a folder above the bus cannot be looked at: {why(error)}", path=folder, hint=hint) from error
