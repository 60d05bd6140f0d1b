"""Looking for what was handed in, and setting aside what cannot be taken. The conductor's side."""

from __future__ import annotations

from collections.abc import Callable

from bus import layout
from bus._fs import NO_SPACE, Refused
from bus.contract import Control, Incoming, Quarantined, Scan
from bus.folders import Folders
from bus.quarantine import Quarantine
from bus.wire import MAX_MESSAGE, Message, decode_message, loads_strict

SCAN_BYTES = 64 << 20
"""A scan stops after the attempt with which it has read so much; the next one reads on."""


def scan(folders: Folders, quarantine: Quarantine, check: Callable[[Message], None]) -> Scan:
    """Read what lies in `inbox/` and `control/`. `check` raises ValueError for a payload that its type does not allow.

    What is refused goes to quarantine. Names with a leading dot are passed over: network file systems make them.
    """
    bad: list[Quarantined] = []
    messages = _scan_inbox(folders, quarantine, check, bad)
    controls = _scan_control(folders, quarantine, bad)
    return Scan(tuple(messages), tuple(controls), tuple(bad))


def _scan_inbox(
    folders: Folders, quarantine: Quarantine, check: Callable[[Message], None], bad: list[Quarantined]
) -> list[Incoming]:
    inbox = folders.refresh(layout.INBOX)
    found: list[Incoming] = []
    total = 0
    attempt = None
    for name in sorted(folders.fs.names(inbox)):
        if name[0] == ".":
            continue
        parsed = layout.parse_message_name(name)
        if total > SCAN_BYTES and (parsed is None or parsed[0] != attempt):
            break
        try:
            if parsed is None:
                raise Refused("no message's name: <attempt>.<16 hex digits>.msg")
            data = folders.fs.read_file(name, at=inbox, cap=MAX_MESSAGE)
            message = decode_message(data)
            if (message.attempt, message.id[:16]) != parsed:
                raise Refused("attempt or id differ from those in the name")
            check(message)
        except (Refused, ValueError) as error:
            _set_aside(quarantine, name, inbox, error, bad)
            continue
        except OSError:  # it is gone, or the error may pass: the next scan looks again
            continue
        total += len(data)
        attempt = parsed[0]
        found.append(Incoming(name, message))
    found.sort(key=_order)
    return found


def _order(item: Incoming) -> tuple[str, bool, str, str]:
    message = item.message
    return message.attempt, message.type == "RESULT", message.timestamp, message.id


def _scan_control(folders: Folders, quarantine: Quarantine, bad: list[Quarantined]) -> list[Control]:
    control = folders.refresh(layout.CONTROL)
    found: list[Control] = []
    for name in sorted(folders.fs.names(control)):
        if name[0] == ".":
            continue
        try:
            parsed = layout.parse_control_name(name)
            if parsed is None:
                raise Refused("no order's name: <8 digits>-<verb>")
            data = folders.fs.read_file(name, at=control, cap=MAX_MESSAGE)
            found.append(read_order(name, *parsed, data))
        except (Refused, ValueError) as error:
            _set_aside(quarantine, name, control, error, bad)
        except OSError:
            continue
    return found


def _set_aside(quarantine: Quarantine, name: str, at: int, why: Exception, bad: list[Quarantined]) -> None:
    try:
        bad.append(quarantine.take(name, at, str(why)))
    except OSError as error:
        if error.errno not in NO_SPACE:  # a full disk: it stays where it is, and the next scan comes back to it
            raise


def read_order(name: str, number: int, verb: str, data: bytes) -> Control:
    """Make an operator's order of its file. Raises ValueError where the body is wrong; an empty one is right."""
    if not data.strip():
        return Control(name, number, verb)
    from bus.schema import control_body  # pydantic is loaded when somebody hands something in, not before

    body = control_body(loads_strict(data))
    return Control(name, number, verb, body.target, body.text, body.who, body.epoch)
