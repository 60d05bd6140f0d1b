"""A worker's side of the bus in memory, and what an attempt is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bus import layout
from bus.contract import Busy, Grant, WaitFile
from bus.desk import Desk
from bus.errors import ENDED, AlreadyFinished
from bus.hand import check_foreign, result_message
from bus.memory_locks import MemoryStore
from bus.schema import check_content
from bus.strict import loads_strict
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
    from bus.memory import MemoryBus

COMMAND = "command"
"""File of an attempt that has the identity of its command."""


@dataclass(slots=True)
class MemoryAttempt:
    """The folder of an attempt. What is written goes through JSON, so that readers get what a file would give them."""

    watch: int
    """Reading end of the pipe whose writing end is `live`: it hangs up when the last holder is gone."""
    files: dict[str, bytes]
    beats: int = 0
    evidence: JsonObject | None = None
    """Of the last beat."""
    status: JsonObject | None = None


class MemoryHand:
    """`bus.contract.Hand` in memory."""

    def __init__(self, bus: MemoryBus, attempt: AttemptId) -> None:
        self.attempt = attempt
        self._bus = bus
        self._own = bus._attempts[attempt]
        self._store = MemoryStore(bus.locks)
        self._desk = Desk(self._store, attempt, self.over)

    def claim(self, proc: ProcRecord) -> bool:
        """Claim the attempt; False where it was claimed before."""
        return self._make(layout.PROC, to_json(proc))

    def started(self, pid: int, start_ticks: int, session: int) -> None:
        """Publish the identity of the command."""
        self._own.files[COMMAND] = dumps({"pid": pid, "start_ticks": start_ticks, "session": session}).encode()

    def revoked(self) -> str | None:
        """Return the reason of a stop, None where there is none."""
        reason = self._own.files.get(layout.REVOKED)
        return None if reason is None else reason.decode()

    def over(self) -> str | None:
        """Return why nothing of the attempt counts any more; None as long as it does."""
        return self.revoked() or (ENDED if layout.EXIT in self._own.files else None)

    def asks(self) -> bool:
        """Tell whether an answer is waited for: nobody can hold a file in memory."""
        return False

    def newest_epoch(self) -> int:
        """Return the highest epoch of any conductor of this bus."""
        return self._bus.epoch

    def beat(self, evidence: JsonObject) -> None:
        """Beat."""
        self._own.beats += 1
        self._own.evidence = loads_strict(dumps(evidence).encode())

    def report_status(self, status: JsonObject) -> None:
        """Replace the worker status."""
        self._own.status = loads_strict(dumps(status).encode())

    def publish(self, message: Message, *, durable: bool = False) -> None:
        """Hand in a message. It goes through bytes, so that what a scan would refuse is refused here (ValueError)."""
        if message.attempt != self.attempt:
            raise ValueError(f"a message of {message.attempt} from the hand of {self.attempt}")
        message = decode_message(encode_message(message))
        check_content(message)
        self._bus.inbox[layout.message_name(message.attempt, message.id)] = message

    def report(self, message: Message) -> None:
        """Keep the payload of a REPORT for `exit.json`, then publish it."""
        self._own.files[layout.REPORT] = dumps(message.payload).encode()
        self.publish(message)

    def last_report(self) -> JsonObject | None:
        """Return the payload of the last REPORT; None where there is none."""
        body = self._own.files.get(layout.REPORT)
        return None if body is None else loads_strict(body)

    def finish(self, exit: ExitRecord, *, durable: bool = False) -> None:
        """Write the result (once), then publish RESULT with the same body."""
        message = result_message(self.attempt, to_json(exit))
        check_foreign(exit, message)
        if not self._make(layout.EXIT, to_json(exit)):
            raise AlreadyFinished(f"{self.attempt} has a result already")
        self.publish(message, durable=durable)

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
        """Return another value after each change."""
        return self._bus.locks.changes

    def begin_wait(self, kind: str, what: Iterable[str] = (), *, text: str = "", id: str | None = None) -> WaitFile:
        """Say that this hand waits."""
        return self._desk.begin_wait(kind, what, text, id)

    def end_wait(self, wait: WaitFile) -> None:
        """Say that it waits no more. Idempotent."""
        self._desk.end_wait(wait)

    def answer(self, id: str) -> str | None:
        """Take the answer to a question; None while there is none."""
        data = self._own.files.pop(f"{layout.IN}/{layout.answer_name(id)}", None)
        return None if data is None else data.decode(errors="replace")

    def texts(self) -> tuple[tuple[str, str], ...]:
        """Return (name, text) of what people sent to the attempt, in order."""
        named = ((name.removeprefix(f"{layout.IN}/"), data) for name, data in sorted(self._own.files.items()))
        return tuple((name, data.decode(errors="replace")) for name, data in named if layout.is_steer_name(name))

    def close(self) -> None:
        """Let go of all waits."""
        self._store.close()

    def _make(self, name: str, body: JsonObject) -> bool:
        if name in self._own.files:
            return False
        self._own.files[name] = dumps(body).encode()
        return True
