"""The folders of attempts: made whole, with their lock held, and what they left behind elsewhere."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping

from bus import layout, presence
from bus._fs import FileSystem
from bus.folders import Folders
from bus.wire import AttemptId

TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY})
"""Errors of a rename onto a folder that holds something."""


def create(folders: Folders, owner: str, attempt: AttemptId, files: Mapping[str, bytes]) -> int:
    """Make the attempt's folder with `live` locked and `files` in it; return the descriptor of `live`.

    The folder appears whole, by rename from `tmp/`, where it belongs to `owner`. Raises OSError: nothing of it is there
    then, or there was a folder of its name that holds something (TAKEN).
    """
    fs = folders.fs
    bucket = folders.make(layout.bucket_dir(attempt))
    tmp = folders.refresh(layout.TMP)
    scratch = _create_scratch(fs, f"{owner}.{attempt}", tmp)
    live = -1
    try:
        # Names of two components, which nobody can turn aside: mkdir has just made the folder, in ours.
        live = fs.open(f"{scratch}/{layout.LIVE}", os.O_RDWR | os.O_CREAT | os.O_EXCL, at=tmp)
        fs.chmod_fd(live, 0o600)
        fs.lock(live)
        for name, body in files.items():
            fs.create(f"{scratch}/{name}", body, at=tmp)
        fs.rename(scratch, tmp, attempt, bucket)
    except OSError:
        if live >= 0:
            fs.close(live)
        _remove_scratch(fs, scratch, tmp, (layout.LIVE, *files))
        raise
    return live


def lock(folders: Folders, attempt: AttemptId) -> int:
    """Lock `live` of an attempt that nobody works on; return its descriptor.

    Raises OSError: BlockingIOError where somebody holds the lock, if only to see whether it is held.
    """
    fs = folders.fs
    at = folders.attempt(attempt)
    try:
        live, _ = fs.open_regular(layout.LIVE, at=at, flags=os.O_RDWR)
    finally:
        fs.close(at)
    if not fs.lock(live):
        fs.close(live)
        raise BlockingIOError(errno.EAGAIN, "the lock of the attempt is held", attempt)
    return live


def _create_scratch(fs: FileSystem, name: str, tmp: int) -> str:
    """Make a folder that is surely ours, and return its name: another one where the wanted name is taken."""
    try:
        fs.create_directory(name, at=tmp)
    except FileExistsError:
        name = f"{name}.{os.urandom(4).hex()}"
        fs.create_directory(name, at=tmp)
    return name


def _remove_scratch(fs: FileSystem, scratch: str, tmp: int, names: Iterable[str]) -> None:
    """Remove what was made of a folder, without a descriptor: they may be what ran short."""
    for name in names:
        with contextlib.suppress(OSError):
            fs.discard(f"{scratch}/{name}", tmp)
    with contextlib.suppress(OSError):
        fs.rmdir(scratch, tmp)


def strays(folders: Folders, current: str) -> tuple[set[str], list[AttemptId]]:
    """Return the owners of scratch files whose time is over, and among them the attempts that may have left more.

    Those of the epoch `current` are in use. Whose lock is free, of that nobody is left to use it.
    """
    fs = folders.fs
    scratch = set(filter(None, map(layout.scratch_owner, fs.names(folders.fd(layout.TMP)))))
    over = {owner for owner in scratch if owner == "operator" or (owner.isdigit() and owner != current)}
    statuses = (name.removesuffix(".json") for name in fs.names(folders.fd(layout.WORKER_STATUS)))
    dead = list(_dead(folders, {*scratch, *fs.names(folders.fd(layout.HEARTBEATS)), *statuses}))
    return over | set(dead), dead


def _dead(folders: Folders, owners: set[str]) -> Iterator[AttemptId]:
    for owner in sorted(owners):
        with contextlib.suppress(layout.LayoutError, OSError):
            layout.parse_attempt(AttemptId(owner))
            if not presence.is_live(folders, AttemptId(owner)):
                yield AttemptId(owner)
