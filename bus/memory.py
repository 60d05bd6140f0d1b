"""The bus in memory: the same three sides under the same contract tests, for tests of whatever stands on it."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bus import blobs, layout
from bus.contract import (
    Claim,
    Control,
    Follower,
    Grant,
    Holder,
    Incoming,
    Quarantined,
    Scan,
    Snapshot,
    WaitFile,
)  # fmt: skip
from bus.errors import AttemptExists, BusCorrupt, BusGone, HeldByOther, JournalBlocked, NoSpace, Shortage
from bus.memory_hand import COMMAND, MemoryAttempt, MemoryHand
from bus.memory_locks import MemoryLocks, MemoryStore
from bus.projection import COMPLETE, FAILED, View
from bus.strict import loads_strict
from bus.times import utc
from bus.wire import (
    AttemptId,
    ExitRecord,
    JsonObject,
    Message,
    ProcRecord,
    Record,
    Stamp,
    TaskId,
    decode_record,
    dumps,
    encode_record,
    exit_from_json,
    proc_from_json,
)


@dataclass(slots=True)
class MemoryBus:
    """One bus. `host()` may be called again after the first was closed or `crash`ed: the journal stays."""

    lines: list[bytes] = field(default_factory=list)
    """The journal."""
    snapshots: list[Snapshot] = field(default_factory=list)
    """The last two, oldest first."""
    inbox: dict[str, Message] = field(default_factory=dict)
    orders: dict[str, Control] = field(default_factory=dict)
    events: dict[str, bytes] = field(default_factory=dict)
    """The projections by file name."""
    plans: dict[str, bytes] = field(default_factory=dict)
    views: dict[str, JsonObject] = field(default_factory=dict)
    quarantine: dict[str, str] = field(default_factory=dict)
    """What was refused, by name, with the reason."""
    blocked: bool = False
    """Set to make `commit` raise JournalBlocked."""
    full: bool = False
    """Set to make `create_attempt` raise NoSpace."""
    short: str | None = None
    """Set to make `create_attempt` and `lock_attempt` raise Shortage with this text."""
    paused: str | None = None
    """What the host told with `tell_pause`."""
    snapshot_every: int = 10_000
    """Records after which `checkpoint_due` says so."""
    epoch: int = 0
    locks: MemoryLocks = field(default_factory=MemoryLocks)
    _attempts: dict[AttemptId, MemoryAttempt] = field(default_factory=dict)
    _holder: Holder | None = None

    def host(self, *, follower: Follower | None = None) -> MemoryHost:
        """Take the track and bring `follower` to the end of the journal. Raises HeldByOther while a host is open."""
        if self._holder is not None:
            raise HeldByOther(f"another conductor holds the track (pid {self._holder.pid})")
        self.epoch += 1
        self._holder = Holder(os.getpid(), "memory", utc(), self.epoch)
        return MemoryHost(self, follower)

    def reader(self) -> MemoryReader:
        """Look at the bus."""
        return MemoryReader(self)

    def hand(self, attempt: AttemptId) -> MemoryHand:
        """A worker's side of an attempt. Raises BusGone where the attempt was never made."""
        layout.parse_attempt(attempt)
        if attempt not in self._attempts:
            raise BusGone(f"the bus has no attempt {attempt}")
        return MemoryHand(self, attempt)

    def drop(
        self, verb: str, *, target: str | None = None, text: str | None = None, who: str, epoch: int | None = None
    ) -> str:
        """Hand in an operator's order, as `bus.control.drop` does."""
        number = 1 + max((order.number for order in self.orders.values()), default=0)
        name = layout.control_name(number, verb)
        self.orders[name] = Control(name, number, verb, target, text, who, epoch, os.urandom(16).hex())
        return name

    def crash(self) -> None:
        """Let the conductor be gone: what it had not committed is lost, the track is free."""
        self._holder = None


class MemoryReader:
    """`bus.contract.Reader` in memory."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus

    def records(self, since: int = 0) -> Iterator[Record]:
        """Yield the journal's records with `seq > since`."""
        for line in self._bus.lines[:]:
            record = decode_record(line)
            if record.seq > since:
                yield record

    def records_about(self, tasks: Iterable[TaskId], since: int = 0) -> Iterator[Record]:
        """Yield the records with `seq > since`."""
        return self.records(since)

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the snapshots that are kept, newest first."""
        return reversed(self._bus.snapshots)

    def lost(self) -> tuple[tuple[int, int], ...]:
        """Memory loses nothing."""
        return ()

    def follow(self, follower: Follower, *, whole: bool = False) -> None:
        """Bring a follower to the end of the journal."""
        kept = () if whole else self.snapshots()
        since = next((found.seq for found in kept if follower.restore(found, self.load_plan)), 0)
        for record in self.records(since):
            follower.take(record, self.load_plan)

    def holder(self) -> Holder | None:
        """Return who runs the track now."""
        return self._bus._holder

    def not_ingested(self) -> int:
        """Count messages and controls that no conductor has read yet."""
        return len(self._bus.inbox) + len(self._bus.orders)

    def load_plan(self, sha: str) -> bytes:
        """Return a frozen plan; raises BusCorrupt where it is missing."""
        body = self._bus.plans.get(layout.plan_name(sha))
        if body is None:
            raise BusCorrupt("the frozen plan cannot be read: it is missing")
        return body

    def has_attempt(self, attempt: AttemptId) -> bool:
        """Tell whether the attempt was made."""
        return attempt in self._bus._attempts

    def read_exit(self, attempt: AttemptId) -> ExitRecord | None:
        """Return the attempt's result; None before it is written."""
        data = self._read(attempt, layout.EXIT)
        return None if data is None else exit_from_json(data)

    def read_proc(self, attempt: AttemptId) -> ProcRecord | None:
        """Return the worker's claim; None before it is made."""
        data = self._read(attempt, layout.PROC)
        return None if data is None else proc_from_json(data)

    def read_command(self, attempt: AttemptId) -> JsonObject | None:
        """Return the command's identity; None before it was started."""
        data: JsonObject | None = self._read(attempt, COMMAND)
        return data

    def is_live(self, attempt: AttemptId) -> bool:
        """Tell whether anybody still has the descriptor that `create_attempt` returned."""
        found = self._bus._attempts.get(attempt)
        if found is None:
            return False
        poll = select.poll()
        poll.register(found.watch, select.POLLHUP)
        return not poll.poll(0)

    def read_worker_status(self, attempt: AttemptId) -> JsonObject | None:
        """Return the worker's last report; None where there is none."""
        found = self._bus._attempts.get(attempt)
        return found.status if found else None

    def heartbeat(self, attempt: AttemptId) -> int | None:
        """Return a value that changes with each beat; None before the first."""
        found = self._bus._attempts.get(attempt)
        return found.beats or None if found else None

    def beat_of(self, attempt: AttemptId) -> JsonObject | None:
        """Return the evidence of the last beat; None before the first."""
        found = self._bus._attempts.get(attempt)
        return found.evidence if found else None

    def grants(self) -> tuple[Grant, ...]:
        """Return what is held, by token."""
        return tuple(MemoryStore(self._bus.locks).grants())

    def waits(self) -> tuple[WaitFile, ...]:
        """Return what is waited for, by attempt and id."""
        return tuple(MemoryStore(self._bus.locks).waits())

    def close(self) -> None:
        """Nothing is open."""

    def _read(self, attempt: AttemptId, name: str) -> Any:
        found = self._bus._attempts.get(attempt)
        data = found.files.get(name) if found else None
        return None if data is None else loads_strict(data)


class MemoryHost(MemoryReader):
    """`bus.contract.Host` in memory."""

    def __init__(self, bus: MemoryBus, follower: Follower | None = None) -> None:
        super().__init__(bus)
        self.epoch = bus.epoch
        self.notes: list[str] = []
        self._batch: list[bytes] = []
        self._set_aside: list[Quarantined] = []
        self._view = View()
        last = 0
        for record in self.records():
            last = record.seq
            self.project([record])
        self._seq = last
        if follower is not None:
            self.follow(follower)

    def stage(
        self,
        type: str,
        payload: JsonObject,
        t: Stamp,
        *,
        source: str = "conductor",
        task: TaskId | None = None,
        attempt: AttemptId | None = None,
        id: str | None = None,
    ) -> Record:
        """Add a record to the batch; nothing is written before `commit`."""
        self._seq += 1
        id = id or os.urandom(16).hex()
        record = Record(self._seq, self.epoch, t, id, type, source, utc(t.wall), task, attempt, payload)
        self._batch.append(encode_record(record))
        return record

    def commit(self) -> None:
        """Append the batch. Raises JournalBlocked while `MemoryBus.blocked` is set, BusGone after a `crash`."""
        holder = self._bus._holder
        if holder is None or holder.epoch != self.epoch:
            raise BusGone("the bus was taken by another conductor")
        if self._bus.blocked:
            raise JournalBlocked("the journal cannot be written")
        self._bus.lines += self._batch
        self._batch.clear()

    def checkpoint_due(self) -> bool:
        """Tell whether `MemoryBus.snapshot_every` records were added since the last snapshot."""
        newest = self._bus.snapshots[-1].seq if self._bus.snapshots else 0
        return len(self._bus.lines) - newest >= self._bus.snapshot_every

    def checkpoint(self, state: JsonObject) -> None:
        """Keep a snapshot of the state after the last committed record."""
        if self._batch:
            raise ValueError("a snapshot is of what is committed, and something is staged")
        if self._bus.lines and not self._bus.blocked:
            kept = [found for found in self._bus.snapshots if found.seq != self._seq]
            epoch = decode_record(self._bus.lines[-1]).epoch
            self._bus.snapshots = [*kept, Snapshot(self._seq, epoch, json.loads(dumps(state)))][-2:]

    def project(self, records: Iterable[Record]) -> None:
        """Make `MemoryBus.events` agree with these committed records. Idempotent."""
        for record in records:
            gone, come = self._view.apply(record)
            for name in gone:
                self._bus.events.pop(name, None)
            self._bus.events.update(come)

    def scan(self, running: Mapping[TaskId, AttemptId] | None = None, manual: Sequence[TaskId] = ()) -> Scan:
        """Return what was handed in; it stays until `discard`."""
        messages = sorted((Incoming(*item) for item in self._bus.inbox.items()), key=_order)
        aside, self._set_aside = tuple(self._set_aside), []
        orders = tuple(order for _, order in sorted(self._bus.orders.items()))
        return Scan(tuple(messages), orders, aside, claims=self._claims(manual))

    def _claims(self, manual: Sequence[TaskId]) -> tuple[Claim, ...]:
        """Files in `events` that are none of ours."""
        asked = ((type, task, layout.event_name(type, task)) for task in manual for type in (COMPLETE, FAILED))
        return tuple(
            Claim(name, task, type, self._bus.events[name].decode().strip() or None)
            for type, task, name in asked
            if name in self._bus.events and not self._view.shows(type, task)
        )

    def discard(self, items: Iterable[Incoming | Control]) -> None:
        """Remove what is committed."""
        for item in items:
            self._bus.inbox.pop(item.name, None)
            self._bus.orders.pop(item.name, None)

    def refuse(self, item: Incoming | Control, reason: str) -> None:
        """Set aside what cannot be acted on, with the reason."""
        self._bus.quarantine[item.name] = reason
        self._set_aside.append(Quarantined(item.name, reason))
        self.discard([item])

    def settle(self, claims: Iterable[tuple[Claim, str]]) -> None:
        """Set aside what did not lead to its event."""
        for claim, reason in claims:
            if not self._view.shows(claim.type, claim.task) and self._bus.events.pop(claim.name, None) is not None:
                self._bus.quarantine[claim.name] = reason
                self._set_aside.append(Quarantined(claim.name, reason, claim.task))

    def set_durability(self, durability: str) -> None:
        """Memory survives nothing, whatever is asked for."""

    def freeze_plan(self, body: bytes) -> str:
        """Keep a plan under its SHA-256 and return that."""
        sha = blobs.digest(body)
        self._bus.plans[layout.plan_name(sha)] = body
        return sha

    def create_attempt(self, attempt: AttemptId, files: Mapping[str, bytes] | None = None) -> int:
        """Make the attempt; it is live until the returned descriptor, and all that were made of it, are closed."""
        if self._bus.full:
            raise NoSpace("the bus cannot be written")
        self._need_descriptors()
        layout.parse_attempt(attempt)
        if attempt in self._bus._attempts:
            raise AttemptExists(f"the attempt {attempt} was made before")
        watch, live = os.pipe()
        self._bus._attempts[attempt] = MemoryAttempt(watch, dict(files or {}))
        return live

    def lock_attempt(self, attempt: AttemptId) -> int:
        """Make an attempt live again that got no worker."""
        self._need_descriptors()
        if self.is_live(attempt):
            raise Shortage("the lock of the attempt is held")
        found = self._bus._attempts[attempt]
        os.close(found.watch)
        found.watch, live = os.pipe()
        return live

    def _need_descriptors(self) -> None:
        if self._bus.short is not None:
            raise Shortage(self._bus.short)

    def tell_pause(self, why: str | None) -> None:
        """Let those who look know."""
        self._bus.paused = why

    def revoke(self, attempt: AttemptId, reason: str) -> None:
        """Tell the worker to stop. Idempotent: the first reason stays."""
        found = self._bus._attempts.get(attempt)
        if found is not None:
            found.files.setdefault(layout.REVOKED, reason.encode())

    def close_attempt(self, attempt: AttemptId) -> None:
        """Remove heartbeat, worker status, grants and waits. Idempotent."""
        self._bus.locks.close(attempt)
        found = self._bus._attempts.get(attempt)
        if found is not None:
            found.beats = 0
            found.evidence = None
            found.status = None

    def disown(self, attempt: AttemptId, reason: str) -> None:
        """Set aside the result of an attempt, and forget its beats."""
        if (found := self._bus._attempts.get(attempt)) is not None:
            found.beats, found.evidence = 0, None
            if found.files.pop(layout.EXIT, None) is not None:
                self._bus.quarantine[f"{attempt}/{layout.EXIT}"] = reason

    def take_grants(self, grants: Iterable[Grant]) -> None:
        """End grants by force. Idempotent."""
        for grant in grants:
            MemoryStore(self._bus.locks).remove(grant)

    def deliver(self, attempt: AttemptId, name: str, data: bytes) -> None:
        """Lay a text into the attempt's `in/`. Idempotent: the first one of a name stays."""
        found = self._bus._attempts.get(attempt)
        if found is not None:
            found.files.setdefault(f"{layout.IN}/{layout.check_text_name(name)}", data)

    def write_views(self, locks: JsonObject, workers: JsonObject) -> None:
        """Replace the two views."""
        self._bus.views.update({layout.LOCKS_VIEW: locks, layout.WORKERS_VIEW: workers})

    def close(self) -> None:
        """Give up the track."""
        self._bus._holder = None


def _order(item: Incoming) -> tuple[str, bool, str, str]:
    message = item.message
    return message.attempt, message.type == "RESULT", message.timestamp, message.id
