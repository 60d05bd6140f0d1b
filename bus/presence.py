"""Signs of life: the lock on `live`, heartbeats, the worker's status. They are polled, never watched.

The lock on `live` is held by whoever has the descriptor it was taken with; the kernel frees it when the last such
process is gone. So a probe needs no clock and no pid.
"""

from __future__ import annotations

import os

from bus import layout
from bus._fs import Refused
from bus.errors import BusError
from bus.folders import Folders
from bus.strict import WireError, loads_strict
from bus.wire import AttemptId, JsonObject, dumps

MAX_STATUS = 1 << 16


def is_live(folders: Folders, attempt: AttemptId) -> bool:
    """Tell whether the attempt's lock is held."""
    fs = folders.fs
    try:
        at = folders.attempt(attempt)
    except FileNotFoundError:
        return False
    try:
        fd, _ = fs.open_regular(layout.LIVE, at=at)
    except (FileNotFoundError, Refused):
        return False
    finally:
        fs.close(at)
    try:
        return not fs.lock(fd, shared=True)
    finally:
        fs.close(fd)


def beat(folders: Folders, attempt: AttemptId, evidence: JsonObject) -> None:
    """Replace the heartbeat, making it at the first call. Where the disk has no room, the old one is touched: that the
    worker lives must be told even then. Raises OSError where not even that is possible."""
    at, scratch = folders.fd(layout.HEARTBEATS), f"{attempt}.beat"
    try:
        folders.fs.replace(scratch, folders.fd(layout.TMP), attempt, at, dumps(evidence).encode() + b"\n")
    except (OSError, BusError):
        try:
            folders.fs.touch(attempt, at)
        except FileNotFoundError:
            folders.fs.create(attempt, b"", at=at)


def heartbeat(folders: Folders, attempt: AttemptId) -> int | None:
    """Return a value that changes with each beat; None before the first, and where it cannot be read now."""
    try:
        return folders.fs.stat(attempt, at=folders.fd(layout.HEARTBEATS)).st_mtime_ns
    except (OSError, BusError):
        return None


def read_beat(folders: Folders, attempt: AttemptId) -> JsonObject | None:
    """Return the evidence of the last beat; None where there is none, or none that can be read."""
    return _read_object(folders, layout.HEARTBEATS, attempt)


def write_status(folders: Folders, attempt: AttemptId, status: JsonObject) -> None:
    """Replace the worker's status. Several processes of one attempt may do so at once."""
    name = layout.status_name(attempt)
    at = folders.fd(layout.WORKER_STATUS)
    scratch = f"{attempt}.status-{os.getpid()}"
    folders.fs.replace(scratch, folders.fd(layout.TMP), name, at, dumps(status).encode() + b"\n")


def read_status(folders: Folders, attempt: AttemptId) -> JsonObject | None:
    """Return the worker's status; None where there is none, or none that can be read."""
    return _read_object(folders, layout.WORKER_STATUS, layout.status_name(attempt))


def _read_object(folders: Folders, folder: str, name: str) -> JsonObject | None:
    try:
        found = loads_strict(folders.fs.read_file(name, at=folders.fd(folder), cap=MAX_STATUS))
    except (OSError, BusError, Refused, WireError):
        return None
    return found if isinstance(found, dict) else None


def traces(attempt: AttemptId) -> tuple[tuple[str, str], ...]:
    """Return (folder, name) of what has no use any more once the attempt has ended: heartbeat and status."""
    return (layout.HEARTBEATS, attempt), (layout.WORKER_STATUS, layout.status_name(attempt))
