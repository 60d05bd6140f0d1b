"""`events/`: one file per task and final word, made from the journal, to be listed and read by people and older tools.

TASK_COMPLETE, TASK_FAILED and TASK_BLOCKED of a task replace each other; a new round (RUN_STARTED) takes the failed and
the blocked back, because their tasks are pending again. DEP_READY follows from TASK_COMPLETE's `unblocks`. A replaced
file goes to `events/archive/<name>.<seq>`.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections import deque
from collections.abc import Iterable

from bus import layout
from bus._fs import Refused, passes
from bus.folders import Folders
from bus.wire import JsonObject, Record, TaskId, dumps

COMPLETE, FAILED, BLOCKED, READY = "TASK_COMPLETE", "TASK_FAILED", "TASK_BLOCKED", "DEP_READY"

_FINAL = frozenset({COMPLETE, FAILED, BLOCKED, "TASK_SKIPPED", "TASK_CANCELLED"})
_SHOWN = frozenset({COMPLETE, FAILED, BLOCKED})
_MARKS = tuple(f'"type":"{type}"'.encode() for type in (*sorted(_FINAL), "RUN_STARTED"))

MAX_EVENT = 32 << 20


def concerns(line: bytes) -> bool:
    """Tell quickly whether a journal line may change `events/`; a payload that quotes such a line is no harm."""
    return any(mark in line for mark in _MARKS)


def event_line(record: Record, type: str, payload: JsonObject) -> bytes:
    """The content of a projection: the record in the older shape, with its seq and a checksum as of a journal line."""
    head = dumps(
        {
            "seq": record.seq,
            "id": record.id,
            "type": type,
            "source": record.source,
            "timestamp": record.timestamp,
            "payload": payload,
        }
    )[:-1].encode()
    return b'%s,"crc":"%08x"}\n' % (head, zlib.crc32(head))


class View:
    """Pure: which files `events/` must hold after the records that `apply` was given."""

    def __init__(self) -> None:
        self._unsuccessful: dict[TaskId, str] = {}

    def apply(self, record: Record) -> tuple[list[str], list[tuple[str, bytes]]]:
        """Return the names that go and the (name, content) that come, in this order."""
        if record.type == "RUN_STARTED":
            gone = list(self._unsuccessful.values())
            self._unsuccessful.clear()
            return gone, []
        if record.type not in _FINAL or record.task is None:
            return [], []
        old = self._unsuccessful.pop(record.task, None)
        if record.type not in _SHOWN:
            return ([old] if old else []), []
        name = layout.event_name(record.type, record.task)
        come = [(name, event_line(record, record.type, record.payload))]
        if record.type == COMPLETE:
            for task in record.payload.get("unblocks", ()):
                payload = {"task_id": task, "unblocked_by": record.task}
                come.append((layout.event_name(READY, task), event_line(record, READY, payload)))
        else:
            self._unsuccessful[record.task] = name
        return ([old] if old and old != name else []), come

    def shows(self, task: TaskId, name: str) -> bool:
        """Tell whether the newest final word of a task is this file, and no success."""
        return self._unsuccessful.get(task) == name


class Projection:
    """Keeps the directory as `View` says. One writer: the host."""

    def __init__(self, folders: Folders, scratch: str) -> None:
        self._folders = folders
        self._fs = folders.fs
        self.scratch = scratch
        """Name of the scratch file in `tmp/`."""
        self._view = View()
        self._due: deque[tuple[str, bytes | None]] = deque()
        """What is still to be done, in order: names with what they will hold, None for those that go."""

    def project(self, records: Iterable[Record]) -> None:
        """Make the directory agree with these records, which follow those before. Idempotent.

        Where the disk is full, what is left over is done by the next call.
        """
        for record in records:
            gone, come = self._view.apply(record)
            self._due.extend((name, None) for name in gone)
            self._due.extend(come)
        self._work_off()

    def expects(self, task: TaskId, name: str) -> bool:
        """Tell whether a file of a task whose attempt runs may be ours: of an earlier attempt, or not yet archived."""
        return bool(self._due) or self._view.shows(task, name)

    def _work_off(self) -> None:
        while self._due:
            name, content = self._due[0]
            events = self._folders.fd(layout.EVENTS)
            try:
                if content is None:
                    self._archive(name, events)
                else:
                    self._put(name, content, events)
            except FileNotFoundError:
                if not self._folders.refresh_all((layout.TMP, layout.EVENTS, layout.ARCHIVE)):
                    raise
                continue
            except OSError as error:
                if passes(error):
                    return
                raise
            self._due.popleft()

    def rebuild(self, records: Iterable[Record]) -> list[str]:
        """Make the directory agree with the whole journal; return the names that a foreign hand had made or changed.

        Those are archived, never lost.
        """
        wanted: dict[str, bytes] = {}
        for record in records:
            gone, come = self._view.apply(record)
            for name in gone:
                wanted.pop(name, None)
            wanted.update(come)
        events = self._folders.refresh(layout.EVENTS)
        self._folders.refresh(layout.ARCHIVE)
        foreign: list[str] = []
        present = set(self._fs.names(events))
        for name in present - wanted.keys():
            if layout.parse_event_name(name):
                self._archive(name, events)
                foreign.append(name)
        for name, content in wanted.items():
            if name not in present or self._read(name, events) != content:
                self._put(name, content, events)
        return sorted(foreign)

    def _put(self, name: str, content: bytes, events: int) -> None:
        tmp = self._folders.fd(layout.TMP)
        if self._fs.publish(self.scratch, tmp, name, events, content):
            return
        if self._read(name, events) != content:
            self._archive(name, events)
            self._fs.publish(self.scratch, tmp, name, events, content)

    def _archive(self, name: str, events: int) -> None:
        archive = self._folders.fd(layout.ARCHIVE)
        kept = f"{name}.{_seq(self._read(name, events))}"
        with contextlib.suppress(FileNotFoundError):
            self._fs.stat(kept, at=archive)
            kept = f"{kept}.{os.urandom(4).hex()}"  # never in the place of another, which may be anything
        with contextlib.suppress(FileNotFoundError):
            self._fs.rename(name, events, kept, archive)

    def _read(self, name: str, events: int) -> bytes:
        try:
            return self._fs.read_file(name, at=events, cap=MAX_EVENT)
        except (FileNotFoundError, Refused):
            return b""


def _seq(content: bytes) -> int:
    """The seq of a projection; 0 for anything else."""
    try:
        seq = json.loads(content)["seq"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0
    return seq if type(seq) is int else 0
