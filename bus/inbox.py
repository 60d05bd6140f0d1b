"""Looking for what was handed in, and setting aside what cannot be taken. The conductor's side."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from bus import layout
from bus._fs import Refused, passes, why
from bus.contract import Control, Incoming, Quarantined, Scan
from bus.errors import BusError, BusGone
from bus.folders import Folders
from bus.quarantine import Quarantine
from bus.strict import loads_strict
from bus.wire import MAX_MESSAGE, AttemptId, Message, decode_message

SCAN_BYTES = 64 << 20
"""A look stops after the message with which it has read so much; the next one reads on."""

SCAN_FILES = 1000
"""Messages, and orders, that one look reads at most."""

SCAN_ASIDE = 200
"""Foreign things that one look sets aside at most. A journal line follows for each, so this is what costs."""


T = TypeVar("T")


@dataclass(slots=True)
class _Look:
    """What one look has found so far."""

    messages: list[Incoming] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    aside: int = 0
    more: bool = False
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class _Handled:
    """A file that is done with, and could not be removed."""

    inode: int
    reason: str | None
    """Why it goes to quarantine; None where it is recorded and goes away."""
    stuck: bool
    """Whether no later try will do better: it stays, and is passed over."""


class Inbox:
    """`inbox/` and `control/`. What was discarded or refused is not found again, even where it cannot be removed.

    Names with a leading dot are passed over: network file systems make them, and writers without hard links.
    """

    def __init__(self, folders: Folders, quarantine: Quarantine, check: Callable[[Message], None]) -> None:
        """`check` raises ValueError for a payload that its type does not allow."""
        self._folders = folders
        self._fs = folders.fs
        self._quarantine = quarantine
        self._check = check
        self._handled: dict[tuple[str, str], _Handled] = {}

    # --- looking ----------------------------------------------------------------------------------------------------

    def scan(self) -> Scan:
        """Look once. Errors are told, and what they hid is found later; only BusGone is raised."""
        self._work_off()
        look = _Look()
        for part in (self._look_for_messages, self._look_for_orders):
            try:
                part(look)
            except BusGone:
                raise
            except (OSError, BusError) as error:
                look.more = True
                look.trouble = f"what was handed in cannot be read: {_said(error)}"
        return Scan(tuple(look.messages), tuple(look.controls), (), look.more, look.trouble)

    def _look_for_messages(self, look: _Look) -> None:
        at = self._folders.refresh(layout.INBOX)
        fit, unfit = self._sorted_names(layout.INBOX, at, layout.parse_message_name)
        total = 0
        for index, (name, parsed) in enumerate(fit):
            if total > SCAN_BYTES or index == SCAN_FILES:
                look.more = True
                _withhold_result(look, parsed[0])
                break
            try:
                data = self._fs.read_file(name, at=at, cap=MAX_MESSAGE)
                message = decode_message(data)
                if (message.attempt, message.id[:16]) != parsed:
                    raise Refused("attempt or id differ from those in the name")
                self._check(message)
            except (Refused, ValueError) as error:
                self._set_aside(layout.INBOX, name, at, str(error), look)
            except FileNotFoundError:
                continue
            except OSError as error:
                look.more = True
                look.trouble = f"a message cannot be read: {why(error)}"
            else:
                total += len(data)
                look.messages.append(Incoming(name, message))
        look.messages.sort(key=_order)
        for name in unfit:
            self._set_aside(layout.INBOX, name, at, "no message's name: <attempt>.<16 hex digits>.msg", look)

    def _look_for_orders(self, look: _Look) -> None:
        at = self._folders.refresh(layout.CONTROL)
        fit, unfit = self._sorted_names(layout.CONTROL, at, layout.parse_control_name)
        for name, parsed in fit[:SCAN_FILES]:
            try:
                data = self._fs.read_file(name, at=at, cap=MAX_MESSAGE)
                mark = _mark(name, self._fs.stat(name, at=at))
                look.controls.append(read_order(name, *parsed, data, mark))
            except (Refused, ValueError) as error:
                self._set_aside(layout.CONTROL, name, at, str(error), look)
            except FileNotFoundError:
                continue
            except OSError as error:  # those behind it wait as well: orders keep their order
                look.trouble = f"an order cannot be read: {why(error)}"
                break
        for name in unfit:
            self._set_aside(layout.CONTROL, name, at, "no order's name: <8 digits>-<verb>", look)

    def _sorted_names(
        self, folder: str, at: int, parse: Callable[[str], T | None]
    ) -> tuple[list[tuple[str, T]], list[str]]:
        """Return the names that fit, with what they say, and those that do not; both sorted."""
        fit: list[tuple[str, T]] = []
        unfit: list[str] = []
        for name in sorted(self._fs.names(at)):
            if name[0] == "." or (self._handled and (folder, name) in self._handled):
                continue
            if (parsed := parse(name)) is None:
                unfit.append(name)
            else:
                fit.append((name, parsed))
        return fit, unfit

    def _set_aside(self, folder: str, name: str, at: int, reason: str, look: _Look) -> None:
        """Move something foreign away, or leave it to a later look: where this one did enough, or the disk is full."""
        if look.aside == SCAN_ASIDE:
            return
        look.aside += 1
        self._put_away(folder, name, at, reason)

    # --- being done with a file -------------------------------------------------------------------------------------

    def discard(self, items: Iterable[Incoming | Control]) -> None:
        """Remove files whose record is committed."""
        for item in items:
            folder = _folder_of(item)
            self._put_away(folder, item.name, self._folders.fd(folder), None)

    def refuse(self, item: Incoming | Control, reason: str) -> None:
        """Move a file that cannot be acted on to quarantine."""
        folder = _folder_of(item)
        self._put_away(folder, item.name, self._folders.fd(folder), reason)

    def _put_away(self, folder: str, name: str, at: int, reason: str | None) -> bool:
        """Remove a file, or quarantine it for a reason; False where that has to be tried again.

        What can never be removed is told once and passed over from then on.
        """
        try:
            if reason is None:
                self._fs.discard(name, at)
            else:
                self._quarantine.take(name, at, reason)
        except OSError as error:
            self._remember(folder, name, at, reason, error)
            return not passes(error)
        self._handled.pop((folder, name), None)
        return True

    def _remember(self, folder: str, name: str, at: int, reason: str | None, error: OSError) -> None:
        try:
            inode = self._fs.stat(name, at=at).st_ino
        except FileNotFoundError:
            self._handled.pop((folder, name), None)
            return
        stuck = not passes(error)
        if stuck:
            told = reason or "it is recorded"
            self._quarantine.tell(Quarantined(f"{folder}/{name}", f"{told}; and it cannot be removed: {why(error)}"))
        self._handled[folder, name] = _Handled(inode, reason, stuck)

    def _work_off(self) -> None:
        """Try again what could not be removed, until the first that still cannot."""
        for (folder, name), handled in list(self._handled.items()):
            try:
                at = self._folders.refresh(folder)
                same = self._fs.stat(name, at=at).st_ino == handled.inode
            except FileNotFoundError:
                same = False
            except (OSError, BusError):
                return
            if not same:  # somebody else removed it; what has its name now is another matter
                del self._handled[folder, name]
            elif not handled.stuck and not self._put_away(folder, name, at, handled.reason):
                return


def _folder_of(item: Incoming | Control) -> str:
    return layout.INBOX if isinstance(item, Incoming) else layout.CONTROL


def _said(error: OSError | BusError) -> str:
    return why(error) if isinstance(error, OSError) else error.message


def _order(item: Incoming) -> tuple[str, bool, str, str]:
    message = item.message
    return message.attempt, message.type == "RESULT", message.timestamp, message.id


def _withhold_result(look: _Look, unread: AttemptId) -> None:
    """Leave the RESULT of an attempt to a later look while other messages of it are unread: it comes last.

    Not where it is all that was found, so that each look makes progress.
    """
    others = [one for one in look.messages if one.message.type != "RESULT" or one.message.attempt != unread]
    if others:
        look.messages = others


def _mark(name: str, found: os.stat_result) -> str:
    """Return an id for an order that was made by hand: no other file has had this name, place and time."""
    return hashlib.sha256(f"{name} {found.st_ino} {found.st_mtime_ns}".encode()).hexdigest()[:32]


def read_order(name: str, number: int, verb: str, data: bytes, mark: str) -> Control:
    """Make an operator's order of its file. Raises ValueError where the body is wrong; an empty one is right.

    `mark` is its id where the body names none.
    """
    if not data.strip():
        return Control(name, number, verb, id=mark)
    from bus.schema import control_body  # pydantic is loaded when somebody hands something in, not before

    body = control_body(loads_strict(data))
    return Control(name, number, verb, body.target, body.text, body.who, body.epoch, body.id or mark)
