"""The three sides of a bus, as protocols. The directory (`bus.host`, `bus.reader`, `bus.hand`) and `MemoryBus` keep the
same contract, tested by one suite.

* a *hand* (worker, or its command) publishes messages and the files of its own attempt;
* the *host* (the one conductor) reads them, keeps the journal and the projections;
* a *reader* (status, why, logs, events) only looks: it takes no lock and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bus.grants import Busy as Busy
from bus.grants import Grant as Grant
from bus.grants import WaitFile as WaitFile
from bus.wire import AttemptId, ExitRecord, JsonObject, Message, ProcRecord, Record, Stamp, TaskId


@dataclass(frozen=True, slots=True)
class Incoming:
    """A valid message found in `inbox/`."""

    name: str
    """File name, for `discard`."""
    message: Message


@dataclass(frozen=True, slots=True)
class Control:
    """An operator's order found in `control/`."""

    name: str
    number: int
    verb: str
    target: str | None = None
    text: str | None = None
    who: str = "operator"
    epoch: int | None = None
    id: str | None = None
    """32 hex digits that this order alone has: one that is recorded, and found again, is not recorded twice."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a person says of a task by a file in `events/`: it is complete, or it failed."""

    name: str
    """File name. It stays where it is until `settle`: the event that it leads to is put in its place."""
    task: TaskId
    type: str
    """TASK_COMPLETE or TASK_FAILED."""
    text: str | None = None
    """What the file says; most are empty."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Something found that is not what its place asks for: moved to `quarantine/` with the reason beside it."""

    name: str
    """In `quarantine/`; where it could not be moved there, the path below the bus under which it still lies."""
    reason: str
    task: TaskId | None = None
    attempt: AttemptId | None = None
    """What it is about, where it is a claim about a running attempt."""
    foreign: bool = False
    """Whether a foreign hand wrote into a file that only the conductor writes."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What one look at `inbox/` and `control/` found, in a fixed order (never by mtime).

    Messages: sorted by attempt (text order), then RESULT last, then time stamp and id. Controls: by number.
    """

    messages: tuple[Incoming, ...] = ()
    controls: tuple[Control, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    """All that was set aside since the last look, in the other folders too."""
    more: bool = False
    """Whether messages lie there that this look did not come to: nothing may be concluded from what is missing."""
    trouble: str | None = None
    """Why a folder could not be looked at now; the next look tries again."""
    blocked: str | None = None
    """Why the bus cannot be written now, though perhaps nothing had to be: nothing should be started meanwhile."""
    claims: tuple[Claim, ...] = ()
    """What people claim of the manual tasks that were asked for; found again until the journal says it too."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the track, as far as `conductor.json` says. Believed only together with a held lock."""

    pid: int
    host: str
    started_at: str
    epoch: int
    """0 while it recovers: it reads no orders yet."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state that follows from the journal, kept so that a start need not read the journal from its beginning."""

    seq: int
    """The state is the one after this record."""
    epoch: int
    """Highest epoch seen by then."""
    state: JsonObject
    """What `Follower.dump` returned; the bus does not look into it."""


class Follower(Protocol):
    """Keeps a state that follows from the journal."""

    def restore(self, snapshot: Snapshot, load_plan: Callable[[str], bytes]) -> bool:
        """Begin from a snapshot; False where it is not understood. Nothing is changed then, and an older one or the
        whole journal follows."""

    def take(self, record: Record, load_plan: Callable[[str], bytes]) -> None:
        """Take in the next record."""

    def dump(self) -> JsonObject | None:
        """Return the state as JSON data; None where no snapshot can be taken of this moment."""


class Reader(Protocol):
    """Looking. Every method may be called while a conductor and workers write."""

    def records(self, since: int = 0) -> Iterator[Record]:
        """Yield the journal's records with `seq > since`, in order; stops before a line still being written."""

    def records_about(self, tasks: Iterable[TaskId], since: int = 0) -> Iterator[Record]:
        """Yield the records with `seq > since` of these tasks and of the run, in order; those of other tasks may be
        left out."""

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the sound snapshots whose place fits the journal, newest first."""

    def lost(self) -> tuple[tuple[int, int], ...]:
        """Return (first, last) of each span of records that a repair had to give up; `records` passes over them."""

    def follow(self, follower: Follower, *, whole: bool = False) -> None:
        """Bring a follower to the end of the journal: from the newest snapshot that it restores (from none with
        `whole`), then by every record behind it. `records(since)` goes on from there at no cost.

        Raises BusCorrupt also where records were lost and no snapshot leads over the gap.
        """

    def holder(self) -> Holder | None:
        """Return who runs the track now; None where the lock is free."""

    def not_ingested(self) -> int:
        """Count messages and controls that no conductor has read yet."""

    def load_plan(self, sha: str) -> bytes:
        """Return a frozen plan; raises BusError where it is missing or its hash is wrong."""

    def has_attempt(self, attempt: AttemptId) -> bool:
        """Tell whether the attempt's folder is there."""

    def read_exit(self, attempt: AttemptId) -> ExitRecord | None:
        """Return the attempt's result; None before it is written, and where the file is not what it must be."""

    def read_proc(self, attempt: AttemptId) -> ProcRecord | None:
        """Return the worker's claim; None before it is made, and where the file is not what it must be."""

    def read_command(self, attempt: AttemptId) -> JsonObject | None:
        """Return `{"pid", "start_ticks", "session"}` of the attempt's command; None before it was started."""

    def is_live(self, attempt: AttemptId) -> bool:
        """Tell whether a worker holds the attempt's lock (LOCK_SH|LOCK_NB probe)."""

    def read_worker_status(self, attempt: AttemptId) -> JsonObject | None:
        """Return the worker's last report `{"progress_pct", "phase", "text", "usage"}`; None where there is none."""

    def heartbeat(self, attempt: AttemptId) -> int | None:
        """Return an opaque value that changes with each beat; None before the first. Not a time to compare."""

    def beat_of(self, attempt: AttemptId) -> JsonObject | None:
        """Return the evidence of the last beat, as `Hand.beat` was given it; None before the first, and where it
        cannot be read."""

    def grants(self) -> tuple[Grant, ...]:
        """Return what is held, by token. A host sets aside what is no grant."""

    def waits(self) -> tuple[WaitFile, ...]:
        """Return what is waited for by processes that live, by attempt and id. A host removes those of dead ones."""

    def close(self) -> None:
        """Close what was opened."""


class Host(Reader, Protocol):
    """The conductor's side. One at a time: opening it takes `conductor.lock` and a new epoch."""

    epoch: int

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
        """Add a record to the batch in memory; nothing is written before `commit`."""

    def commit(self) -> None:
        """Append the batch with one write (and one fdatasync in `power`). Raises JournalBlocked where the disk is
        full or read-only: the batch is kept, the file is as before, and `commit` may be called again."""

    def checkpoint_due(self) -> bool:
        """Tell whether so much was journaled since the last snapshot that another one pays."""

    def checkpoint(self, state: JsonObject) -> None:
        """Keep a snapshot of the state after the last committed record. To be called at the end of a pass, with no
        record staged. It is only a saving: where the disk is full, nothing is kept and nothing is raised."""

    def project(self, records: Iterable[Record]) -> None:
        """Make `events/` agree with these committed records. Idempotent."""

    def scan(self, running: Mapping[TaskId, AttemptId] | None = None, manual: Sequence[TaskId] = ()) -> Scan:
        """Read `inbox/` and `control/`, and look in `events/` for hand-made claims: about the tasks in `running` they
        are set aside, as only the attempt's own end counts; about those in `manual`, which wait for a person, they are
        told.

        Found files stay until `discard` or `refuse`. One look is bounded: see `Scan.more`. What earlier calls could
        not write because the disk was full is done first. Errors that pass are told in `Scan.trouble`.
        """

    def discard(self, items: Iterable[Incoming | Control]) -> None:
        """Remove files whose record is committed. What cannot be removed now is later, and not found again before."""

    def refuse(self, item: Incoming | Control, reason: str) -> None:
        """Move a file that cannot be acted on to quarantine; a later scan tells of it. What cannot be moved now is
        later, and not found again before."""

    def settle(self, claims: Iterable[tuple[Claim, str]]) -> None:
        """These claims are recorded: set aside, for the reason named, what did not lead to the event that it claims. It
        is not found again, even where it cannot be moved."""

    def set_durability(self, durability: str) -> None:
        """Switch between `power` and `process` for what is committed from now on."""

    def freeze_plan(self, body: bytes) -> str:
        """Keep a plan under its SHA-256 and return that."""

    def create_attempt(self, attempt: AttemptId, files: Mapping[str, bytes] | None = None) -> int:
        """Make the attempt's folder with `live` locked and `files` in it; return the descriptor of `live`.

        Raises NoSpace where the disk is full or read-only, Shortage where something else ran short; nothing of the
        attempt is there then. Raises AttemptExists where the folder is there already: a journal that lost its end names
        an attempt again that was launched. The folder appears whole, by rename. Whoever has the descriptor holds the
        lock: pass it on and close it.
        """

    def lock_attempt(self, attempt: AttemptId) -> int:
        """Return the descriptor of `live`, locked, of an attempt that this host made and of which no worker came.

        Raises Shortage where it cannot be opened or locked now (somebody looks whether it is held).
        """

    def tell_pause(self, why: str | None) -> None:
        """Let `conductor.json` say why nothing is started although the bus can be written; None: that is over."""

    def revoke(self, attempt: AttemptId, reason: str) -> None:
        """Write `revoked`; the worker looks at it at least every 500 ms. Idempotent: the first reason stays."""

    def close_attempt(self, attempt: AttemptId) -> None:
        """Remove heartbeat, worker status, scratch, grants and waits of an attempt whose end is journaled. Idempotent:
        also for a grant that a process of it made behind its end."""

    def disown(self, attempt: AttemptId, reason: str) -> None:
        """Set aside the result of an attempt, and forget its beats: nobody can judge them."""

    def take_grants(self, grants: Iterable[Grant]) -> None:
        """End grants by force. Idempotent. What cannot be removed now is later."""

    def deliver(self, attempt: AttemptId, name: str, data: bytes) -> None:
        """Lay a text into the attempt's `in/`, whole, now or as soon as the disk has room: `layout.steer_name`,
        `layout.answer_name`. Idempotent: the first one of a name stays."""

    def write_views(self, locks: JsonObject, workers: JsonObject) -> None:
        """Replace `locks.json` and `worker-status.json`. The caller keeps to one call a second."""

    def close(self) -> None:
        """Give up the track. The lock file stays."""


class Hand(Protocol):
    """A worker's side of its own attempt."""

    attempt: AttemptId

    def claim(self, proc: ProcRecord) -> bool:
        """Publish `proc.json`; False where another process has claimed the attempt before."""

    def started(self, pid: int, start_ticks: int, session: int) -> None:
        """Publish the identity of the command, after `claim`. May be called again after an error."""

    def revoked(self) -> str | None:
        """Return the reason of a stop, None where there is none."""

    def newest_epoch(self) -> int:
        """Return the highest epoch of any conductor of this bus."""

    def asks(self) -> bool:
        """Tell whether something of the attempt waits for the answer of a person; False where that cannot be told."""

    def beat(self, evidence: JsonObject) -> None:
        """Replace the heartbeat, making it at the first call, by signs of life with their ages (`worker.signs`). Where
        there is no room for them, the beat alone is made."""

    def report_status(self, status: JsonObject) -> None:
        """Replace the worker status. The caller keeps to one call a second."""

    def publish(self, message: Message, *, durable: bool = False) -> None:
        """Hand in a message: whole or not at all."""

    def report(self, message: Message) -> None:
        """Keep the payload of a REPORT for `exit.json` (the last one counts), then publish it."""

    def last_report(self) -> JsonObject | None:
        """Return the payload of the last REPORT; None where there is none, or none that can be read. OSError for a
        shortage."""

    def finish(self, exit: ExitRecord, *, durable: bool = False) -> None:
        """Write `exit.json` (once; a second call raises AlreadyFinished), then publish RESULT with the same body.

        Raises WireError, with nothing written, where the record would be refused as a message: too long or too deep,
        which only its foreign parts can be (`report`, `final_record`).
        """

    def over(self) -> str | None:
        """Return why nothing of the attempt counts any more: the reason of a stop, or that it has its result. None as
        long as it does. For what runs in the attempt; its worker looks at `revoked`."""

    def try_lock(
        self,
        wanted: Iterable[tuple[str, bool]],
        *,
        queue: bool = False,
        lasting: bool = False,
        patience: float | None = None,
    ) -> tuple[Grant, ...] | Busy:
        """Lock (canonical key, shared) pairs for the attempt, all or none; return the grants that cover them.

        What the attempt holds already is no hindrance, and is returned where it covers all. With `queue` a busy call
        leaves a place in the queue, which a later call with the same pairs goes on from and which `end_wait`, or the
        end of this process, gives up. What is `lasting` no `unlock` ends, only the end of the attempt. Who makes grants
        is alone for a moment; `patience`: seconds to wait for that, 30 by default. Raises AttemptRevoked where the
        attempt is `over`, Shortage where another program stands still in that moment, OSError, BusError, ValueError for
        pairs that cannot be locked.
        """

    def unlock(self, keys: Iterable[str] | None = None, *, patience: float | None = None) -> tuple[str, ...]:
        """Release these keys, or all of the attempt; return those that it held. What is `lasting` stays. `patience`,
        Shortage: as `try_lock`."""

    def release(self, grants: Iterable[Grant], *, patience: float | None = None) -> None:
        """Release these grants of the attempt, and what is left of them where a part was unlocked; what is `lasting`
        stays. Idempotent. `patience`, Shortage: as `try_lock`."""

    def lasting(self) -> tuple[Grant, ...]:
        """Return the grants of the attempt that no `unlock` ends."""

    def made(self, grant: Grant) -> bool:
        """Tell whether this hand made the grant, or what it is a part of: it did not only get it back."""

    def lock_changes(self) -> object:
        """Return a value that is another one once a grant or a wait has come or gone, except perhaps for the second of
        two at the same moment. It costs much less than a look."""

    def begin_wait(self, kind: str, what: Iterable[str] = (), *, text: str = "", id: str | None = None) -> WaitFile:
        """Say that this process waits: for tasks (`task`), or for a person's answer (`question`)."""

    def end_wait(self, wait: WaitFile) -> None:
        """Say that it waits no more. Idempotent."""

    def answer(self, id: str) -> str | None:
        """Take the answer to a question; None while there is none. A second call returns it no more."""

    def texts(self) -> tuple[tuple[str, str], ...]:
        """Return (name, text) of what people sent to the attempt, in order."""

    def close(self) -> None:
        """Close what was opened, and with it all waits. What is locked stays so."""
