"""Looking at a bus without touching it: no lock is kept, nothing is written."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from bus import layout, losses, presence, snapshots
from bus._fs import FileSystem, Refused
from bus.contract import Follower, Grant, Holder, Snapshot, WaitFile
from bus.errors import BusCorrupt, BusError, BusFormat, BusUnsafe
from bus.folders import Folders, open_folders
from bus.lines import REPAIR_HINT
from bus.locks import GrantFiles
from bus.process import flock_holders
from bus.results import is_result
from bus.segments import unreachable
from bus.strict import WireError, loads_strict
from bus.tail import Tail
from bus.waits import WaitFiles
from bus.wire import (
    MAX_MESSAGE,
    AttemptId,
    ExitRecord,
    JsonObject,
    ProcRecord,
    Record,
    TaskId,
    dumps,
    exit_from_json,
    proc_from_json,
)

MAX_PLAN = 1 << 28


class FileReader:
    """`bus.contract.Reader` over a directory."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.fs = folders.fs
        self._tail = Tail(folders)
        self._grants = GrantFiles(folders)
        self._waits = WaitFiles(folders)

    def records(self, since: int = 0) -> Iterator[Record]:
        """Yield the journal's records with `seq > since`; a call that goes on from an earlier one reads what is new.

        From the first record on it also raises BusCorrupt at the end of a journal that has lost what stood behind.
        """
        return self._tail.records(since) if since else self._all_records()

    def _all_records(self) -> Iterator[Record]:
        newest, last = self._newest_snapshot(), 0
        for record in self._tail.records(0):
            last = record.seq
            yield record
        self._check_end(last, newest)

    def records_of(self, task: str) -> Iterator[Record]:
        """Yield the records of one task, all of them, and the orders that moved it with others; as `records`, in a
        fraction of its time."""
        found = self._tail.records(0, (_naming(task), b'"type":"CONTROL"'))
        return (record for record in found if record.task == task or task in (record.payload.get("tasks") or ()))

    def records_about(self, tasks: Iterable[TaskId], since: int = 0) -> Iterator[Record]:
        """Yield the records with `seq > since` of these tasks and of the run; those of other tasks may be left out."""
        return self._tail.records(since, (b'"task":null', b'"type":"CONTROL"', *map(_naming, tasks)))

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the sound snapshots whose place fits the journal, newest first."""
        for kept in snapshots.read_all(self.folders):
            if self._tail.locate(kept.snapshot.seq, kept.place) is not None:
                yield kept.snapshot

    def lost(self) -> tuple[tuple[int, int], ...]:
        """Return (first, last) of each span of records that a repair had to give up."""
        return tuple((segment.first, segment.last) for segment in self._tail.lost())

    def follow(self, follower: Follower, *, whole: bool = False) -> None:
        """Bring a follower to the end of the journal; `records(since)` goes on from there.

        Raises BusCorrupt also where records were lost and no snapshot leads over the gap.
        """
        newest = self._newest_snapshot()
        lost = max((last for _, last in self.lost()), default=0)
        since = last = 0 if whole else self._restore(follower, lost)
        if since < lost:
            raise unreachable(self._tail.lost())
        for record in self._tail.records(since):
            last = record.seq
            follower.take(record, self.load_plan)
        self._check_end(last, newest)

    def _newest_snapshot(self) -> int:
        return next(iter(snapshots.seqs(self.folders)), 0)

    def _check_end(self, last: int, newest: int) -> None:
        """Raise BusCorrupt where the journal has lost its end. `newest` is the newest snapshot from before it was
        read; an empty one is read again, as its first records may have come since."""
        error = losses.lost_end(self.folders, last, newest)
        if error is not None and (last or not any(True for _ in self._tail.records(0))):
            raise error

    def _restore(self, follower: Follower, at_least: int) -> int:
        """Let the follower begin from the newest snapshot that it understands; return its seq, or 0."""
        for kept in snapshots.read_all(self.folders):
            snapshot = kept.snapshot
            place = self._tail.locate(snapshot.seq, kept.place) if snapshot.seq >= at_least else None
            if place is not None and follower.restore(snapshot, self.load_plan):
                self._tail.begin_at(place, snapshot.seq, snapshot.epoch)
                return snapshot.seq
        return 0

    def holder(self) -> Holder | None:
        """Return who runs the track now; None where the lock is free."""
        try:
            fd, found = self.fs.open_regular(layout.LOCK, at=self.folders.root)
        except (FileNotFoundError, Refused):
            return None
        try:
            if self.fs.lock(fd, shared=True):
                return None
        finally:
            self.fs.close(fd)
        return read_holder(self.folders) or holder_by_lock(self.folders, found)

    def not_ingested(self) -> int:
        """Count messages and controls that no conductor has read yet; none in a folder that cannot be read."""
        messages = map(layout.parse_message_name, self.folders.shown(layout.INBOX))
        controls = map(layout.parse_control_name, self.folders.shown(layout.CONTROL))
        return sum(found is not None for found in (*messages, *controls))

    def load_plan(self, sha: str) -> bytes:
        """Return a frozen plan; raises BusCorrupt where it is missing or its hash is wrong."""
        name = layout.plan_name(sha)
        path = f"{layout.PLAN}/{name}"
        try:
            body = self.folders.read(layout.PLAN, name, cap=MAX_PLAN)
        except FileNotFoundError as error:
            raise BusCorrupt("the frozen plan is not there any more", path=path, hint=REPAIR_HINT) from error
        except Refused as error:
            raise BusCorrupt(f"the frozen plan cannot be read: {error}", path=path, hint=REPAIR_HINT) from error
        if hashlib.sha256(body).hexdigest() != sha:
            raise BusCorrupt("the frozen plan was changed", path=path, hint=REPAIR_HINT)
        return body

    def attempts(self) -> Iterator[AttemptId]:
        """Yield the attempts that have a folder, in no order, whether or not the journal tells of them."""
        return losses.attempts(self.folders)

    def has_attempt(self, attempt: AttemptId) -> bool:
        """Tell whether the attempt's folder is there."""
        try:
            self.fs.close(self.folders.attempt(attempt))
        except FileNotFoundError:
            return False
        return True

    def read_exit(self, attempt: AttemptId) -> ExitRecord | None:
        """Return the attempt's result; None before it is written, and where the file is not what it must be."""
        found = self._attempt_json(attempt, layout.EXIT)
        if not found:
            return None
        return exit_from_json(found[0]) if is_result(found[0]) else None

    def read_proc(self, attempt: AttemptId) -> ProcRecord | None:
        """Return the worker's claim; None before it is made, and where the file is not what it must be."""
        found = self._attempt_json(attempt, layout.PROC, lines=True)
        try:
            return proc_from_json(found[0]) if found else None
        except TypeError:
            return None

    def read_command(self, attempt: AttemptId) -> JsonObject | None:
        """Return `{"pid", "start_ticks", "session"}` of the command; None before it was started."""
        found = self._attempt_json(attempt, layout.PROC, lines=True)
        return found[1] if len(found) > 1 else None

    def open_pieces(self, attempt: AttemptId) -> Pieces | None:
        """Open the folder of an attempt to read what its command printed; None where it is gone."""
        try:
            return Pieces(self.fs, self.folders.attempt(attempt), layout.attempt_dir(attempt))
        except FileNotFoundError:
            return None

    def is_live(self, attempt: AttemptId) -> bool:
        """Tell whether a worker holds the attempt's lock."""
        return presence.is_live(self.folders, attempt)

    def read_worker_status(self, attempt: AttemptId) -> JsonObject | None:
        """Return the worker's last report; None where there is none."""
        return presence.read_status(self.folders, attempt)

    def heartbeat(self, attempt: AttemptId) -> int | None:
        """Return an opaque value that changes with each beat; None before the first."""
        return presence.heartbeat(self.folders, attempt)

    def beat_of(self, attempt: AttemptId) -> JsonObject | None:
        """Return the evidence of the last beat; None before the first."""
        return presence.read_beat(self.folders, attempt)

    def grants(self) -> tuple[Grant, ...]:
        """Return what is held, by token."""
        return tuple(self._grants.read()[0])

    def waits(self) -> tuple[WaitFile, ...]:
        """Return what is waited for by processes that live."""
        return self._waits.read().alive

    def close(self) -> None:
        """Close what was opened."""
        self.folders.close()

    def _attempt_json(self, attempt: AttemptId, name: str, *, lines: bool = False) -> list[JsonObject]:
        """Read a file of the attempt: one object, or one in each finished line.

        Nothing where the file is missing or something else: the command can write there, so it may be anything.
        """
        try:
            at = self.folders.attempt(attempt)
        except FileNotFoundError:
            return []
        try:
            data = self.fs.read_file(name, at=at, cap=MAX_MESSAGE)
            found = [loads_strict(part) for part in (data.split(b"\n")[:-1] if lines else [data])]
        except (FileNotFoundError, Refused, WireError):
            return []
        finally:
            self.fs.close(at)
        return found if all(isinstance(part, dict) for part in found) else []


def _naming(task: str) -> bytes:
    """What the lines of a task's records have in them."""
    return f'"task":{dumps(task)}'.encode()


class Pieces:
    """The output files of one attempt, while they grow."""

    def __init__(self, fs: FileSystem, at: int, folder: str) -> None:
        """`folder` is what errors call it."""
        self._fs = fs
        self._at = at
        self._folder = folder

    def names(self) -> list[str]:
        """Return the names of all files of the attempt."""
        return self._fs.names(self._at)

    def size(self, name: str) -> int:
        """Return the bytes that a file holds now; 0 where it is missing. BusUnsafe where it is no file."""
        found = self._open(name)
        if found is None:
            return 0
        self._fs.close(found[0])
        return found[1].st_size

    def read(self, name: str, start: int, end: int) -> Iterator[bytes]:
        """Yield what a file holds between two offsets; nothing where it is missing. BusUnsafe where it is no file."""
        found = self._open(name)
        if found is None:
            return
        try:
            for chunk in self._fs.read_chunks(found[0], start):
                yield chunk[: end - start]
                start += len(chunk)
                if start >= end:
                    return
        finally:
            self._fs.close(found[0])

    def close(self) -> None:
        """Let go of the attempt's folder."""
        self._fs.close(self._at)

    def _open(self, name: str) -> tuple[int, os.stat_result] | None:
        try:
            return self._fs.open_regular(name, at=self._at)
        except FileNotFoundError:
            return None
        except Refused as error:
            hint = "the command of this attempt can write here; whatever it put there is not its output"
            raise BusUnsafe(f"the output cannot be read: {error}", path=f"{self._folder}/{name}", hint=hint) from error


def read_holder(folders: Folders) -> Holder | None:
    """Return what `conductor.json` says, None where it says nothing. Believed only together with a held lock."""
    try:
        data = loads_strict(folders.fs.read_file(layout.HOLDER, at=folders.root, cap=MAX_MESSAGE))
        extra = {key: value for key, value in data.items() if key not in ("pid", "host", "started_at", "epoch")}
        return Holder(int(data["pid"]), str(data["host"]), str(data["started_at"]), int(data["epoch"]), extra)
    except (FileNotFoundError, Refused, ValueError, KeyError, TypeError, AttributeError):
        return None


def holder_by_lock(folders: Folders, lock: os.stat_result) -> Holder:
    """Say what can be known of a holder whose `conductor.json` is gone or foreign: its lock is held all the same."""
    pid = next(iter(flock_holders(lock)), 0)
    epoch = max(filter(None, map(layout.parse_epoch_name, folders.names(layout.EPOCHS))), default=0)
    return Holder(pid, socket.gethostname() if pid else "another host", "unknown", epoch)


def check_format(folders: Folders) -> JsonObject | None:
    """Return what FORMAT says; None where there is none. Raises BusFormat for a newer major version, and where it was
    removed from a bus of ours: only our own conductors number their starts."""
    try:
        found = loads_strict(folders.fs.read_file(layout.FORMAT, at=folders.root, cap=MAX_MESSAGE))
        major = int(found["major"])
    except FileNotFoundError:
        if was_ours(folders):
            raise BusFormat("FORMAT was removed", path=folders.path, hint=REPAIR_HINT) from None
        return None
    except (Refused, ValueError, KeyError, TypeError) as error:
        hint = "while nothing runs, move away what is there; then `conductor doctor TRACK --repair` makes it again"
        raise BusFormat(f"FORMAT cannot be read: {error}", path=folders.path, hint=hint) from error
    if major > MAJOR:
        raise BusFormat(f"the bus has format {major}, this program reads {MAJOR}", path=folders.path, hint="update it")
    return found  # type: ignore[no-any-return]


def was_ours(folders: Folders) -> bool:
    """Tell whether a conductor of ours has begun an epoch here."""
    return any(map(layout.parse_epoch_name, folders.names(layout.EPOCHS)))


MAJOR = 1
"""The format's major version: a program refuses a bus of a newer one."""


def open_reader(root: Path | str, *, fs: FileSystem | None = None) -> FileReader:
    """Open a bus to look at. Raises BusGone where there is none, BusUnsafe, BusFormat."""
    folders = open_folders(fs or FileSystem(), os.fspath(root))
    try:
        if check_format(folders) is None:
            raise BusError(
                "the bus was made by an older program", path=folders.path, hint="start `conductor run TRACK`"
            )
        return FileReader(folders)
    except BaseException:
        folders.close()
        raise
