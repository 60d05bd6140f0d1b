"""The conductor's side of the bus, over the directory."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bus import blobs, layout, setup
from bus._fs import FileSystem, passes, why
from bus.contract import Control, Follower, Incoming, Scan, Snapshot
from bus.errors import AttemptExists, BusCorrupt, BusError, JournalBlocked, NoSpace
from bus.folders import Folders
from bus.inbox import Inbox
from bus.lock import Ours, take_lock
from bus.projection import Projection
from bus.quarantine import Quarantine
from bus.reader import FileReader
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

_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY})
"""Errors of a rename onto a folder that holds something."""

T = TypeVar("T")

_RECOVERY = layout.epoch_name(0)
"""Owner of scratch files before the new epoch is known."""


class FileHost(FileReader):
    """`bus.contract.Host` over a directory. Made by `open_host`."""

    def __init__(
        self, folders: Folders, lock: int, follower: Follower | None, *, sync: bool, info: Mapping[str, Any]
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
        self._seq = 0
        self._batch: list[tuple[bytes, tuple[str, bytes] | None]] = []
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
            self._begin(files, follower)
        except BaseException:
            self._journal.close()
            raise

    def _begin(self, files: Files, follower: Follower | None) -> None:
        """Bring what follows from the journal to its end, and begin an epoch."""
        past = Recovery(
            self.folders, self._journal, files, self._projection, self._keeper, self.load_plan, owner=_RECOVERY
        )
        for name in past.run(follower):
            self.notes.append(f"events/{name} does not follow from the journal and was archived")
        self._seq, self._recorded_epoch = past.seq, past.epoch
        self._in_room(lambda: setup.write_wrapper(self.folders, self._quarantine, _RECOVERY))
        at_least, check = past.epoch, self._ours.check
        self.epoch = self._in_room(lambda: setup.take_epoch(self.folders, at_least, check, sync=self._sync))
        self._owner = self._upkeep.owner = layout.epoch_name(self.epoch)
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
        """Remove what attempts and epochs have left that are over, whenever they ended: whose lock is free, of that
        nobody is left to use it."""
        scratch = set(filter(None, map(layout.scratch_owner, self._names(layout.TMP))))
        statuses = (name.removesuffix(".json") for name in self._names(layout.WORKER_STATUS))
        over = {owner for owner in scratch if owner == "operator" or (owner.isdigit() and owner != self._owner)}
        for owner in sorted({*scratch, *self._names(layout.HEARTBEATS), *statuses}):
            attempt = AttemptId(owner)
            with contextlib.suppress(layout.LayoutError, OSError):
                layout.parse_attempt(attempt)
                if not self.is_live(attempt):
                    over.add(owner)
                    self._upkeep.close_attempt(attempt)
        self._ours.check()
        setup.sweep(self.folders, over)

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
            seq=self._seq + 1,
            epoch=self.epoch,
            t=Stamp(t.wall, t.mono, t.boot, self._seq + 1 - len(self._batch)),
            id=id or next(self._ids),
            type=type,
            source=source,
            timestamp=utc(t.wall),
            task=task,
            attempt=attempt,
            payload=payload,
        )
        self._batch.append(blobs.encode(record))
        self._seq, self._now = record.seq, t.mono
        return record

    def commit(self) -> None:
        """Append the batch with one write. Raises JournalBlocked where the disk is full or read-only (the batch is
        kept), BusGone where the bus is not ours any more: then nothing was written."""
        if not self._batch:
            return
        self._ours.check()
        try:
            self._in_room(self._write_batch)
        except OSError as error:
            raise self._unwritten(error) from error
        self._recorded_epoch = self.epoch
        self._batch.clear()
        self._rotate()
        self._reserve.look(self._owner, self._now)

    def _write_batch(self) -> None:
        for _, blob in self._batch:
            if blob is not None:
                blobs.store(self.folders, *blob, scratch=f"{self._owner}.blob", sync=self._sync)
        data = b"".join(line for line, _ in self._batch)
        self._journal.append(data, self._keep)
        self._keeper.behind += len(data)

    def _unwritten(self, error: OSError) -> BusError:
        if passes(error):
            return JournalBlocked(f"the bus cannot be written: {why(error)}", path=self.folders.path)
        self._ours.check()  # whoever took the track over may have swept our scratch file
        return BusError(f"the bus cannot be written: {why(error)}", path=self.folders.path)

    def _rotate(self) -> None:
        """Seal the journal's file if that is due; where the disk is full, after a later batch."""
        try:
            self._journal.rotate(self._seq, f"{self._owner}.journal")
        except OSError as error:
            if not passes(error):
                raise BusError(f"the journal cannot be sealed: {why(error)}", path=self.folders.path) from error

    def checkpoint_due(self) -> bool:
        """Tell whether so much was journaled since the last snapshot that another one pays."""
        return self._keeper.is_due() and not self._projection.is_behind

    def checkpoint(self, state: JsonObject) -> None:
        """Keep a snapshot of the state after the last committed record; nothing where the disk is full, and while
        `events/` is behind: the next start would not see that."""
        if self._batch:
            raise ValueError("a snapshot is of what is committed, and something is staged")
        if not self._seq or self._projection.is_behind:
            return
        snapshot = Snapshot(self._seq, self._recorded_epoch, state)
        scratch, events = f"{self._owner}.snapshot", self._projection.view.dump()
        self._keeper.keep(scratch, snapshot, self._journal.place, events, synced=self._sync)

    def _keep(self, data: bytes, reason: str, *, foreign: bool = False) -> None:
        kept = self._quarantine.keep(layout.JOURNAL, data, reason, sync=self._sync, foreign=foreign)
        self.notes.append(f"{layout.JOURNAL}: {reason}; {len(data)} bytes were moved to quarantine/{kept.name}")

    def project(self, records: Iterable[Record]) -> None:
        """Make `events/` agree with these committed records. Idempotent."""
        self._projection.project(records)

    # --- what others hand in ----------------------------------------------------------------------------------------

    def scan(self, running: Mapping[TaskId, AttemptId] | None = None) -> Scan:
        """Read `inbox/` and `control/`, and look in `events/` for claims about the tasks in `running`."""
        self._ours.check()
        self._upkeep.again()
        found = self._inbox.scan()
        self._upkeep.look_for_claims(running or {}, self._projection.expects)
        if blocked := self._upkeep.look_at_disk():
            self._reserve.lend(map(self.read_proc, (running or {}).values()), self._now)
        return replace(found, quarantined=self._quarantine.take_found(), blocked=blocked)

    def discard(self, items: Iterable[Incoming | Control]) -> None:
        """Remove files whose record is committed, now or later."""
        self._inbox.discard(items)

    def refuse(self, item: Incoming | Control, reason: str) -> None:
        """Move a file that cannot be acted on to quarantine, now or later; a later scan tells of it."""
        self._inbox.refuse(item, reason)

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
                    return sha
            scratch = f"{self._owner}.plan"
            self._in_room(lambda: self.fs.publish(scratch, self._tmp, name, at, body, sync=self._sync))
        except OSError as error:
            self._ours.check()
            kind = NoSpace if passes(error) else BusError
            raise kind(f"the plan cannot be kept: {why(error)}", path=self.folders.path, hint=remedy(error)) from error
        return sha

    def create_attempt(self, attempt: AttemptId, files: Mapping[str, bytes] | None = None) -> int:
        """Make the attempt's folder with `live` locked and `files` in it; return the descriptor of `live`.

        Raises AttemptExists, and NoSpace.
        """
        layout.parse_attempt(attempt)
        self._upkeep.expel_epoch(self.epoch + 1, self._ours.check)
        bucket = self.folders.make(layout.bucket_dir(attempt))
        scratch = f"{self._owner}.{attempt}"
        tmp = self._tmp
        live = -1
        try:
            # Names of two components, which nobody can turn aside: mkdir has just made the folder, in ours.
            scratch = self._create_scratch_folder(scratch, tmp)
            live = self.fs.open(f"{scratch}/{layout.LIVE}", os.O_RDWR | os.O_CREAT | os.O_EXCL, at=tmp)
            self.fs.chmod_fd(live, 0o600)
            self.fs.lock(live)
            for name, body in (files or {}).items():
                self.fs.create(f"{scratch}/{name}", body, at=tmp)
            self.fs.rename(scratch, tmp, attempt, bucket)
        except OSError as error:
            if live >= 0:
                self.fs.close(live)
            with contextlib.suppress(OSError):
                self.fs.remove_folder(scratch, tmp)
            if error.errno in _TAKEN and self.has_attempt(attempt):
                raise AttemptExists(f"the attempt {attempt} was made before", path=self.folders.path) from error
            if passes(error):
                self._upkeep.room.lost(error)
                raise NoSpace(f"the bus cannot be written: {why(error)}", path=self.folders.path) from error
            raise
        return live

    def _create_scratch_folder(self, name: str, tmp: int) -> str:
        """Make a folder that is surely ours, and return its name: another one where the wanted name is taken."""
        try:
            self.fs.create_directory(name, at=tmp)
        except FileExistsError:
            name = f"{name}.{os.urandom(4).hex()}"
            self.fs.create_directory(name, at=tmp)
        return name

    def revoke(self, attempt: AttemptId, reason: str) -> None:
        """Write `revoked`, now or as soon as the disk has room. Idempotent: the first reason stays."""
        self._upkeep.revoke(attempt, reason)

    def close_attempt(self, attempt: AttemptId) -> None:
        """Remove heartbeat, worker status and scratch of an attempt whose end is journaled. Idempotent."""
        self._upkeep.close_attempt(attempt)
        self._ended.add(attempt)
        if len(self._ended) >= _SWEEP_EVERY:
            self._sweep()

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
) -> FileHost:
    """Take the track: make the bus if it is missing, lock it, repair the journal's end, begin an epoch.

    `durability` is `power` (acknowledged records survive a power cut) or `process` (they survive the end of any
    process). `info` is added to `conductor.json`. `follower` is brought to the end of the journal. Raises HeldByOther,
    BusUnsafe (not with `unsafe_fs`), BusFormat, BusCorrupt, BusError.
    """
    fs = fs or FileSystem()
    folders = setup.make_root(fs, os.fspath(root), unsafe=unsafe_fs, sync=is_power(durability))
    lock = -1
    try:
        lock = take_lock(folders, unsafe=unsafe_fs)
        return FileHost(folders, lock, follower, sync=is_power(durability), info=info or {})
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
