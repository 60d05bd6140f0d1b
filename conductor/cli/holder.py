"""Why a conductor that holds a track does not go on: it is suspended, or it can write or start nothing."""

from __future__ import annotations

import socket

from bus.contract import Holder
from bus.process import look
from bus.reader import FileReader
from bus.room import Room


def is_suspended(holder: Holder) -> bool:
    """Tell whether its process stands still (Ctrl-Z, SIGSTOP); False where that cannot be told: on another machine."""
    info = look(holder.pid) if holder.host == socket.gethostname() else None
    return info is not None and info.suspended


def how_to_wake(holder: Holder) -> str:
    """Say what to type."""
    return f"wake it: `kill -CONT {holder.pid}`, or `fg` in its terminal"


def paused_by(reader: FileReader, holder: Holder) -> str | None:
    """Return why it can record or start nothing now: its own last words, or the disk's, where that left no room."""
    if (said := holder.extra.get("paused")) is not None:
        return str(said)
    return Room(reader.folders).said_by_disk()
