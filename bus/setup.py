"""How a bus comes to be: its directory, FORMAT, folders, epoch, and the wrapper that workers find on their PATH."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import uuid
from collections.abc import Callable, Collection

from bus import layout
from bus._fs import FileSystem, Refused, passes, why
from bus.errors import BusError, BusGone, BusUnsafe
from bus.folders import Folders, check_owner, check_parents, check_root, not_opened
from bus.hand import epochs_in
from bus.lock import check_lock_file
from bus.quarantine import Quarantine
from bus.reader import MAJOR, check_format
from bus.room import remedy
from bus.wire import dumps

_MINOR = 0
_NEW = "FORMAT.new"
_LEGACY = "legacy-"
_MARKS_OF_OLDER = frozenset({layout.JOURNAL, layout.EVENTS})
_OLDER = _MARKS_OF_OLDER | {layout.LOCKS_VIEW, layout.WORKERS_VIEW} | frozenset(layout.FOLDERS)
"""What the bus of an older program may hold."""

_OURS_BEFORE_FORMAT = frozenset({layout.LOCK, layout.GITIGNORE, _NEW})


def make_root(fs: FileSystem, path: str, *, unsafe: bool, sync: bool = False) -> Folders:
    """Make the bus's directory, and what is missing above it, and open it. Raises BusUnsafe, BusError.

    A directory of ours that is empty, or holds what an older program left, becomes a bus and is closed to others. One
    that holds anything else is somebody's: it is refused before anything in it is touched. So is a bus that is open to
    others. With `sync` a directory that was just made survives a power cut.
    """
    path = os.path.abspath(path)
    if not unsafe:  # before anything is made: what is refused leaves nothing behind
        check_parents(fs, path)
    try:
        _make(fs, path, sync=sync)
    except OSError as error:
        raise _not_made(path, error) from error
    folders = _open(fs, path)
    try:
        if not _check_opened(folders, unsafe=unsafe):
            if sync:  # whoever made it may have been killed before its name was on disk
                _sync_name(fs, path)
            if fs.stat_fd(folders.root).st_uid == os.geteuid():
                fs.chmod_fd(folders.root, 0o700)
    except OSError as error:
        folders.close()
        raise BusError(f"the bus cannot be used: {why(error)}", path=path, hint=remedy(error)) from error
    except BaseException:
        folders.close()
        raise
    return folders


def foretell(fs: FileSystem, path: str, *, unsafe: bool) -> bool:
    """Raise what a start would raise of this place and its lock, and make nothing; tell whether a bus is there."""
    path = os.path.abspath(path)
    if not unsafe:
        check_parents(fs, path)
    try:
        fs.stat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _not_made(path, error) from error
    with contextlib.closing(_open(fs, path)) as folders:
        is_bus = _check_opened(folders, unsafe=unsafe)
        check_lock_file(folders)
        return is_bus


def _not_made(path: str, error: OSError) -> BusError:
    hint = remedy(error) or "make the folder above it one that you can write, or name another place with --bus-dir"
    return BusError(f"the bus cannot be made: {why(error)}", path=path, hint=hint)


def _open(fs: FileSystem, path: str) -> Folders:
    try:
        return Folders(fs, path, fs.open_directory(path))
    except OSError as error:
        if passes(error):
            raise BusError(f"the bus cannot be used: {why(error)}", path=path, hint=remedy(error)) from error
        raise not_opened(path, error) from error


def _check_opened(folders: Folders, *, unsafe: bool) -> bool:
    """Raise where the folder may not be a bus; tell whether it is one already."""
    found, names = folders.fs.stat_fd(folders.root), folders.fs.names(folders.root)
    is_bus = layout.FORMAT in names
    if not is_bus:
        check_format(folders)
        refuse_foreign(names, folders.path)
    if not unsafe:
        (check_root if is_bus else check_owner)(found, folders.path)
    return is_bus


def _make(fs: FileSystem, path: str, *, sync: bool) -> None:
    """Make a folder unless it is there, and those above it that are missing: a place in a home that is still empty."""
    try:
        fs.create_directory(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above == path:
            raise
        _make(fs, above, sync=sync)
        if sync:
            _sync_name(fs, above)
        with contextlib.suppress(FileExistsError):
            fs.create_directory(path)


def _sync_name(fs: FileSystem, path: str) -> None:
    """Make the name of a folder last, which is an entry in the folder above."""
    parent = fs.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fs.sync(parent)
    finally:
        fs.close(parent)


def refuse_foreign(names: Collection[str], path: str) -> None:
    """Raise BusUnsafe where a folder without FORMAT is neither empty nor what an older program left."""
    found = {name for name in names if name not in _OURS_BEFORE_FORMAT and not name.startswith(_LEGACY)}
    if not found or (found & _MARKS_OF_OLDER and found <= _OLDER):
        return
    foreign = sorted(found - _OLDER) or sorted(found)
    shown = ", ".join(ascii(name)[1:-1] for name in foreign[:3]) + (" …" if len(foreign) > 3 else "")
    raise BusUnsafe(
        f"this folder is no bus and not empty: it holds {shown}",
        path=path,
        hint="name a new or an empty folder with --bus-dir; nothing in this one was touched",
    )


def furnish(folders: Folders, check_lock: Callable[[], None], *, sync: bool) -> list[str]:
    """Make FORMAT and all folders, under the lock; return what there is to tell.

    What an older program left (there is no FORMAT) goes to `legacy-N/` first. FORMAT is what makes the directory a
    bus, so it comes before anything that would look like such a leftover after a crash. `check_lock` raises BusGone
    where somebody else has taken the track meanwhile: what looks like a leftover may be his.
    """
    fs, root = folders.fs, folders.root
    notes: list[str] = []
    if check_format(folders) is None:
        notes += _move_legacy(folders, check_lock)
        check_lock()
        fs.replace(_NEW, root, layout.GITIGNORE, root, b"*\n", sync=sync)
        write_format(folders, sync=sync)
    for name in layout.FOLDERS:
        folders.make(name)
    if sync:
        fs.sync(root)
    return notes


def write_format(folders: Folders, *, sync: bool) -> None:
    """Make FORMAT."""
    body = dumps({"major": MAJOR, "minor": _MINOR, "bus": uuid.uuid4().hex, "caps": {}})
    folders.fs.replace(_NEW, folders.root, layout.FORMAT, folders.root, body.encode() + b"\n", sync=sync)


def _move_legacy(folders: Folders, check_lock: Callable[[], None]) -> list[str]:
    fs, root = folders.fs, folders.root
    names = fs.names(root)
    old = [name for name in names if name not in _OURS_BEFORE_FORMAT and not name.startswith(_LEGACY)]
    if not old:
        return []
    # A crash half-way leaves the rest for the next number; nothing is ever overwritten.
    numbers = (name[len(_LEGACY) :] for name in names if name.startswith(_LEGACY))
    legacy = f"{_LEGACY}{1 + max((int(n) for n in numbers if n.isascii() and n.isdigit()), default=0)}"
    fs.create_directory(legacy, at=root)
    at = fs.open_directory(legacy, at=root)
    try:
        for name in old:
            check_lock()
            if check_format(folders) is not None:
                raise BusGone("another conductor has made this bus meanwhile", path=folders.path)
            fs.rename(name, root, name, at)
    finally:
        fs.close(at)
    return [f"the bus of an older program was moved to {legacy}/ and is not read"]


def take_epoch(folders: Folders, at_least: int, check_ours: Callable[[], None], *, sync: bool) -> int:
    """Begin a new epoch, higher than all before (`at_least` is the journal's), and return its number.

    Conductors number their starts without gaps. What is beyond a gap was made by somebody else, and is set aside:
    otherwise one file could use up all numbers. `check_ours` raises BusGone where the track is not ours any more.
    """
    epochs = folders.fd(layout.EPOCHS)
    taken = epochs_in(folders)
    epoch = at_least + 1
    while epoch in taken:
        epoch += 1
    check_ours()
    if folders.evict is not None:
        for foreign in sorted(number for number in taken if number > epoch):
            folders.evict(layout.epoch_name(foreign), epochs, "no conductor made this epoch")
    folders.fs.create(layout.epoch_name(epoch), b"", at=epochs, sync=sync)
    if sync:
        folders.fs.sync(epochs)
    return epoch


def drop_epoch(folders: Folders, epoch: int, check_ours: Callable[[], None]) -> None:
    """Take back an epoch in which nothing could be recorded, and so nothing was started: starts that fail, again and
    again perhaps, leave nothing on a full disk. The next one has its number. Done only where the track is still ours.
    """
    with contextlib.suppress(OSError, BusError):
        check_ours()
        folders.fs.discard(layout.epoch_name(epoch), folders.fd(layout.EPOCHS))


def write_wrapper(folders: Folders, quarantine: Quarantine, owner: str) -> None:
    """Make `bin/conductor`: this program, from this interpreter, whatever else is installed or on PYTHONPATH."""
    start = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "conductor_bus_start.py")
    command = shlex.join([sys.executable, "-E", "-P", start])
    body = f'#!/bin/sh\nexec {command} "$@"\n'.encode()
    at = folders.fd(layout.BIN)
    try:
        if folders.fs.read_file(layout.WRAPPER, at=at, cap=1 << 16) == body:
            return
    except (FileNotFoundError, Refused):
        pass
    quarantine.replace(f"{owner}.wrapper", folders.fd(layout.TMP), layout.WRAPPER, at, body, mode=0o700)


def sweep(folders: Folders, owners: set[str]) -> None:
    """Remove the scratch files of `owners` (attempts and epochs that have ended)."""
    fs = folders.fs
    tmp = folders.refresh(layout.TMP)
    for name in fs.names(tmp):
        if layout.scratch_owner(name) not in owners:
            continue
        try:
            fs.discard(name, tmp)
        except OSError:  # the folder of an attempt that was never put into its place
            with contextlib.suppress(OSError):  # or something foreign, which harms nobody here
                fs.remove_folder(name, tmp)
