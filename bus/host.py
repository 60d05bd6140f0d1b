"""The conductor's side of the bus, over the directory."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bus import attempts, blobs, layout, setup
from bus._fs import FileSystem, passes, why
from bus.batch import Batch
from bus.contract import Claim, Control, Follower, Incoming, Scan, Snapshot
from bus.errors import AttemptExists, BusCorrupt, BusError, JournalBlocked, NoSpace, Shortage
from bus.folders import Folders
from bus.host_locks import HostLocks
from bus.inbox import Inbox
from bus.lock import Ours, take_lock
from bus.process import is_shortage
from bus.projection import Projection, archived
from bus.quarantine import Quarantine
from bus.recovery import Recovery, open_journal
from bus.reserve import BEFORE_TIME, Reserve
from bus.results import is_plain_result
from bus.room import remedy
from bus.segments import Files
from bus.snapshots import Keeper
from bus.times import utc
from bus.upkeep import Upkeep
from bus.wire import AttemptId, JsonObject, Message, Record, Stamp, TaskId

_SWEEP_EVERY = 64
"""Attempts closed between two looks into `tmp/`."""
T = TypeVar("T")

Manual = Callable[[], Iterable[TaskId]]

_RECOVERY = layout.epoch_name(0)
"""Owner of scratch files before the new epoch is known."""


class FileHost(HostLocks):
    """`bus.contract.Host` over a directory. Made by `open_host`."""

    def __init__(
        self,
        folders: Folders,
        lock: int,
        follower: Follower | None,
        *,
        sync: bool,
        info: Mapping[str, Any],
        manual: Manual,
    ) -> None:
        super().__init__(folders)
        self._ours = Ours(folders, lock)
        self._reserve = Reserve(folders)
        self._quarantine = Quarantine(folders, self._ours.check)
        self._inbox = Inbox(folders, self._quarantine, _check_content)
        self._upkeep = Upkeep(folders, self._quarantine)
        folders.evict = self._upkeep.evict
        self._lock = lock
        self.notes: list[str] = []
        """What was repaired or moved at the start, for people."""
        self._now = BEFORE_TIME
        """The conductor's clock at the last record that was staged."""
        self.notes += self._in_room(lambda: setup.furnish(folders, self._ours.check_lock, sync=sync))
        self._sync = sync
        self._ids = _random_ids()
        self._ended: set[str] = set()
        self._recorded_epoch = 0
        """Highest epoch of a committed record."""
        self._keeper = Keeper(folders)
        self._projection = Projection(folders, "operator.event", self._ours.check)
        self._owner = self._upkeep.owner = _RECOVERY
        self._about = {**info, "pid": os.getpid(), "host": socket.gethostname(), "started_at": utc()}
        with contextlib.suppress(OSError):  # only for who starts or looks while we recover
            self._upkeep.write_holder({**self._about, "epoch": 0})
        self._journal, files = self._in_room(
            lambda: open_journal(folders, _RECOVERY, self._keep, self.notes.append, self._ours.check_lock, sync=sync)
        )
        self._ours.journal = lambda: self._journal.identity
        self._journal.check = self._ours.check
        try:
            self._begin(files, follower, manual)
        except BaseException:
            self._journal.close()
            raise

    def _begin(self, files: Files, follower: Follower | None, manual: Manual) -> None:
        """Bring what follows from the journal to its end, and begin an epoch."""
        past = Recovery(
            self.folders, self._journal, files, self._projection, self._keeper, self.load_plan, owner=_RECOVERY
        )
        if foreign := past.run(follower, manual):
            self.notes.append(archived(foreign))
        self._recorded_epoch = past.epoch
        self._in_room(lambda: setup.write_wrapper(self.folders, self._quarantine, _RECOVERY))
        at_least, check = past.epoch, self._ours.check
        self.epoch = self._in_room(lambda: setup.take_epoch(self.folders, at_least, check, sync=self._sync))
        self._owner = self._upkeep.owner = layout.epoch_name(self.epoch)
        self._batch = Batch(self.folders, self._journal, self._keep, self._owner, past.seq)
        self._projection.scratch = f"{self._owner}.event"
        self._upkeep.write_holder({**self._about, "epoch": self.epoch})
        self._clear_up()
        self._reserve.begin(self._owner)

    def _in_room(self, action: Callable[[], T]) -> T:
        """Write what nothing goes on without; where the disk is full, in the room of the reserve."""
        try:
            return action()
        except OSError as error:
            self._upkeep.room.lost(error)
            if not self._reserve.release(error, self._now):
                raise
            self.notes.append(f"{why(error)}: the reserve of the bus was given up")
            return action()

    def _clear_up(self) -> None:
        """Remove what attempts and epochs have left that are over, whenever they ended."""
        over, dead = attempts.strays(self.folders, self._owner)
        for attempt in dead:
            with contextlib.suppress(OSError):
                self._upkeep.close_attempt(attempt)
        self._ours.check()
        setup.sweep(self.folders, over)
        self._upkeep.expel_from_locks()

    # --- journal ----------------------------------------------------------------------------------------------------

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
        record = Record(
            seq=self._batch.last + 1,
            epoch=self.epoch,
            t=Stamp(t.wall, t.mono, t.boot, self._batch.first),
            id=id or next(self._ids),
            type=type,
            source=source,
            timestamp=utc(t.wall),
            task=task,
            attempt=attempt,
            payload=payload,
        )
        self._batch.add(record)
        self._now = t.mono
        return record

    def commit(self) -> None:
        """Append the batch with one write. Raises JournalBlocked where the disk is full or read-only (the batch is
        kept), BusGone where the bus is not ours any more: then nothing was written."""
        if self._batch.is_empty:
            return
        self._ours.check()
        try:
            self._keeper.behind += self._in_room(self._batch.write)
        except OSError as error:
            raise self._unwritten(error) from error
        self._recorded_epoch = self.epoch
        self._batch.clear()
        self._batch.rotate()
        self._reserve.look(self._owner, self._now)

    def _unwritten(self, error: OSError) -> BusError:
        if passes(error):
            return JournalBlocked(f"the bus cannot be written: {why(error)}", path=self.folders.path)
        self._ours.check()  # whoever took the track over may have swept our scratch file
        return BusError(f"the bus cannot be written: {why(error)}", path=self.folders.path)

    def checkpoint_due(self) -> bool:
        """Tell whether so much was journaled since the last snapshot that another one pays."""
        return self._keeper.is_due() and not self._projection.is_behind

    def checkpoint(self, state: JsonObject) -> None:
        """Keep a snapshot of the state after the last committed record; nothing where the disk is full, and while
        `events/` is behind: the next start would not see that."""
        if not self._batch.is_empty:
            raise ValueError("a snapshot is of what is committed, and something is staged")
        if not self._batch.last or self._projection.is_behind:
            return
        snapshot = Snapshot(self._batch.last, self._recorded_epoch, state)
        scratch, events = f"{self._owner}.snapshot", self._projection.view.dump()
        self._keeper.keep(scratch, snapshot, self._journal.place, events, synced=self._sync)

    def _keep(self, data: bytes, reason: str, *, foreign: bool = False) -> None:
        kept = self._quarantine.keep(layout.JOURNAL, data, reason, sync=self._sync, foreign=foreign)
        self.notes.append(f"{layout.JOURNAL}: {reason}; {len(data)} bytes were moved to quarantine/{kept.name}")

    def project(self, records: Iterable[Record]) -> None:
        """Make `events/` agree with these committed records. Idempotent."""
        self._projection.project(records)

    # --- what others hand in ----------------------------------------------------------------------------------------

    def scan(self, running: Mapping[TaskId, AttemptId] | None = None, manual: Sequence[TaskId] = ()) -> Scan:
        """Read `inbox/` and `control/`, and look in `events/` for claims about tasks in `running` and `manual`."""
        self._ours.check()
        self._upkeep.again()
        found = self._inbox.scan()
        claims = self._upkeep.look_for_claims(running or {}, manual, self._projection.expects)
        if blocked := self._upkeep.look_at_disk():
            self._reserve.lend(map(self.read_proc, (running or {}).values()), self._now)
        return replace(found, quarantined=self._quarantine.take_found(), claims=claims, blocked=blocked)

    def discard(self, items: Iterable[Incoming | Control]) -> None:
        """Remove files whose record is committed, now or later."""
        self._inbox.discard(items)

    def refuse(self, item: Incoming | Control, reason: str) -> None:
        """Move a file that cannot be acted on to quarantine, now or later; a later scan tells of it."""
        self._inbox.refuse(item, reason)

    def settle(self, claims: Iterable[tuple[Claim, str]]) -> None:
        """Set aside claims that are recorded and did not lead to their event. They are not found again."""
        self._upkeep.settle_claims(claims, self._projection.expects)

    def tell_pause(self, why: str | None) -> None:
        """Let `conductor.json` say why nothing is started; None: that is over."""
        self._upkeep.tell_pause(why)

    def set_durability(self, durability: str) -> None:
        """Switch between `power` and `process` for what is committed from now on."""
        self._sync = self._journal.sync = is_power(durability)

    # --- attempts and plans -----------------------------------------------------------------------------------------

    def freeze_plan(self, body: bytes) -> str:
        """Keep a plan under its SHA-256 and return that."""
        sha = blobs.digest(body)
        name = layout.plan_name(sha)
        try:
            at = self.folders.refresh(layout.PLAN)
            if name in self.fs.names(at):
                try:
                    self.load_plan(sha)
                except BusCorrupt as error:
                    self._quarantine.take(name, at, error.message)
                else:
                    if not self._sync:
                        return sha
            # Anew also where it is there: who made it may have been killed, or told that it is not on disk.
            scratch = f"{self._owner}.plan"
            self._in_room(lambda: self.fs.replace(scratch, self._tmp, name, at, body, sync=self._sync))
        except OSError as error:
            self._ours.check()
            kind = NoSpace if passes(error) else BusError
            raise kind(f"the plan cannot be kept: {why(error)}", path=self.folders.path, hint=remedy(error)) from error
        return sha

    def create_attempt(self, attempt: AttemptId, files: Mapping[str, bytes] | None = None) -> int:
        """Make the attempt's folder with `live` locked and `files` in it; return the descriptor of `live`.

        Raises AttemptExists, NoSpace and Shortage.
        """
        layout.parse_attempt(attempt)
        try:
            self._upkeep.expel_epoch(self.epoch + 1, self._ours.check)
            return attempts.create(self.folders, self._owner, attempt, files or {})
        except OSError as error:
            if error.errno in attempts.TAKEN and self.has_attempt(attempt):
                raise AttemptExists(f"the attempt {attempt} was made before", path=self.folders.path) from error
            if is_shortage(error):
                raise Shortage(why(error), path=self.folders.path) from error
            if passes(error):
                self._upkeep.room.lost(error)
                raise NoSpace(f"the bus cannot be written: {why(error)}", path=self.folders.path) from error
            raise

    def lock_attempt(self, attempt: AttemptId) -> int:
        """Lock `live` again of an attempt that got no worker; return its descriptor. Raises Shortage."""
        try:
            return attempts.lock(self.folders, attempt)
        except OSError as error:
            if is_shortage(error):
                raise Shortage(why(error), path=self.folders.path) from error
            raise

    def revoke(self, attempt: AttemptId, reason: str) -> None:
        """Write `revoked`, now or as soon as the disk has room. Idempotent: the first reason stays."""
        self._upkeep.revoke(attempt, reason)

    def close_attempt(self, attempt: AttemptId) -> None:
        """Remove heartbeat, status, scratch, grants and waits of an attempt whose end is journaled. Idempotent."""
        self._upkeep.close_attempt(attempt)
        self._upkeep.drop_locks(attempt)
        self._ended.add(attempt)
        if len(self._ended) >= _SWEEP_EVERY:
            self._sweep()

    def disown(self, attempt: AttemptId, reason: str) -> None:
        """Set aside the result of an attempt, and forget its beats."""
        self._upkeep.disown(attempt, reason)

    def write_views(self, locks: JsonObject, workers: JsonObject) -> None:
        """Replace `locks.json` and `worker-status.json` where they have changed, and where the disk has room."""
        self._upkeep.write_view(layout.LOCKS_VIEW, locks)
        self._upkeep.write_view(layout.WORKERS_VIEW, workers)

    def close(self) -> None:
        """Give up the track. The lock file stays."""
        self._sweep()
        if self._upkeep.room.failed and self._recorded_epoch < self.epoch:
            setup.drop_epoch(self.folders, self.epoch, self._ours.check)
        self._journal.close()
        self.fs.close(self._lock)
        super().close()

    def _sweep(self) -> None:
        if self._ended:
            setup.sweep(self.folders, self._ended)
            self._ended.clear()

    @property
    def _tmp(self) -> int:
        return self.folders.refresh(layout.TMP)


def open_host(
    root: Path | str,
    *,
    durability: str = "power",
    unsafe_fs: bool = False,
    info: Mapping[str, Any] | None = None,
    fs: FileSystem | None = None,
    follower: Follower | None = None,
    manual: Manual = tuple,
) -> FileHost:
    """Take the track: make the bus if it is missing, lock it, repair the journal's end, begin an epoch.

    `durability` is `power` (acknowledged records survive a power cut) or `process` (they survive the end of any
    process). `info` is added to `conductor.json`. `follower` is brought to the end of the journal; then `manual`
    returns the tasks about which people may have made a claim in `events/` (`Scan.claims`), and all else there that
    does not follow from the journal is archived. Raises HeldByOther, BusUnsafe (not with `unsafe_fs`), BusFormat,
    BusCorrupt, BusError.
    """
    fs = fs or FileSystem()
    folders = setup.make_root(fs, os.fspath(root), unsafe=unsafe_fs, sync=is_power(durability))
    lock = -1
    try:
        lock = take_lock(folders, unsafe=unsafe_fs)
        return FileHost(folders, lock, follower, sync=is_power(durability), info=info or {}, manual=manual)
    except OSError as error:
        _let_go(folders, lock)
        raise BusError(f"the bus cannot be used: {why(error)}", path=folders.path, hint=remedy(error)) from error
    except BaseException:
        _let_go(folders, lock)
        raise


def is_power(durability: str) -> bool:
    """Tell `power` from `process`; raises ValueError for anything else."""
    if durability not in ("power", "process"):
        raise ValueError(f"durability is `power` or `process`, not {durability!r}")
    return durability == "power"


def _let_go(folders: Folders, lock: int) -> None:
    if lock >= 0:
        folders.fs.close(lock)
    folders.close()


def _random_ids() -> Iterator[str]:
    while True:
        pool = os.urandom(4096).hex()
        yield from (pool[start : start + 32] for start in range(0, len(pool), 32))


def _check_content(message: Message) -> None:
    if message.type == "RESULT" and is_plain_result(message.payload):
        return
    from bus.schema import check_content  # pydantic is loaded when somebody hands something else in, not before

    check_content(message)
