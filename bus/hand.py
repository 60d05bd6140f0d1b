"""A worker's side of its own attempt, over the directory. Standard library only; imported by every worker."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from bus import layout, presence
from bus._fs import FileSystem, Refused
from bus.errors import ENDED, AlreadyFinished, BusGone
from bus.folders import Folders, open_folders
from bus.process import pass_on_shortage
from bus.publish import publish
from bus.strict import WireError, loads_strict
from bus.times import utc
from bus.wire import (
    AttemptId,
    ExitRecord,
    JsonObject,
    Message,
    ProcRecord,
    decode_message,
    dumps,
    encode_message,
    to_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bus.contract import Busy, Grant, WaitFile
    from bus.desk import Desk
    from bus.locks import FileStore

MAX_REASON = 1 << 12

TICK = 20_000_000
"""Nanoseconds that are longer than a tick in which file systems tell the time."""

BUS_DELETED = "bus_gone"
"""Why a worker stops by itself whose result nobody could ever read."""

MAX_REPORT = 1 << 18
"""Longest report in bytes: with it, `exit.json` is still a message that is accepted."""


class FileHand:
    """`bus.contract.Hand` over a directory."""

    def __init__(self, folders: Folders, attempt: AttemptId) -> None:
        self.attempt = attempt
        self._folders = folders
        self._fs = folders.fs
        self._epoch = 0
        self._claim_size = 0
        self._store: FileStore | None = None
        self._opened_desk: Desk | None = None
        try:
            self._at = folders.attempt(attempt)
        except FileNotFoundError as error:
            raise BusGone(f"the bus has no attempt {attempt}", path=folders.path) from error

    def claim(self, proc: ProcRecord) -> bool:
        """Publish `proc.json`; False where another process has claimed the attempt before.

        Without hard links a hidden name beside it, made with O_EXCL, stands for the claim while it is published. The
        guard of a worker that died in that moment stays: then nobody can claim the attempt any more, and who holds it
        is told by the lock on `live` alone, which is free.
        """
        self._epoch = proc.epoch
        # Another claimant is another process, so the pid keeps the two scratch files apart.
        scratch = f"{self.attempt}.proc-{proc.pid}"
        line = _line(to_json(proc))
        self._claim_size = len(line)
        return self._fs.publish(scratch, self._tmp, layout.PROC, self._at, line, contested=True)

    def started(self, pid: int, start_ticks: int, session: int) -> None:
        """Publish the identity of the command: the second line of `proc.json`. May be called again after an error."""
        body = _line({"pid": pid, "start_ticks": start_ticks, "session": session})
        self._fs.append(layout.PROC, body, at=self._at, size=self._claim_size)

    def revoked(self) -> str | None:
        """Return the reason of a stop, None where there is none. A bus that was deleted, not moved, is one."""
        try:
            data = self._fs.read_file(layout.REVOKED, at=self._at, cap=MAX_REASON)
        except FileNotFoundError:
            return None if self._fs.stat_fd(self._folders.root).st_nlink else BUS_DELETED
        except Refused as error:
            return f"unreadable order to stop: {error}"
        return reason_of(data)

    def over(self) -> str | None:
        """Return why nothing of the attempt counts any more: it is to stop, or has its result. None as long as it
        does."""
        reason = self.revoked()
        if reason is not None:
            return reason
        try:
            self._fs.stat(layout.EXIT, at=self._at)
        except FileNotFoundError:
            return None
        return ENDED

    def asks(self) -> bool:
        """Tell whether something of the attempt waits for the answer of a person."""
        try:
            at = self._fs.open_directory(layout.IN, at=self._at)
        except (OSError, Refused):
            return False
        try:
            names = set(self._fs.names(at))
            open_ids = (name.removeprefix(layout.QUESTION) for name in names if name.startswith(layout.QUESTION))
            return any(self._is_held(layout.QUESTION + id, at) for id in open_ids if layout.ANSWER + id not in names)
        except OSError:
            return False
        finally:
            self._fs.close(at)

    def _is_held(self, name: str, at: int) -> bool:
        try:
            fd, _ = self._fs.open_regular(name, at=at)
        except (FileNotFoundError, Refused):
            return False
        try:
            return not self._fs.lock(fd, shared=True)
        finally:
            self._fs.close(fd)

    def newest_epoch(self) -> int:
        """Return the highest epoch of any conductor of this bus."""
        at = self._folders.fd(layout.EPOCHS)
        if not self._epoch:
            return max(epochs_in(self._folders), default=0)
        newest = self._epoch
        while True:  # epochs are numbered without gaps: what lies beyond one is no conductor's
            try:
                self._fs.stat(layout.epoch_name(newest + 1), at=at)
            except FileNotFoundError:
                return newest
            newest += 1

    def beat(self, evidence: JsonObject) -> None:
        """Replace the heartbeat, making it at the first call. Without room for the evidence, only the time changes."""
        presence.beat(self._folders, self.attempt, evidence)

    def report_status(self, status: JsonObject) -> None:
        """Replace the worker status. The caller keeps to one call a second."""
        presence.write_status(self._folders, self.attempt, status)

    def publish(self, message: Message, *, durable: bool = False) -> None:
        """Hand in a message: whole or not at all."""
        if message.attempt != self.attempt:
            raise ValueError(f"a message of {message.attempt} from the hand of {self.attempt}")
        publish(self._folders, message, sync=durable)

    def report(self, message: Message) -> None:
        """Keep the payload of a REPORT for `exit.json` (the last one counts), then publish it."""
        scratch = f"{self.attempt}.report-{message.id}"
        self._fs.replace(scratch, self._tmp, layout.REPORT, self._at, _line(message.payload))
        self.publish(message)

    def last_report(self) -> JsonObject | None:
        """Return the payload of the last REPORT; None where there is none, or none that can be read. OSError for a
        shortage."""
        try:
            found = loads_strict(self._fs.read_file(layout.REPORT, at=self._at, cap=MAX_REPORT))
        except OSError as error:
            pass_on_shortage(error)
            return None
        except (Refused, WireError):  # whoever runs in the attempt can write there
            return None
        return found if isinstance(found, dict) else None

    def finish(self, exit: ExitRecord, *, durable: bool = False) -> None:
        """Write `exit.json` (once; a second call raises AlreadyFinished), then publish RESULT with the same body."""
        body = to_json(exit)
        message = result_message(self.attempt, body)
        check_foreign(exit, message)
        scratch = f"{self.attempt}.exit"
        made = self._fs.publish(scratch, self._tmp, layout.EXIT, self._at, _line(body), sync=durable)
        if durable:  # the result lies in a folder whose own name, and that of the one above, must survive as well
            for folder in (layout.bucket_dir(self.attempt), layout.ATTEMPTS):
                self._fs.sync(self._folders.fd(folder))
        if not made:  # perhaps by a call before this one, which failed behind it
            raise AlreadyFinished(f"{self.attempt} has a result already", path=layout.attempt_dir(self.attempt))
        self.publish(message, durable=durable)

    # --- locks, waits, texts ----------------------------------------------------------------------------------------

    def try_lock(
        self,
        wanted: Iterable[tuple[str, bool]],
        *,
        queue: bool = False,
        lasting: bool = False,
        patience: float | None = None,
    ) -> tuple[Grant, ...] | Busy:
        """Lock (canonical key, shared) pairs, all or none."""
        return self._desk.try_lock(wanted, queue=queue, lasting=lasting, patience=patience)

    def unlock(self, keys: Iterable[str] | None = None, *, patience: float | None = None) -> tuple[str, ...]:
        """Release these keys, or all; return those that were held."""
        return self._desk.unlock(keys, patience)

    def release(self, grants: Iterable[Grant], *, patience: float | None = None) -> None:
        """Release these grants. Idempotent."""
        self._desk.release(grants, patience)

    def lasting(self) -> tuple[Grant, ...]:
        """Return the grants of the attempt that no `unlock` ends."""
        return self._desk.lasting()

    def made(self, grant: Grant) -> bool:
        """Tell whether this hand made the grant, or what it is a part of."""
        return grant.token in self._desk.made

    def lock_changes(self) -> object:
        """Return a value that changes when a grant or a wait comes or goes: when the two folders changed last.

        That is told in ticks of some milliseconds. What changed in this very tick may change once more in it, so it
        gives another value each time. A clock that is wrong costs looks, or moments.
        """
        places = (self._folders.refresh(layout.LOCKS), self._folders.refresh(layout.WAITS))
        times = tuple(self._fs.stat_fd(at).st_mtime_ns for at in places)
        now = time.time_ns()
        return (times, now) if abs(now - max(times)) < TICK else times

    def begin_wait(self, kind: str, what: Iterable[str] = (), *, text: str = "", id: str | None = None) -> WaitFile:
        """Say that this process waits. Raises FileExistsError where another process waits under this `id`."""
        return self._desk.begin_wait(kind, what, text, id)

    def end_wait(self, wait: WaitFile) -> None:
        """Say that it waits no more. Idempotent."""
        self._desk.end_wait(wait)

    def answer(self, id: str) -> str | None:
        """Take the answer to a question; None while there is none."""
        from bus import texts

        return texts.take_answer(self._folders, self._at, id)

    def texts(self) -> tuple[tuple[str, str], ...]:
        """Return (name, text) of what people sent to the attempt, in order."""
        from bus import texts

        return texts.read(self._folders, self._at)

    @property
    def _desk(self) -> Desk:
        """Loaded when something is locked or waited for."""
        if self._opened_desk is None:
            from bus.desk import Desk
            from bus.locks import FileStore

            self._store = FileStore(self._folders, self.attempt)
            self._opened_desk = Desk(self._store, self.attempt, self.over)
        return self._opened_desk

    def close(self) -> None:
        """Close what was opened, and with it all waits. A worker that ends need not."""
        if self._store is not None:
            self._store.close()
        self._fs.close(self._at)
        self._folders.close()

    @property
    def _tmp(self) -> int:
        return self._folders.refresh(layout.TMP)


def open_hand(root: Path | str, attempt: AttemptId, *, fs: FileSystem | None = None) -> FileHand:
    """Open a worker's side of `attempt`.

    Raises BusGone where bus or attempt do not exist, BusUnsafe where the bus is not ours alone, LayoutError where
    `attempt` is no attempt's id.
    """
    layout.parse_attempt(attempt)
    folders = open_folders(fs or FileSystem(), os.fspath(root))
    try:
        return FileHand(folders, attempt)
    except BaseException:
        folders.close()
        raise


def result_message(attempt: AttemptId, body: JsonObject) -> Message:
    """The RESULT that announces an `exit.json` of this body."""
    return Message(os.urandom(16).hex(), "RESULT", attempt, utc(), body)


def check_foreign(exit: ExitRecord, message: Message) -> None:
    """Raise WireError where `message` would be refused because of what others wrote into the result."""
    if exit.report is not None or exit.final_record is not None:
        decode_message(encode_message(message))


def reason_of(data: bytes) -> str:
    """The reason in a `revoked` file; a file that somebody else made stops the worker just as well."""
    try:
        found = loads_strict(data)
    except WireError:
        found = None
    reason = found.get("reason") if isinstance(found, dict) else None
    return reason if isinstance(reason, str) else "revoked"


def epochs_in(folders: Folders) -> set[int]:
    """Return the numbers in `epochs/`."""
    names = folders.fs.names(folders.fd(layout.EPOCHS))
    return {number for name in names if (number := layout.parse_epoch_name(name)) is not None}


def _line(body: JsonObject) -> bytes:
    return dumps(body).encode() + b"\n"
