"""The system calls of the bus, and nothing else. All access to its files goes through a `FileSystem`.

The first half are the calls themselves, one method each: a test replaces them by a double that fails or "crashes" at
the n-th call. The second half puts them together; it is the only code that decides in which order files appear.
Every name is relative to a directory's descriptor and has one component, so that no symbolic link is ever followed;
no call waits for a foreign hand (FIFOs and devices are opened without blocking, and refused).
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
from collections.abc import Iterator

from bus.process import SHORTAGES, boot_id

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_WHY_UNWRITABLE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the limit on the size of files (ulimit -f) is reached",
    errno.EROFS: "the file system is read-only",
}

NO_SPACE = frozenset(_WHY_UNWRITABLE)
"""Errors of a disk that is full or cannot be written now, and may be again."""

_PASSING = NO_SPACE | SHORTAGES | {errno.EINTR, errno.EBUSY, errno.ESTALE}

NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""Errors of `link` on a file system that has none."""

_FOREIGN = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENODEV})
"""Errors of `open` that say what the thing is, and will not pass."""


class Refused(Exception):
    """A name holds something that is not what its place asks for; the text says what."""


class Withheld(Refused):
    """A name holds something that we may not open, or that is somebody else's: what is in it may be right."""


def passes(error: OSError) -> bool:
    """Tell whether what failed is worth trying again: the disk cannot be written now, or something ran short.

    Nothing may be concluded from such an error but that it is too early to conclude anything.
    """
    return error.errno in _PASSING


def why(error: OSError) -> str:
    """Say in words what is in the way."""
    return _WHY_UNWRITABLE.get(error.errno or 0) or error.strerror or str(error)


class FileSystem:
    """The real one. It has no state."""

    # --- the calls --------------------------------------------------------------------------------------------------

    def open(self, name: str | bytes, flags: int, mode: int = 0o600, *, at: int | None = None) -> int:
        """`openat`."""
        return os.open(name, flags, mode, dir_fd=at)

    def close(self, fd: int) -> None:
        """`close`."""
        os.close(fd)

    def read(self, fd: int, size: int) -> bytes:
        """`read`."""
        return os.read(fd, size)

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        """`pread`."""
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes) -> int:
        """`write`: returns how much was written, perhaps less than all."""
        return os.write(fd, data)

    def stat_fd(self, fd: int) -> os.stat_result:
        """`fstat`."""
        return os.fstat(fd)

    def stat(self, name: str | bytes, *, at: int | None = None) -> os.stat_result:
        """`fstatat`, not following a link."""
        return os.stat(name, dir_fd=at, follow_symlinks=False)

    def space(self, fd: int) -> os.statvfs_result:
        """`fstatvfs`."""
        return os.statvfs(fd)

    def sync(self, fd: int) -> None:
        """`fsync`."""
        os.fsync(fd)

    def sync_data(self, fd: int) -> None:
        """`fdatasync`."""
        getattr(os, "fdatasync", os.fsync)(fd)

    def truncate(self, fd: int, size: int) -> None:
        """`ftruncate`."""
        os.ftruncate(fd, size)

    def link(self, name: str, at: int, new: str, new_at: int) -> None:
        """`linkat`: never replaces `new`."""
        os.link(name, new, src_dir_fd=at, dst_dir_fd=new_at, follow_symlinks=False)

    def rename(self, name: str | bytes, at: int, new: str, new_at: int) -> None:
        """`renameat`: replaces `new`."""
        os.rename(name, new, src_dir_fd=at, dst_dir_fd=new_at)  # noqa: TID251  (this is the one place)

    def unlink(self, name: str, at: int) -> None:
        """`unlinkat`."""
        os.unlink(name, dir_fd=at)

    def rmdir(self, name: str, at: int) -> None:
        """`unlinkat` of an empty folder."""
        os.rmdir(name, dir_fd=at)

    def mkdir(self, name: str, mode: int = 0o700, *, at: int | None = None) -> None:
        """`mkdirat`."""
        os.mkdir(name, mode, dir_fd=at)

    def chmod_fd(self, fd: int, mode: int) -> None:
        """`fchmod`."""
        os.fchmod(fd, mode)

    def chmod(self, name: str, mode: int, *, at: int | None = None) -> None:
        """`fchmodat`. Follows a link, so only for what was just made or looked at."""
        os.chmod(name, mode, dir_fd=at)

    def touch(self, name: str, at: int) -> None:
        """`utimensat` to now."""
        os.utime(name, dir_fd=at, follow_symlinks=False)

    def names(self, fd: int) -> list[str]:
        """The names in a directory, in no order. Bytes that are no UTF-8 come as surrogates."""
        with os.scandir(fd) as entries:
            return [entry.name for entry in entries]

    def lock(self, fd: int, *, shared: bool = False) -> bool:
        """`flock` without waiting; False where another holds it."""
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock_mutex(self, fd: int) -> bool:
        """Lock for ourselves without waiting, for other programs as well that use the library `filelock` on the file;
        False where another holds it. The library is loaded at the first call: who locks nothing does without it."""
        from filelock import lock_descriptor

        return lock_descriptor(fd, blocking=False)

    def pause(self, seconds: float) -> None:
        """Wait a moment (a reader that only looked may have held a lock)."""
        select.select([], [], [], seconds)

    def boot(self) -> str:
        """The id of this boot of the machine. What was not synced in another boot may be lost or torn."""
        return boot_id()

    # --- put together -----------------------------------------------------------------------------------------------

    def open_directory(self, name: str, *, at: int | None = None) -> int:
        """Open a folder; OSError where it is missing, a link, or no folder."""
        return self.open(name, _DIRECTORY, at=at)

    def create_directory(self, name: str, *, at: int | None = None) -> None:
        """Make a folder that was not there, open to us and to nobody else, whatever the umask is."""
        self.mkdir(name, at=at)
        self.chmod(name, 0o700, at=at)

    def make_directory(self, name: str, *, at: int) -> None:
        """Make a folder unless something of its name is there."""
        try:
            self.create_directory(name, at=at)
        except FileExistsError:
            found = self.stat(name, at=at)
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if ours and found.st_mode & 0o700 != 0o700:  # made under a umask that took our own rights, then killed
                self.chmod(name, 0o700, at=at)

    def open_regular(self, name: str | bytes, *, at: int, flags: int = 0) -> tuple[int, os.stat_result]:
        """Open a file and make sure that it is a regular one and our own.

        Raises Refused for anything else, FileNotFoundError, and OSError for errors that may pass.
        """
        try:
            fd = self.open(name, _READ | flags, at=at)
        except OSError as error:
            if error.errno in _FOREIGN:
                kind = Withheld if error.errno in (errno.EACCES, errno.EPERM) else Refused
                raise kind(f"cannot be opened as a file: {os.strerror(error.errno)}") from error
            raise
        try:
            found = self.stat_fd(fd)
            if not stat.S_ISREG(found.st_mode):
                raise Refused("not a regular file")
            if found.st_uid != os.geteuid():
                raise Withheld(f"belongs to user {found.st_uid}")
        except BaseException:
            self.close(fd)
            raise
        return fd, found

    def read_file(self, name: str | bytes, *, at: int, cap: int) -> bytes:
        """Return a whole file of at most `cap` bytes; errors as of `open_regular`, Refused also where it is longer."""
        fd, found = self.open_regular(name, at=at)
        try:
            if found.st_size > cap:
                raise Refused(f"{found.st_size} bytes, more than {cap}")
            data = self.read(fd, found.st_size + 1)
            while 0 < len(data) < found.st_size:
                more = self.read(fd, found.st_size - len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            self.close(fd)

    def read_chunks(self, fd: int, offset: int, size: int = 1 << 18) -> Iterator[bytes]:
        """Yield the bytes from `offset` to the end."""
        while chunk := self.read_at(fd, size, offset):
            yield chunk
            offset += len(chunk)

    def write_all(self, fd: int, data: bytes) -> None:
        """Write the whole of `data` with one call. A short write is an error, and the caller has to undo it.

        A short write does not say why. The rest is written once more only to learn that: what is in the way now says
        so itself. Raises OSError.
        """
        written = self.write(fd, data)
        if written != len(data):
            self.write(fd, data[written:])
            raise OSError(errno.ENOSPC, "short write")

    def create(self, name: str, data: bytes, *, at: int, sync: bool = False, mode: int = 0o600) -> None:
        """Make a file that was not there, with all of `data`; a short write is an error. FileExistsError if there."""
        fd = self.open(name, _CREATE, mode, at=at)
        try:
            try:
                self.chmod_fd(fd, mode)  # the umask may take rights away, even our own
                if data:
                    self.write_all(fd, data)
                if sync:
                    self.sync(fd)
            finally:
                self.close(fd)
        except OSError:
            self.discard(name, at)
            raise

    def append(self, name: str, data: bytes, *, at: int, size: int) -> None:
        """Add `data` to our own file of `size` bytes, whole or not at all."""
        fd = self.open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, at=at)
        try:
            self.write_all(fd, data)
        except OSError:
            self.truncate(fd, size)
            raise
        finally:
            self.close(fd)

    def publish(
        self,
        scratch: str,
        scratch_at: int,
        name: str,
        at: int,
        data: bytes,
        *,
        sync: bool = False,
        contested: bool = False,
    ) -> bool:
        """Let a file appear whole under a final name; False where that name is taken. Survives a power cut if `sync`.

        `scratch` is the writer's own name; what an earlier, cut-off call left there is thrown away. Where the file
        system has no hard links the file is renamed into place: as whole, but only a look before tells whether the name
        is taken. That is enough for a name that nobody else can make; `contested` says that others may.
        """
        scratch = self._scratch(scratch, scratch_at, data, sync=sync)
        made = self.put(scratch, scratch_at, name, at, contested=contested)
        if sync:  # also where the name was taken: whoever made it may have been killed before this
            self.sync(at)
        return made

    def put(self, scratch: str, scratch_at: int, name: str, at: int, *, contested: bool = False) -> bool:
        """Give a finished scratch file its final name, as `publish` does; False where that is taken. In any case the
        scratch name is gone."""
        try:
            self.link(scratch, scratch_at, name, at)
            return True
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            move = self._guarded if contested else self._move
            return move(scratch, scratch_at, name, at)
        finally:
            self.discard(scratch, scratch_at)

    def _move(self, scratch: str, scratch_at: int, name: str, at: int) -> bool:
        """Rename into place unless the name is taken."""
        try:
            self.stat(name, at=at)
        except FileNotFoundError:
            self.rename(scratch, scratch_at, name, at)
            return True
        return False

    def _guarded(self, scratch: str, scratch_at: int, name: str, at: int) -> bool:
        """Rename into place while a hidden name, made with O_EXCL, keeps all others from doing the same.

        The guard of a writer that died here keeps the name taken for good: its file may or may not have appeared.
        """
        guard = f".{name}"
        try:
            self.create(guard, b"", at=at)
        except FileExistsError:
            return False
        made = self._move(scratch, scratch_at, name, at)
        self.unlink(guard, at)
        return made

    def replace(
        self, scratch: str, scratch_at: int, name: str, at: int, data: bytes, *, sync: bool = False, mode: int = 0o600
    ) -> None:
        """Put a whole file in the place of another, or of none. OSError (EISDIR) where a folder is in the way."""
        scratch = self._scratch(scratch, scratch_at, data, sync=sync, mode=mode)
        try:
            self.rename(scratch, scratch_at, name, at)
        except OSError:
            self.discard(scratch, scratch_at)
            raise
        if sync:
            self.sync(at)

    def _scratch(self, name: str, at: int, data: bytes, *, sync: bool, mode: int = 0o600) -> str:
        """Make a scratch file and return its name: another one where a foreign folder has the wanted name."""
        try:
            self.create(name, data, at=at, sync=sync, mode=mode)
        except FileExistsError:
            try:
                self.discard(name, at)
            except OSError:
                if not self.is_folder(name, at):
                    raise
                name = f"{name}.{os.urandom(4).hex()}"
            self.create(name, data, at=at, sync=sync, mode=mode)
        return name

    def is_folder(self, name: str | bytes, at: int) -> bool:
        """Tell whether a name holds a folder; not where that cannot be found out."""
        try:
            return stat.S_ISDIR(self.stat(name, at=at).st_mode)
        except OSError:
            return False

    def discard(self, name: str, at: int) -> bool:
        """Remove a file; False where it was not there."""
        try:
            self.unlink(name, at)
        except FileNotFoundError:
            return False
        return True

    def remove_folder(self, name: str, at: int) -> None:
        """Remove a folder and the files in it."""
        fd = self.open_directory(name, at=at)
        try:
            for inner in self.names(fd):
                self.unlink(inner, fd)
        finally:
            self.close(fd)
        self.rmdir(name, at)
