"""The folders of attempts: made whole, with their lock held, and what they left behind elsewhere."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping

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
    scratch = f"{owner}.{attempt}"
    live = -1
    try:
        # Names of two components, which nobody can turn aside: mkdir has just made the folder, in ours.
        scratch = _create_scratch(fs, scratch, tmp)
        live = fs.open(f"{scratch}/{layout.LIVE}", os.O_RDWR | os.O_CREAT | os.O_EXCL, at=tmp)
        fs.chmod_fd(live, 0o600)
        fs.lock(live)
        for name, body in files.items():
            fs.create(f"{scratch}/{name}", body, at=tmp)
        fs.rename(scratch, tmp, attempt, bucket)
    except OSError:
        if live >= 0:
            fs.close(live)
        with contextlib.suppress(OSError):
            fs.remove_folder(scratch, tmp)
        raise
    return live


def _create_scratch(fs: FileSystem, name: str, tmp: int) -> str:
    """Make a folder that is surely ours, and return its name: another one where the wanted name is taken."""
    try:
        fs.create_directory(name, at=tmp)
    except FileExistsError:
        name = f"{name}.{os.urandom(4).hex()}"
        fs.create_directory(name, at=tmp)
    return name


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
