"""What lies in quarantine, and why."""

from __future__ import annotations

from bus import layout
from bus._fs import Refused
from bus.quarantine import SUFFIX
from bus.reader import FileReader
from bus.strict import WireError, loads_strict
from bus.wire import MAX_MESSAGE


def put_aside(reader: FileReader) -> list[str]:
    """Return the names of what was put aside, oldest first."""
    return sorted(name for name in reader.folders.shown(layout.QUARANTINE) if not name.endswith(SUFFIX))


def reason_of(reader: FileReader, name: str) -> str:
    """Return why it was put aside."""
    try:
        found = loads_strict(reader.folders.read(layout.QUARANTINE, name + SUFFIX, cap=MAX_MESSAGE))
    except (OSError, Refused, WireError):
        return "no reason is kept"
    return str(found.get("reason")) if isinstance(found, dict) else "no reason is kept"
