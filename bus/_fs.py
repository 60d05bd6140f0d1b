"""The system calls of the bus, and nothing else. All access to its files goes through a `FileSystem`.

The first half are the calls themselves, one method each: a test replaces them by a double that fails or "crashes" at
the n-th call. The second half puts them together; it is the only code that decides in which order files appear.
Every name is relative to a directory's descriptor and has one component, so that no symbolic link is ever followed;
no call waits for a foreign hand (FIFOs and devices are opened without blocking, and refused).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import stat
from collections.abc import Iterator

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""Errors of a disk that is full or cannot be written now, and may be again."""

_FOREIGN = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENODEV})
"""Errors of `open` that say what the thing is, and will not pass."""


class Refused(Exception):
    """A name holds something that is not what its place asks for; the text says what."""


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

    def stat(self, name: str, *, at: int | None = None) -> os.stat_result:
        """`fstatat`, not following a link."""
        return os.stat(name, dir_fd=at, follow_symlinks=False)

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

    def pause(self, seconds: float) -> None:
        """Wait a moment (a reader that only looked may have held a lock)."""
        select.select([], [], [], seconds)

    # --- put together -----------------------------------------------------------------------------------------------

    def open_directory(self, name: str, *, at: int | None = None) -> int:
        """Open a folder; OSError where it is missing, a link, or no folder."""
        return self.open(name, _DIRECTORY, at=at)

    def make_directory(self, name: str, *, at: int) -> None:
        """Make a folder unless it is there."""
        with contextlib.suppress(FileExistsError):
            self.mkdir(name, at=at)

    def open_regular(self, name: str | bytes, *, at: int, flags: int = 0) -> tuple[int, os.stat_result]:
        """Open a file and make sure that it is a regular one and our own.

        Raises Refused for anything else, FileNotFoundError, and OSError for errors that may pass.
        """
        try:
            fd = self.open(name, _READ | flags, at=at)
        except OSError as error:
            if error.errno in _FOREIGN:
                raise Refused(f"cannot be opened as a file: {os.strerror(error.errno)}") from error
            raise
        try:
            found = self.stat_fd(fd)
            if not stat.S_ISREG(found.st_mode):
                raise Refused("not a regular file")
            if found.st_uid != os.geteuid():
                raise Refused(f"belongs to user {found.st_uid}")
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

    def create(self, name: str, data: bytes, *, at: int, sync: bool = False, mode: int = 0o600) -> None:
        """Make a file that was not there, with all of `data`; a short write is an error. FileExistsError if there."""
        fd = self.open(name, _CREATE, mode, at=at)
        try:
            try:
                if data and self.write(fd, data) != len(data):
                    raise OSError(errno.ENOSPC, "short write", name)
                if sync:
                    self.sync(fd)
            finally:
                self.close(fd)
        except OSError:
            self.unlink(name, at)
            raise

    def append(self, name: str, data: bytes, *, at: int, size: int) -> None:
        """Add `data` to our own file of `size` bytes, whole or not at all."""
        fd = self.open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, at=at)
        try:
            if self.write(fd, data) != len(data):
                self.truncate(fd, size)
                raise OSError(errno.ENOSPC, "short write", name)
        finally:
            self.close(fd)

    def publish(self, scratch: str, scratch_at: int, name: str, at: int, data: bytes, *, sync: bool = False) -> bool:
        """Let a file appear whole under a final name; False where that name is taken. Survives a power cut if `sync`.

        `scratch` is the writer's own name; what an earlier, cut-off call left there is thrown away.
        """
        self._scratch(scratch, scratch_at, data, sync=sync)
        try:
            self.link(scratch, scratch_at, name, at)
        except FileExistsError:
            return False
        finally:
            self.unlink(scratch, scratch_at)
        if sync:
            self.sync(at)
        return True

    def replace(
        self, scratch: str, scratch_at: int, name: str, at: int, data: bytes, *, sync: bool = False, mode: int = 0o600
    ) -> None:
        """Put a whole file in the place of another, or of none."""
        self._scratch(scratch, scratch_at, data, sync=sync, mode=mode)
        self.rename(scratch, scratch_at, name, at)
        if sync:
            self.sync(at)

    def _scratch(self, name: str, at: int, data: bytes, *, sync: bool, mode: int = 0o600) -> None:
        try:
            self.create(name, data, at=at, sync=sync, mode=mode)
        except FileExistsError:
            self.unlink(name, at)
            self.create(name, data, at=at, sync=sync, mode=mode)

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
