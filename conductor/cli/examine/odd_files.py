"""Files in the bus that nothing of ours makes: links, FIFOs, devices, files of others, unknown names.

They are only listed, by `lstat`: nothing is opened, so nothing is followed and nothing blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from bus import layout
from bus.errors import BusError
from bus.folders import Folders
from conductor.cli.examine.finding import Finding, fine, note

_KINDS = {
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "FIFO",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFSOCK: "socket",
}

_FOLDERS = frozenset(name for name in layout.FOLDERS if "/" not in name)

_ROOT = frozenset(
    {
        layout.FORMAT,
        layout.GITIGNORE,
        layout.LOCK,
        layout.HOLDER,
        layout.JOURNAL,
        layout.DOUBT,
        layout.CUT,
        layout.RESERVE,
        layout.LOCKS_VIEW,
        layout.WORKERS_VIEW,
    }
)
"""Files in the bus's own folder."""

_HANDED_IN: dict[str, Callable[[str], object]] = {
    layout.INBOX: layout.parse_message_name,
    layout.CONTROL: layout.parse_control_name,
    layout.LOCKS: layout.parse_grant_name,
    layout.WAITS: layout.parse_wait_name,
}
"""Folders whose names a conductor checks: what does not fit goes to quarantine at its next look."""

_NOT_WALKED = frozenset({layout.QUARANTINE})
"""What lies there was put aside already, whatever it is."""


def odd_files(folders: Folders) -> Iterator[Finding]:
    """List what is odd in all folders of the bus."""
    found = [*_root(folders), *_below(folders)]
    if found:
        yield note(
            "odd_files",
            f"{len(found)} odd {'file' if len(found) == 1 else 'files'} in the bus: not followed, not opened, not read",
            "find out what put them there; remove them while nothing runs",
            details=tuple(found),
        )
    else:
        yield fine("odd_files", "no odd files")


def _root(folders: Folders) -> Iterator[str]:
    for name in sorted(folders.fs.names(folders.root)):
        if name not in _ROOT and name not in _FOLDERS and not name.startswith("legacy-"):
            yield f"{ascii(name)[1:-1]}: no name of ours"
        elif (kind := _kind(folders, folders.root, name)) is not None:
            yield f"{name}: {kind}"
        elif name in _ROOT and folders.fs.is_folder(name, folders.root):
            yield f"{name}: a folder in the place of a file"
        elif name in _FOLDERS and not folders.fs.is_folder(name, folders.root):
            yield f"{name}: a file in the place of a folder"


def _below(folders: Folders) -> Iterator[str]:
    for folder in layout.FOLDERS:
        if folder in _NOT_WALKED:
            continue
        try:
            at = folders.fd(folder)
        except BusError:  # not made yet, or something else that `_root` has told of
            continue
        if folder == layout.ATTEMPTS:
            yield from _deep(folders, at, folder)
        else:
            yield from _flat(folders, at, folder)


def _flat(folders: Folders, at: int, folder: str) -> Iterator[str]:
    fits = _HANDED_IN.get(folder)
    for name in sorted(folders.fs.names(at)):
        if (kind := _kind(folders, at, name)) is not None:
            yield f"{folder}/{ascii(name)[1:-1]}: {kind}"
        elif fits is not None and fits(name) is None and not name.startswith("."):
            yield f"{folder}/{ascii(name)[1:-1]}: no name of {folder}/"


def _deep(folders: Folders, at: int, path: str) -> Iterator[str]:
    """Walk below a folder, never through a link: commands may have put anything into their attempt's."""
    with os.scandir(at) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        where = f"{path}/{ascii(entry.name)[1:-1]}"
        if (kind := _kind(folders, at, entry.name)) is not None:
            yield f"{where}: {kind}"
        elif entry.is_dir(follow_symlinks=False):
            try:
                inner = folders.fs.open_directory(entry.name, at=at)
            except OSError as error:
                yield f"{where}: cannot be opened: {error.strerror}"
                continue
            try:
                yield from _deep(folders, inner, where)
            finally:
                folders.fs.close(inner)


def _kind(folders: Folders, at: int, name: str) -> str | None:
    """Say what is odd about a thing; None where it is a file or a folder of our own."""
    try:
        found = folders.fs.stat(name, at=at)
    except FileNotFoundError:  # gone meanwhile
        return None
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is not None:
        return kind
    return f"belongs to user {found.st_uid}" if found.st_uid != os.geteuid() else None
