"""`events/`: one file per task and final word, made from the journal, to be listed and read by people and older tools.

TASK_COMPLETE, TASK_FAILED and TASK_BLOCKED of a task replace each other; a new round (RUN_STARTED) takes the failed and
the blocked back, because their tasks are pending again; a retry and a reset take back what they name. DEP_READY follows
from TASK_COMPLETE's `unblocks`. A replaced file goes to `events/archive/<name>.<seq>`. FILE_UNLOCK says of a path that
was locked that it is free: it comes and goes with the locks, and is not archived.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from bus import layout
from bus._fs import Refused, passes
from bus.folders import Folders
from bus.wire import JsonObject, Record, TaskId, dumps, is_line

COMPLETE, FAILED, BLOCKED, READY = "TASK_COMPLETE", "TASK_FAILED", "TASK_BLOCKED", "DEP_READY"
UNLOCK = "FILE_UNLOCK"

_OF_TASKS = (COMPLETE, FAILED, BLOCKED, READY)
_TYPES = (*_OF_TASKS, UNLOCK)
_LOCKS = frozenset({"GRANT_SEEN", "GRANT_GONE"})
_SHOWN = frozenset({COMPLETE, FAILED, BLOCKED})
_FINAL = _SHOWN | {"TASK_SKIPPED", "TASK_CANCELLED"}
_MARKS = (
    *(f'"type":"{type}"'.encode() for type in (*sorted(_FINAL | _LOCKS), "RUN_STARTED", "PLAN_RELOADED")),
    *(f'"verb":"{verb}"'.encode() for verb in ("reset", "retry")),
)

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


def event_file(type: str, name: str) -> str:
    """File name of a projection, from the task's name in file names."""
    return f"{type}_{name}.event"


class View:
    """Pure: which files `events/` must hold after the records that `apply` was given.

    It keeps the names only, and can be written down with a snapshot.
    """

    def __init__(self, kept: Mapping[str, str] | None = None) -> None:
        self._tasks: dict[str, set[str]] = {type: set() for type in _TYPES}
        """Names of tasks (of paths, for FILE_UNLOCK), as in file names, by type of the file."""
        for type, tasks in (kept or {}).items():
            self._tasks[type] |= set(tasks.split())

    def dump(self) -> dict[str, str]:
        """Return what `View` takes: by type, the tasks' names between blanks (no name holds one)."""
        return {type: " ".join(sorted(tasks)) for type, tasks in self._tasks.items()}

    def names(self) -> set[str]:
        """Return the names of all files."""
        return {event_file(type, task) for type, tasks in self._tasks.items() for task in tasks}

    def done(self) -> list[str]:
        """Return the names of the tasks that are shown as done."""
        return sorted(self._tasks[COMPLETE])

    def shows(self, type: str, task: TaskId) -> bool:
        """Tell whether there must be such a file."""
        return layout.encode_task_id(task) in self._tasks[type]

    def apply(self, record: Record) -> tuple[list[str], list[tuple[str, bytes]]]:
        """Return the names that go and the (name, content) that come, in this order."""
        if record.type == "RUN_STARTED":
            return self._take_all((FAILED, BLOCKED, UNLOCK)), []
        if record.type == "PLAN_RELOADED":  # what stays blocked is said to be so again
            return self._take_all((BLOCKED,)), []
        if record.type == "CONTROL":
            return self._ordered(record.payload), []
        if record.type in _LOCKS:
            return self._lock(record)
        if record.type not in _FINAL or record.task is None:
            return [], []
        task = layout.encode_task_id(record.task)
        if record.type not in _SHOWN:
            return self._take(task, (FAILED, BLOCKED)), []
        gone = self._take(task, tuple(type for type in (COMPLETE, FAILED, BLOCKED) if type != record.type))
        come = [self._show(record, record.type, task, record.payload)]
        if record.type == COMPLETE:
            for unblocked in record.payload.get("unblocks", ()):
                payload = {"task_id": unblocked, "unblocked_by": record.task}
                come.append(self._show(record, READY, layout.encode_task_id(unblocked), payload))
        return gone, come

    def _show(self, record: Record, type: str, task: str, payload: JsonObject) -> tuple[str, bytes]:
        self._tasks[type].add(task)
        return event_file(type, task), event_line(record, type, payload)

    def _lock(self, record: Record) -> tuple[list[str], list[tuple[str, bytes]]]:
        """Paths that are locked are not free; those that were released are, even if others share them still."""
        keys = record.payload.get("keys", ())
        if record.type == "GRANT_SEEN":
            return [name for key in keys for name in self._take(layout.key_name(key), (UNLOCK,))], []
        about = {"worker_id": record.attempt, "how": record.payload.get("how")}
        return [], [self._show(record, UNLOCK, layout.key_name(key), {"filepath": key, **about}) for key in keys]

    def _ordered(self, payload: JsonObject) -> list[str]:
        if payload.get("verb") == "reset":
            return self._reset(payload)
        if payload.get("verb") != "retry" or payload.get("refused"):
            return []
        tasks = map(layout.encode_task_id, payload.get("tasks", ()))
        return [name for task in tasks for name in self._take(task, (FAILED, BLOCKED))]

    def _reset(self, payload: JsonObject) -> list[str]:
        """Everything, or the tasks that are named. The target itself is still ready; those behind it are not."""
        target = payload.get("target")
        if target is None:
            return self._take_all(_TYPES)
        gone: list[str] = []
        for task in payload.get("tasks", ()):
            types = (COMPLETE, FAILED, BLOCKED) if task == target else _OF_TASKS
            gone += self._take(layout.encode_task_id(task), types)
        return gone

    def _take(self, task: str, types: Iterable[str]) -> list[str]:
        gone = [type for type in types if task in self._tasks[type]]
        for type in gone:
            self._tasks[type].discard(task)
        return [event_file(type, task) for type in gone]

    def _take_all(self, types: Iterable[str]) -> list[str]:
        gone = [event_file(type, task) for type in types for task in sorted(self._tasks[type])]
        for type in types:
            self._tasks[type].clear()
        return gone


class Projection:
    """Keeps the directory as `View` says. One writer: the host."""

    def __init__(self, folders: Folders, scratch: str, check: Callable[[], None]) -> None:
        self._folders = folders
        self._fs = folders.fs
        self._check = check
        """Raises BusGone where the track is not ours any more: whoever took it over keeps the directory then."""
        self.scratch = scratch
        """Name of the scratch file in `tmp/`."""
        self.view = View()
        self._due: deque[tuple[str, bytes | None]] = deque()
        """What is still to be done, in order: names with what they will hold, None for those that go."""
        self._present: set[str] = set()
        self._torn: set[str] = set()
        self._changed: dict[str, bytes | None] = {}

    def project(self, records: Iterable[Record]) -> None:
        """Make the directory agree with these records, which follow those before. Idempotent.

        Where the disk is full, what is left over is done by the next call.
        """
        for record in records:
            gone, come = self.view.apply(record)
            self._due.extend((name, None) for name in gone)
            self._due.extend(come)
        self._work_off()

    @property
    def is_behind(self) -> bool:
        """Tell whether something could not be written yet."""
        return bool(self._due)

    def expects(self, task: TaskId, type: str) -> bool:
        """Tell whether a file of a task whose attempt runs may be ours: of an earlier attempt, or not yet archived."""
        return bool(self._due) or self.view.shows(type, task)

    def _work_off(self) -> None:
        while self._due:
            try:
                done = self._do(*self._due[0])
            except OSError as error:
                if passes(error):
                    return
                raise
            if done:
                self._due.popleft()

    def _do(self, name: str, content: bytes | None) -> bool:
        """Make a file or take it away; False where its folder was removed, and is there again by now."""
        events = self._folders.fd(layout.EVENTS)
        try:
            if name.startswith(UNLOCK):
                self._put_passing(name, content, events)
            elif content is None:
                self._archive(name, events)
            else:
                self._put(name, content, events)
        except FileNotFoundError:
            if not self._folders.refresh_all((layout.TMP, layout.EVENTS, layout.ARCHIVE)):
                self._check()
                raise
            return False
        return True

    # --- at the start -----------------------------------------------------------------------------------------------

    def begin(self, view: View, *, look_inside: bool = False) -> None:
        """Take over what the directory must hold after the records before those that `replay` will be given.

        `look_inside`: a power cut may have left files whose names are there and whose content is not.
        """
        self.view = view
        self._folders.refresh(layout.ARCHIVE)
        events = self._folders.refresh(layout.EVENTS)
        self._present = {name for name in self._fs.names(events) if layout.parse_event_name(name)}
        if look_inside:
            self._torn = {name for name in sorted(self._present) if not _is_whole(self._read(name, events))}

    def replay(self, record: Record) -> None:
        """Take in a record of the past; the directory follows at `settle`."""
        gone, come = self.view.apply(record)
        self._changed.update((name, None) for name in gone)
        self._changed.update(come)

    def settle(self) -> None:
        """Make the directory agree with what was replayed. Only what differs is written."""
        events = self._folders.fd(layout.EVENTS)
        for name, content in self._changed.items():
            there = name in self._present
            if there if content is None else not there or self._read(name, events) != content:
                self._due.append((name, content))
            self._torn.discard(name)
            if content is None:
                self._present.discard(name)
            else:
                self._present.add(name)
        self._changed.clear()
        self._work_off()

    def finish(self, manual: Callable[[], Iterable[TaskId]]) -> tuple[list[str], set[str]]:
        """Archive what does not follow from the journal; return the names of that, and the names that are missing.

        What claims that a task of `manual` is complete or failed is left: the run asks for it once it comes to that.
        """
        wanted = self.view.names()
        foreign = sorted(self._present - wanted)
        if foreign:
            open = [task for task in manual() if not self.view.shows(COMPLETE, task)]
            claims = {layout.event_name(type, task) for task in open for type in (COMPLETE, FAILED)}
            foreign = [name for name in foreign if name not in claims]
        self._due.extend((name, None) for name in foreign)
        missing = (wanted - self._present) | (wanted & self._torn)
        self._present.clear()
        self._torn.clear()
        self._work_off()
        return foreign, missing

    def restore(self, missing: set[str], records: Iterable[Record]) -> None:
        """Make missing files again from the records of the whole journal."""
        view, contents = View(), dict[str, bytes]()
        for record in records:
            _, come = view.apply(record)
            contents.update((name, content) for name, content in come if name in missing)
        self._due.extend(sorted(contents.items()))
        self._work_off()

    # --- one file ---------------------------------------------------------------------------------------------------

    def _put(self, name: str, content: bytes, events: int) -> None:
        tmp = self._folders.fd(layout.TMP)
        self._check()
        if self._fs.publish(self.scratch, tmp, name, events, content):
            return
        if self._read(name, events) != content:
            self._archive(name, events)
            self._fs.publish(self.scratch, tmp, name, events, content)

    def _put_passing(self, name: str, content: bytes | None, events: int) -> None:
        """Make or remove a file of which nothing is to be kept."""
        tmp = self._folders.fd(layout.TMP)
        self._check()
        if content is None:
            self._fs.discard(name, events)
        else:
            self._fs.replace(self.scratch, tmp, name, events, content)

    def _archive(self, name: str, events: int) -> None:
        archive = self._folders.fd(layout.ARCHIVE)
        kept = f"{name}.{_seq(self._read(name, events))}"
        with contextlib.suppress(FileNotFoundError):
            self._fs.stat(kept, at=archive)
            kept = f"{kept}.{os.urandom(4).hex()}"  # never in the place of another, which may be anything
        self._check()
        try:
            self._fs.rename(name, events, kept, archive)
        except FileNotFoundError:  # somebody has taken it away; or the archive, and then that is made anew first
            if name in self._fs.names(events):
                raise

    def _read(self, name: str, events: int) -> bytes:
        try:
            return self._fs.read_file(name, at=events, cap=MAX_EVENT)
        except (FileNotFoundError, Refused):
            return b""


def _is_whole(content: bytes) -> bool:
    return content.endswith(b"\n") and is_line(content)


def _seq(content: bytes) -> int:
    """The seq of a projection; 0 for anything else."""
    try:
        seq = json.loads(content)["seq"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0
    return seq if type(seq) is int else 0


def archived(names: Sequence[str]) -> str:
    """Say in one note which files of `events/` did not follow from the journal."""
    shown = ", ".join(f"{layout.EVENTS}/{name}" for name in names[:3])
    if len(names) == 1:
        return f"{shown} does not follow from the journal and was archived"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{len(names)} files do not follow from the journal and were archived: {shown}{more}"
