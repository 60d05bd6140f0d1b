"""The conductor's side of the bus, over the directory."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bus import blobs, layout, setup, snapshots
from bus._fs import NO_SPACE, FileSystem, passes, why
from bus.contract import Control, Follower, Incoming, Scan, Snapshot
from bus.errors import AttemptExists, BusError, BusGone, BusUnsafe, HeldByOther, JournalBlocked, NoSpace
from bus.folders import Folders, identity
from bus.inbox import Inbox
from bus.journal import Journal, crc_of
from bus.projection import Projection, concerns
from bus.quarantine import Quarantine
from bus.reader import FileReader, read_holder
from bus.times import utc
from bus.upkeep import Upkeep
from bus.wire import AttemptId, JsonObject, Message, Record, Stamp, TaskId, decode_record, dumps

_SWEEP_EVERY = 64
"""Attempts closed between two looks into `tmp/`."""

_SNAPSHOT_EVERY = 4 << 20
"""Bytes of journal after which a snapshot pays, unless it is itself more than half as large as they are."""

_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY})
"""Errors of a rename onto a folder that holds something."""

_RECOVERY = layout.epoch_name(0)
"""Owner of scratch files before the new epoch is known."""

_LOCK_TRIES, _LOCK_PAUSE = 5, 0.01

_HEAD = re.compile(rb'\{"seq":([0-9]+),"epoch":([0-9]+),')


class FileHost(FileReader):
    """`bus.contract.Host` over a directory. Made by `open_host`."""

    def __init__(
        self, folders: Folders, lock: int, follower: Follower | None, *, sync: bool, info: Mapping[str, Any]
    ) -> None:
        super().__init__(folders)
        self._quarantine = Quarantine(folders)
        self._inbox = Inbox(folders, self._quarantine, _check_content)
        self._upkeep = Upkeep(folders, self._quarantine)
        folders.evict = self._upkeep.evict
        self.notes: list[str] = setup.furnish(folders, sync=sync)
        """What was repaired or moved at the start, for people."""
        self._lock = lock
        self._lock_identity = identity(self.fs.stat_fd(lock))
        self._sync = sync
        self._journal = Journal(folders, sync=sync)
        self._seq = 0
        self._batch: list[tuple[bytes, tuple[str, bytes] | None]] = []
        self._ids = _random_ids()
        self._ended: set[str] = set()
        self._recorded_epoch = 0
        """Highest epoch of a committed record."""
        self._place = snapshots.Place(1, 0, "")
        """Where the last committed record ends."""
        self._snapshot_at = self._snapshot_size = 0
        """Where in the journal the newest snapshot belongs, and its size."""
        self._owner = self._upkeep.owner = _RECOVERY
        self._begin(info, follower)

    def _begin(self, info: Mapping[str, Any], follower: Follower | None) -> None:
        """Read the journal, repair its end and what depends on it, and begin an epoch."""
        owners = {owner for name in self._names(layout.TMP) if (owner := layout.scratch_owner(name))}
        past = _Past(owners)
        self._projection = Projection(self.folders, "operator.event")
        for name in self._projection.rebuild(self._replayed(past, follower)):
            self.notes.append(f"events/{name} does not follow from the journal and was archived")
        self._seq, self._recorded_epoch = past.seq, past.epoch
        self.epoch = setup.take_epoch(self.folders, past.epoch, sync=self._sync)
        self._owner = self._upkeep.owner = layout.epoch_name(self.epoch)
        self._projection.scratch = f"{self._owner}.event"
        self._write_holder(info)
        setup.write_wrapper(self.folders, self._quarantine, self._owner)
        past.ended |= {owner for owner in owners if owner == "operator" or (owner.isdigit() and owner != self._owner)}
        setup.sweep(self.folders, past.ended)

    def _replayed(self, past: _Past, follower: Follower | None) -> Iterator[Record]:
        """Yield what concerns `events/` of all records, giving the follower what is behind its snapshot."""
        since = self._restore(follower) if follower else 0
        for line in self._journal.replay(self._keep):
            self._place = snapshots.Place(1, self._place.end + len(line) + 1, crc_of(line))
            if not past.note(line):
                continue
            wanted, behind = concerns(line), follower is not None and past.seq > since
            if not wanted and not behind:
                continue
            record = blobs.resolve(self.folders, decode_record(line))
            if follower is not None and behind:
                follower.take(record, self.load_plan)
                self._checkpoint_on_the_way(follower, past)
            if wanted:
                yield record

    def _restore(self, follower: Follower) -> int:
        """Let the follower begin from the newest snapshot that it understands; return its seq, or 0."""
        for kept in snapshots.read_all(self.folders):
            if self._tail.holds(kept.place) and follower.restore(kept.snapshot, self.load_plan):
                self._snapshot_at, self._snapshot_size = kept.place.end, kept.size
                return kept.snapshot.seq
        return 0

    def _checkpoint_on_the_way(self, follower: Follower, past: _Past) -> None:
        """So that a recovery that is killed again and again makes progress each time."""
        if not self.checkpoint_due():
            return
        state = follower.dump()
        if state is not None:
            self._keep_snapshot(Snapshot(past.seq, past.epoch, state))

    def _write_holder(self, info: Mapping[str, Any]) -> None:
        known = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": utc(), "epoch": self.epoch}
        self._upkeep.replace(layout.HOLDER, dumps({**info, **known}).encode() + b"\n")

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
            t=t,
            id=id or next(self._ids),
            type=type,
            source=source,
            timestamp=utc(t.wall),
            task=task,
            attempt=attempt,
            payload=payload,
        )
        self._batch.append(blobs.encode(record))
        self._seq = record.seq
        return record

    def commit(self) -> None:
        """Append the batch with one write. Raises JournalBlocked where the disk is full or read-only (the batch is
        kept), BusGone where the bus is not ours any more: then nothing was written."""
        if not self._batch:
            return
        self._check_ours()
        try:
            for _, blob in self._batch:
                if blob is not None:
                    blobs.store(self.folders, *blob, scratch=f"{self._owner}.blob", sync=self._sync)
            data = b"".join(line for line, _ in self._batch)
            self._journal.append(data, self._keep)
        except OSError as error:
            if passes(error):
                raise JournalBlocked(f"the bus cannot be written: {why(error)}", path=self.folders.path) from error
            raise
        self._place = snapshots.Place(1, self._place.end + len(data), crc_of(data))
        self._recorded_epoch = self.epoch
        self._batch.clear()

    def _check_ours(self) -> None:
        """What we are about to write must reach the bus that others see, and no other conductor may have its lock."""
        if not self._still(layout.LOCK, self._lock_identity) or not self.folders.is_same_root():
            raise BusGone("the bus was moved, removed or replaced while in use", path=self.folders.path)
        if not self._still(layout.JOURNAL, self._journal.identity):
            raise BusGone(
                "the journal was replaced or removed while in use",
                path=layout.JOURNAL,
                hint="find out what wrote to it (an editor, `sed -i`, a clean-up), then run again",
            )

    def _still(self, name: str, known: tuple[int, int]) -> bool:
        """Tell whether a name in the root means the same file as when we opened it."""
        try:
            return identity(self.fs.stat(name, at=self.folders.root)) == known
        except FileNotFoundError:
            return False

    def checkpoint_due(self) -> bool:
        """Tell whether so much was journaled since the last snapshot that another one pays."""
        return self._place.end - self._snapshot_at >= max(_SNAPSHOT_EVERY, 2 * self._snapshot_size)

    def checkpoint(self, state: JsonObject) -> None:
        """Keep a snapshot of the state after the last committed record; nothing where the disk is full."""
        if self._batch:
            raise ValueError("a snapshot is of what is committed, and something is staged")
        if self._seq:
            self._keep_snapshot(Snapshot(self._seq, self._recorded_epoch, state))

    def _keep_snapshot(self, snapshot: Snapshot) -> None:
        with _full_disk_tolerated():
            self._snapshot_size = snapshots.write(self.folders, f"{self._owner}.snapshot", snapshot, self._place)
        self._snapshot_at = self._place.end

    def _keep(self, data: bytes, reason: str) -> None:
        kept = self._quarantine.keep(layout.JOURNAL, data, reason, sync=self._sync)
        self.notes.append(f"{layout.JOURNAL}: {reason}; {len(data)} bytes were moved to quarantine/{kept.name}")

    def project(self, records: Iterable[Record]) -> None:
        """Make `events/` agree with these committed records. Idempotent."""
        self._projection.project(records)

    # --- what others hand in ----------------------------------------------------------------------------------------

    def scan(self, running: Mapping[TaskId, AttemptId] | None = None) -> Scan:
        """Read `inbox/` and `control/`, and look in `events/` for claims about the tasks in `running`."""
        self._check_ours()
        self._upkeep.again()
        found = self._inbox.scan()
        self._upkeep.look_for_claims(running or {}, self._projection.expects)
        return replace(found, quarantined=self._quarantine.take_found())

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
        at = self.folders.refresh(layout.PLAN)
        if not self.fs.publish(f"{self._owner}.plan", self._tmp, name, at, body, sync=self._sync):
            self.load_plan(sha)
        return sha

    def create_attempt(self, attempt: AttemptId, files: Mapping[str, bytes] | None = None) -> int:
        """Make the attempt's folder with `live` locked and `files` in it; return the descriptor of `live`.

        Raises AttemptExists, and NoSpace.
        """
        layout.parse_attempt(attempt)
        self._upkeep.expel_epoch(self.epoch + 1)
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


class _Past:
    """What a replay finds out: the last seq and epoch, and which of `owners` are attempts that have ended."""

    def __init__(self, owners: set[str]) -> None:
        self.seq = 0
        self.epoch = 0
        self.ended: set[str] = set()
        self._owners = owners

    def note(self, line: bytes) -> bool:
        """Take in a line; False for one of a conductor that had been replaced."""
        match = _HEAD.match(line)
        if match is None:
            record = decode_record(line)
            seq, epoch = record.seq, record.epoch
        else:
            seq, epoch = int(match[1]), int(match[2])
        if epoch < self.epoch:
            return False
        self.seq, self.epoch = seq, epoch
        if self._owners and b'"type":"ATTEMPT_ENDED"' in line:
            self.ended |= {owner for owner in (decode_record(line).attempt,) if owner in self._owners}
        return True


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
        lock = _take_lock(folders, unsafe=unsafe_fs)
        return FileHost(folders, lock, follower, sync=is_power(durability), info=info or {})
    except OSError as error:
        _let_go(folders, lock)
        raise BusError(f"the bus cannot be used: {error.strerror}", path=folders.path) from error
    except BaseException:
        _let_go(folders, lock)
        raise


@contextmanager
def _full_disk_tolerated() -> Iterator[None]:
    """For what is only a hint or a view, and not worth stopping for."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
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


def _take_lock(folders: Folders, *, unsafe: bool) -> int:
    """Hold `conductor.lock`, for as long as the descriptor is open.

    A raw flock: filelock works by path and falls back to other kinds of locks where this one fails; here the lock must
    be on a file below our own directory, whose inode is compared again before each commit.
    """
    fs = folders.fs
    fd = fs.open(layout.LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, at=folders.root)
    try:
        found = fs.stat_fd(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise BusUnsafe("the lock is no file of our own", path=layout.LOCK, hint="remove it, then run again")
        fs.chmod_fd(fd, 0o600)
        for _ in range(_LOCK_TRIES):  # somebody who only looks holds it for a moment
            if fs.lock(fd):
                break
            fs.pause(_LOCK_PAUSE)
        else:
            raise _held(folders)
        if not unsafe and not _works(folders):
            raise BusUnsafe(
                "locks do not work on this file system",
                path=folders.path,
                hint="put the bus elsewhere with --bus-dir, or take the risk with --unsafe-fs",
            )
    except BaseException:
        fs.close(fd)
        raise
    return fd


def _held(folders: Folders) -> HeldByOther:
    holder = read_holder(folders)
    who = f"pid {holder.pid} on {holder.host} since {holder.started_at}" if holder else "unknown"
    return HeldByOther(
        f"another conductor holds the track ({who})", path=folders.path, hint="look with `conductor status`"
    )


def _works(folders: Folders) -> bool:
    """Tell whether a lock that is held keeps a second opener out."""
    fs = folders.fs
    second, _ = fs.open_regular(layout.LOCK, at=folders.root)
    try:
        return not fs.lock(second, shared=True)
    finally:
        fs.close(second)


def _random_ids() -> Iterator[str]:
    while True:
        pool = os.urandom(4096).hex()
        yield from (pool[start : start + 32] for start in range(0, len(pool), 32))


def _check_content(message: Message) -> None:
    from bus.schema import check_content  # pydantic is loaded when somebody hands something in, not before

    check_content(message)
