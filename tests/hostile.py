"""Foreign things, as somebody might put them into a bus: made at a path, pointing at what is outside."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

IS_ROOT = os.geteuid() == 0
SOMEBODY = 12345
"""The id of a user who is not us."""


def _symlink(target: str) -> Callable[[Path, Path], None]:
    return lambda path, outside: path.symlink_to(target.format(outside=outside))


def _socket(path: Path, outside: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(f"/proc/self/fd/{here}/{path.name}"[:107])
    finally:
        os.close(here)


def _folder(path: Path, outside: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("kept")


def _foreign_folder(path: Path, outside: Path) -> None:
    _folder(path, outside)
    os.chown(path, SOMEBODY, SOMEBODY)


def _foreign_file(path: Path, outside: Path) -> None:
    path.write_text("{}\n")
    os.chown(path, SOMEBODY, SOMEBODY)


def _sparse(path: Path, outside: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def _closed(path: Path, outside: Path) -> None:
    path.write_bytes(b"\xff\0noise")
    path.chmod(0)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "symlink to a file": _symlink("{outside}/file"),
    "symlink to a folder": _symlink("{outside}/folder"),
    "dangling symlink": _symlink("{outside}/nothing"),
    "symlink to passwd": _symlink("/etc/passwd"),
    "symlink to zero": _symlink("/dev/zero"),
    "fifo": lambda path, outside: os.mkfifo(path),
    "socket": _socket,
    "folder": _folder,
    "file of mode 0": _closed,
    "sparse file": _sparse,
}

if IS_ROOT:
    KINDS |= {
        "device": lambda path, outside: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
        "file of somebody": _foreign_file,
        "folder of somebody": _foreign_folder,
    }


def plant(kind: str, path: Path, outside: Path) -> None:
    """Put a foreign thing under a path, in the place of whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
    KINDS[kind](path, outside)


def picture(root: Path) -> dict[str, tuple[int, ...] | bytes]:
    """What a folder holds, with everything about it that an access could change but the time of reading."""
    found: dict[str, tuple[int, ...] | bytes] = {}
    for path in sorted([root, *root.rglob("*")]):
        about = path.lstat()
        found[str(path)] = (about.st_mode, about.st_uid, about.st_nlink, about.st_mtime_ns, about.st_size)
        if path.is_file():
            found[f"{path} content"] = path.read_bytes()
    return found


@contextmanager
def untouched(root: Path) -> Iterator[Path]:
    """Make a folder outside the bus, and check at the end that nobody changed anything in it."""
    outside = root / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("mine")
    (outside / "folder" / "inner").write_text("mine too")
    before = picture(outside)
    yield outside
    assert picture(outside) == before
