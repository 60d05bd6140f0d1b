"""Bugs to plant into the product, by name: a harness that does not find each of them is too weak."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from bus import journal, layout, losses
from bus._fs import FileSystem
from bus.contract import Control, Incoming, Snapshot
from bus.folders import identity
from bus.hand import FileHand, result_message
from bus.host import FileHost
from bus.journal import Journal
from bus.lines import Chain, Verdict, head_of
from bus.lock import Ours
from bus.projection import Projection, View
from bus.quarantine import Quarantine
from bus.repair import _Repair
from bus.segments import Place
from bus.snapshots import Keeper
from bus.survey import File, Span
from bus.upkeep import Upkeep
from bus.wire import AttemptId, ExitRecord, TaskId, to_json
from conductor.core import apply, resets, rounds
from conductor.core.events import Fact
from conductor.core.machine import Machine
from conductor.core.state import State, Task
from conductor.core.transitions import IGNORED, TASK_TABLE
from conductor.runtime import reset, strangers
from conductor.runtime.attempts import Attempts
from conductor.runtime.driver import Driver
from conductor.runtime.inbound import Inbound, entry_of
from conductor.runtime.messages import Messages
from conductor.testing.planted_supervision import SUPERVISION, Plant
from conductor.testing.planted_supervision import replaced as _replace

# --- a sync is dropped ----------------------------------------------------------------------------------------------


def _finish_without_sync(self: FileHand, exit: ExitRecord, *, durable: bool = False) -> None:
    _finish(self, exit, durable=False)


_finish = FileHand.finish


@contextmanager
def _no_folder_is_synced_after_a_link() -> Iterator[None]:
    publish, sync = FileSystem.publish, FileSystem.sync

    def planted(self: FileSystem, *args: Any, **kwargs: Any) -> bool:
        def files_only(fd: int) -> None:
            if not stat.S_ISDIR(self.stat_fd(fd).st_mode):
                type(self).sync(self, fd)

        with mock.patch.object(self, "sync", files_only):
            return publish(self, *args, **kwargs)

    with mock.patch.object(FileSystem, "publish", planted):
        yield
    assert sync is FileSystem.sync


# --- two writes are swapped -----------------------------------------------------------------------------------------


def _announce_before_finish(self: FileHand, exit: ExitRecord, *, durable: bool = False) -> None:
    self.publish(result_message(self.attempt, to_json(exit)), durable=durable)
    _finish(self, exit, durable=durable)


def _read_and_discard(self: Inbound, *args: Any, **kwargs: Any) -> Any:
    entries = _read(self, *args, **kwargs)
    self._host.discard([entry.item for entry in entries if isinstance(entry.item, (Incoming, Control))])
    return entries


_read = Inbound.read


def _project_then_commit(self: FileHost) -> None:
    staged, _STAGED[:] = _STAGED[:], []
    self.project(staged)
    _commit(self)


def _stage_and_remember(self: FileHost, *args: Any, **kwargs: Any) -> Any:
    record = _stage(self, *args, **kwargs)
    _STAGED.append(record)
    return record


_STAGED: list[Any] = []
_commit, _stage = FileHost.commit, FileHost.stage


@contextmanager
def _projection_before_commit() -> Iterator[None]:
    _STAGED.clear()
    with (
        mock.patch.object(FileHost, "stage", _stage_and_remember),
        mock.patch.object(FileHost, "commit", _project_then_commit),
    ):
        yield


@contextmanager
def _segment_folder_unsynced() -> Iterator[None]:
    name_twice = Journal._name_twice

    def planted(self: Journal, *args: Any) -> None:
        with mock.patch.object(self, "sync", False):
            name_twice(self, *args)

    with mock.patch.object(Journal, "_name_twice", planted):
        yield


def _rename_then_create(self: Journal, last: int, scratch: str) -> None:
    """Seals by moving the file away: for a moment there is no `queue.jsonl`."""
    if last < self.first or not (self.doubtful or self.size >= journal.SEGMENT):
        return
    fs, root = self._fs, self._folders.root
    fs.rename(layout.JOURNAL, root, layout.segment_name(self.first, last), self._folders.refresh(layout.SEGMENTS))
    fs.create(layout.JOURNAL, b"", at=root, sync=self.sync)
    fd, found = fs.open_regular(layout.JOURNAL, at=root, flags=journal.FLAGS)
    fs.close(self.fd)
    self.fd, self.identity = fd, identity(found)
    self.first, self.size, self.doubtful = last + 1, 0, False
    fs.sync(root)


def _snapshot_then_commit(self: Driver) -> None:
    """Keeps a state that is ahead of the journal."""
    host, state = self._ports.host, self._replayed.dump()
    assert isinstance(host, FileHost)
    if state is not None and not host._batch.is_empty:
        snapshot = Snapshot(host._batch.first - 1, host._recorded_epoch, state)
        host._keeper.keep(
            f"{host._owner}.snapshot", snapshot, host._journal.place, host._projection.view.dump(), synced=False
        )
    _commit_of_driver(self)


_commit_of_driver = Driver._commit

# --- a file is not removed ------------------------------------------------------------------------------------------


def _publish_and_leave(
    self: FileSystem, scratch: str, scratch_at: int, name: str, at: int, data: bytes, **more: Any
) -> bool:
    made = _publish(self, scratch, scratch_at, name, at, data, **more)
    if made:
        self.link(name, at, scratch, scratch_at)
    return made


_publish = FileSystem.publish


def _keep_tail(self: Journal, size: int) -> None:
    self.doubtful = False


# --- old, repeated and unread ---------------------------------------------------------------------------------------


@contextmanager
def _old_attempts_accepted() -> Iterator[None]:
    def task_of(self: Attempts, attempt: AttemptId) -> TaskId | None:
        name = layout.parse_attempt(attempt)[0]
        return next((one.task for one in self._open.values() if layout.encode_task_id(one.task) == name), None)

    def current(state: State, name: str, id: TaskId, attempt: AttemptId) -> Task | None:
        task = state.tasks.get(id)
        return None if task is None or TASK_TABLE[type(task.status), name] is IGNORED else task

    def is_over(self: Attempts, attempt: AttemptId, exit: ExitRecord) -> bool:
        return attempt not in self._open or over(self, attempt, exit)

    over = Attempts.is_over
    with (
        mock.patch.object(Attempts, "task_of", task_of),
        mock.patch.object(Attempts, "is_over", is_over),
        mock.patch.object(apply, "current", current),
    ):
        yield


def _stale_lines_count(self: Chain, line: bytes) -> Verdict:
    head = head_of(line)
    self.epoch = min(self.epoch, head.epoch)
    return _take(self, line)


_take = Chain.take


def _gone_by_now(self: Attempts, attempt: AttemptId) -> bool:
    return self._lives.get(attempt) == "ended" or not self._host.is_live(attempt)


def _explain_nothing(self: Quarantine, *args: Any, **kwargs: Any) -> str:
    create = self._fs.create

    def planted(name: str, data: bytes, **more: Any) -> None:
        if not name.endswith(".why"):
            create(name, data, **more)

    with mock.patch.object(self._fs, "create", planted):
        return _explain(self, *args, **kwargs)


_explain = Quarantine._explain

# --- operators ------------------------------------------------------------------------------------------------------


def _decide_at_once(self: Driver, first: Fact, then: Iterable[Fact] = ()) -> None:
    """Takes a run over to stop it, and starts the next task before."""
    self._pass([entry_of(first), *map(entry_of, then)])
    self._consequences += self._attempts.reconcile(self._machine.state.reconciling_attempts())


def _only_decide(self: Machine, fact: Fact, now: float, wall: float = 0.0, *, decides: bool = True) -> Any:
    """Where another fact follows, what a dead conductor left to do is left undone."""
    if decides:
        return _handle(self, fact, now, wall)
    self.replay(fact, now, wall)
    return []


_handle = Machine.handle


# --- foreign hands, other disks -------------------------------------------------------------------------------------


def _put_unless_taken(self: Projection, name: str, content: bytes, events: int) -> None:
    """Leaves in its place whatever has the name of an event."""
    tmp = self._folders.fd(layout.TMP)
    self._check()
    self._fs.publish(self.scratch, tmp, name, events, content)


def _copy_unsynced(self: Journal, name: str, segments: int, scratch: str) -> None:
    with mock.patch.object(self, "sync", False):
        _copy(self, name, segments, scratch)


_copy = Journal._copy

# --- damage ---------------------------------------------------------------------------------------------------------


def _keep_misplaced(self: Keeper, scratch: str, snapshot: Snapshot, place: Place, *args: Any, **more: Any) -> None:
    """A snapshot that no start finds in the journal."""
    _keep_snapshot(self, scratch, snapshot, replace(place, crc=""), *args, **more)


_keep_snapshot = Keeper.keep


def _split_without_the_last(self: _Repair, file: File, gaps: list[Span]) -> None:
    _split(self, replace(file, runs=file.runs[:-1]), gaps)


_split = _Repair._split

PLANTED: dict[str, Plant] = {
    "journal-unsynced": _replace(Journal, "flush", lambda self: None),
    "result-unsynced": _replace(FileHand, "finish", _finish_without_sync),
    "inbox-folder-unsynced": _no_folder_is_synced_after_a_link,
    "segment-folder-unsynced": _segment_folder_unsynced,
    "failed-sync-forgotten": _replace(journal, "mark_doubt", lambda folders: None),
    "announced-before-finished": _replace(FileHand, "finish", _announce_before_finish),
    "discard-before-commit": _replace(Inbound, "read", _read_and_discard),
    "projection-before-commit": _projection_before_commit,
    "rotation-swapped": _replace(Journal, "rotate", _rename_then_create),
    "snapshot-before-commit": _replace(Driver, "_commit", _snapshot_then_commit),
    "scratch-left": _replace(FileSystem, "publish", _publish_and_leave),
    "inbox-left": _replace(FileHost, "discard", lambda self, items: None),
    "heartbeat-left": _replace(Upkeep, "_forget", lambda self, attempt: None),
    "torn-tail-left": _replace(Journal, "cut", _keep_tail),
    "old-attempt-accepted": _old_attempts_accepted,
    "repeated-message-accepted": _replace(Messages, "__contains__", lambda self, id: False),
    "old-epoch-accepted": _replace(Chain, "take", _stale_lines_count),
    "old-epoch-launches": _replace(FileHand, "newest_epoch", lambda self: 0),
    "lock-unwatched": _replace(Ours, "check", lambda self: None),
    "lost-without-a-second-look": _replace(Attempts, "_was_gone", _gone_by_now),
    "quarantine-unexplained": _replace(Quarantine, "_explain", _explain_nothing),
    "reset-leaves-dependants": _replace(reset, "affected", lambda state, named: tuple(named)),
    "reset-leaves-events": _replace(View, "_reset", lambda self, payload: []),
    "reset-forgets-numbers": _replace(rounds, "forget", lambda state, at: resets._become(state, State(reset_at=at))),
    "stop-starts-work": _replace(Driver, "begin", _decide_at_once),
    "edit-hides-timers": _replace(Machine, "handle", _only_decide),
    "claim-in-the-way": _replace(Projection, "_put", _put_unless_taken),
    "foreign-bytes-dropped": _replace(FileHost, "_keep", lambda self, *args, **more: None),
    "foreign-bytes-unseen": _replace(Journal, "_expel", lambda self, found, own, keep: None),
    "copy-unsynced": _replace(Journal, "_copy", _copy_unsynced),
    "snapshot-misplaced": _replace(Keeper, "keep", _keep_misplaced),
    "repair-over-no-gap": _replace(_Repair, "_bridge", lambda self, files: None),
    "repair-forgets-a-run": _replace(_Repair, "_split", _split_without_the_last),
    "repair-leaves-a-gap": _replace(_Repair, "_publish_lost", lambda self, span, reason: None),
    "cut-untold": _replace(losses, "mark_cut", lambda folders: None),
    "strangers-taken-for-own": _replace(strangers, "_not_found_again", lambda unknown, replayed: []),
    **SUPERVISION,
}
"""A context for each: the bug is there as long as it lasts."""
