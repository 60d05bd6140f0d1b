"""Operators' orders: files under `control/` that the conductor reads. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

from bus import layout
from bus._fs import FileSystem, why
from bus.errors import BusError
from bus.folders import open_folders
from bus.room import remedy
from bus.wire import MAX_MESSAGE, dumps

OWNER = "operator"
"""Owner of the scratch files made here."""

_TRIES = 100
_LAST = 99_999_999 - _TRIES


def drop(
    root: Path,
    verb: str,
    *,
    target: str | None = None,
    text: str | None = None,
    who: str,
    epoch: int | None = None,
    fs: FileSystem | None = None,
) -> str:
    """Hand in an order and return the name of its file. It survives a power cut from then on.

    `target` is a task (or what the verb acts on), `who` the operator, `epoch` binds the order to one conductor. Raises
    BusGone where there is no bus, BusError where the order is too long or the disk full, LayoutError for an impossible
    verb.
    """
    body = {"id": os.urandom(16).hex(), "target": target, "text": text, "who": who, "epoch": epoch}
    data = dumps({key: value for key, value in body.items() if value is not None}).encode() + b"\n"
    if len(data) > MAX_MESSAGE:
        raise BusError(f"the order has {len(data)} bytes, more than {MAX_MESSAGE}")
    folders = open_folders(fs or FileSystem(), os.fspath(root))
    try:
        tmp, control = folders.refresh(layout.TMP), folders.refresh(layout.CONTROL)
        scratch = f"{OWNER}.{os.urandom(8).hex()}"
        parsed = map(layout.parse_control_name, folders.fs.names(control))
        # A number near the end of all numbers was made up: those that follow it have no name.
        first = 1 + max((found[0] for found in parsed if found and found[0] < _LAST), default=0)
        for number in range(first, first + _TRIES):
            name = layout.control_name(number, verb)
            if folders.fs.publish(scratch, tmp, name, control, data, sync=True, contested=True):
                return name
    except OSError as error:
        text = f"the order cannot be handed in: {why(error)}"
        raise BusError(text, path=os.fspath(root), hint=remedy(error)) from error
    finally:
        folders.close()
    raise BusError("too many orders are handed in at once", path=os.fspath(root), hint="try again")


def withdraw(root: Path, name: str, *, fs: FileSystem | None = None) -> bool:
    """Take an order back that `drop` handed in. False where it does not lie there any more: a conductor took it, or set
    it aside. Raises BusGone where there is no bus, BusError where it cannot be removed."""
    folders = open_folders(fs or FileSystem(), os.fspath(root))
    try:
        return folders.fs.discard(name, folders.fd(layout.CONTROL))
    except OSError as error:
        raise BusError(f"the order cannot be taken back: {why(error)}", path=name, hint=remedy(error)) from error
    finally:
        folders.close()
