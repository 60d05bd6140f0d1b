"""Bugs to plant into the product, by name: a harness that does not find each of them is too weak."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from bus import presence
from bus._fs import FileSystem
from bus.hand import FileHand, result_message
from bus.host import FileHost
from bus.journal import Journal
from bus.quarantine import Quarantine
from bus.wire import ExitRecord, to_json
from conductor.runtime.attempts import Attempts
from conductor.runtime.inbound import Inbound

Plant = Callable[[], AbstractContextManager[object]]


def _replace(owner: Any, name: str, planted: Callable[..., object]) -> Plant:
    """A bug that stands in the place of one function."""
    return lambda: mock.patch.object(owner, name, planted)


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
    self._host.discard([entry.item for entry in entries if entry.item is not None])
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


# --- a file is not removed ------------------------------------------------------------------------------------------


def _publish_and_leave(self: FileSystem, scratch: str, *args: Any, **kwargs: Any) -> bool:
    with mock.patch.object(self, "discard", return_value=True):
        return _publish(self, scratch, *args, **kwargs)


_publish = FileSystem.publish


# --- old, repeated and unread ---------------------------------------------------------------------------------------


class _Forgetful(set[str]):
    def __contains__(self, item: object) -> bool:
        return False


def _result_read_once(self: Attempts, *args: Any) -> Any:
    return None


def _explain_nothing(self: Quarantine, *args: Any, **kwargs: Any) -> str:
    create = self._fs.create

    def planted(name: str, data: bytes, **more: Any) -> None:
        if not name.endswith(".why"):
            create(name, data, **more)

    with mock.patch.object(self._fs, "create", planted):
        return _explain(self, *args, **kwargs)


_explain = Quarantine._explain

PLANTED: dict[str, Plant] = {
    "journal-sync": _replace(Journal, "_flush", lambda self: None),
    "result-sync": _replace(FileHand, "finish", _finish_without_sync),
    "inbox-folder-sync": _no_folder_is_synced_after_a_link,
    "announced-before-finished": _replace(FileHand, "finish", _announce_before_finish),
    "discard-before-commit": _replace(Inbound, "read", _read_and_discard),
    "projection-before-commit": _projection_before_commit,
    "scratch-left": _replace(FileSystem, "publish", _publish_and_leave),
    "inbox-left": _replace(FileHost, "discard", lambda self, items: None),
    "heartbeat-left": _replace(presence, "forget", lambda folders, attempt: None),
    "lost-unread": _replace(Attempts, "_result", _result_read_once),
    "torn-tail-kept": _replace(Journal, "_cut", lambda self, size: None),
    "quarantine-unexplained": _replace(Quarantine, "_explain", _explain_nothing),
}
