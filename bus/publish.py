"""Handing in a message: one file, whole or not at all. Standard library only; used by every worker."""

from __future__ import annotations

from bus import layout
from bus.errors import BusGone
from bus.folders import Folders
from bus.strict import WireError
from bus.wire import MAX_MESSAGE, Message, encode_message


def publish(folders: Folders, message: Message, *, sync: bool) -> bool:
    """Let the message appear in `inbox/`, whole; False where it was handed in before."""
    name = layout.message_name(message.attempt, message.id)
    data = encode_message(message)
    if len(data) > MAX_MESSAGE:
        raise WireError(f"the message has {len(data)} bytes, more than {MAX_MESSAGE}")
    try:
        tmp, inbox = folders.fd(layout.TMP), folders.refresh(layout.INBOX)  # one that was moved away nobody reads
        return folders.fs.publish(name, tmp, name, inbox, data, sync=sync)
    except (FileNotFoundError, BusGone):  # somebody removed a folder, and may have made it again since it was opened
        tmp, inbox = folders.refresh(layout.TMP), folders.refresh(layout.INBOX)
        return folders.fs.publish(name, tmp, name, inbox, data, sync=sync)
