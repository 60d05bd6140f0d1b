"""Requirement 3: crash before any system call of an operation, start again, and look."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bus import control, layout
from bus.contract import Host
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.projection import View
from bus.wire import ExitRecord, Message, ProcRecord, Stamp, TaskId

NOW = Stamp(1.0, 2.0, "boot")
ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
MESSAGE = Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "x" * 100})
EXIT = ExitRecord(started=True, ended_by="self", command={"code": 0, "signal": None})


def put(host: Host, type: str, payload: dict[str, Any], task: str) -> None:
    record = host.stage(type, payload, NOW, task=TaskId(task))
    host.commit()
    host.project([record])


def commit_and_project(host: FileHost) -> None:
    """A failure becomes a success; one payload needs a blob; another task is unblocked."""
    records = [
        host.stage("TASK_COMPLETE", {"task_id": "1", "unblocks": ["2"]}, NOW, task=TaskId("1")),
        host.stage("TASK_FAILED", {"task_id": "3", "error": "e" * 5000}, NOW, task=TaskId("3")),
    ]
    host.commit()
    host.project(records)


def take_in(host: FileHost) -> None:
    """What a pass of the conductor does with a message."""
    scan = host.scan()
    for item in scan.messages:
        host.stage(item.message.type, item.message.payload, NOW, id=item.message.id, attempt=item.message.attempt)
    host.commit()
    host.discard(scan.messages)


def publish(host: FileHost) -> None:
    open_hand(host.folders.path, ATTEMPT, fs=host.fs).publish(MESSAGE, durable=True)


def finish(host: FileHost) -> None:
    hand = open_hand(host.folders.path, ATTEMPT, fs=host.fs)
    hand.claim(ProcRecord("boot", 1, 2, 1))
    hand.started(3, 4, 3)
    hand.beat()
    hand.finish(EXIT)


def close_attempt(host: FileHost) -> None:
    host.close_attempt(ATTEMPT)
    host.close()


OPERATIONS: dict[str, Callable[[FileHost], object]] = {
    "nothing": lambda host: None,
    "commit": commit_and_project,
    "new round": lambda host: put(host, "RUN_STARTED", {}, "0"),
    "take in": take_in,
    "create attempt": lambda host: host.create_attempt(
        layout.attempt_id(TaskId("2"), 1, "ffffffff"), {layout.PROMPT: b"do it"}
    ),
    "revoke": lambda host: host.revoke(ATTEMPT, "timeout"),
    "freeze plan": lambda host: host.freeze_plan(b"plan"),
    "publish": publish,
    "finish": finish,
    "drop": lambda host: control.drop(Path(host.folders.path), "stop", who="me", fs=host.fs),
    "close attempt": close_attempt,
}


def prepare(root: Path) -> None:
    """A bus with a past: a failed task, an attempt, a message that waits."""
    host = open_host(root, durability="process")
    put(host, "TASK_FAILED", {"task_id": "1", "error": "x"}, "1")
    os.close(host.create_attempt(ATTEMPT))
    open_hand(root, ATTEMPT).publish(Message("cd" * 16, "NOTE", ATTEMPT, "t", {"text": ""}))
    host.close()


def check(root: Path) -> None:
    """What must hold after any crash and a new start."""
    host = open_host(root, durability="process")
    try:
        view = View()
        wanted: dict[str, bytes] = {}
        ids = []
        for record in host.records():
            ids.append(record.id)
            gone, come = view.apply(record)
            for name in gone:
                wanted.pop(name)
            wanted.update(come)
        events = {path.name: path.read_bytes() for path in (root / "events").iterdir() if path.is_file()}
        assert events == wanted
        scan = host.scan()
        assert all(found.name.endswith("queue.jsonl") for found in scan.quarantined)  # its torn end, no message
        known = {MESSAGE.id, "cd" * 16}
        assert all(item.message.id in known or item.message.type == "RESULT" for item in scan.messages)
        assert "cd" * 16 in {*ids, *(item.message.id for item in scan.messages)}
        assert len(ids) == len(set(ids))
        for folder in (root / "attempts").glob("*/*"):
            assert (folder / "live").exists()
        result = host.read_exit(ATTEMPT)
        assert result is None or result.command == {"code": 0, "signal": None}
        if any(item.message.type == "RESULT" for item in scan.messages):
            assert result is not None
        put(host, "TASK_COMPLETE", {"task_id": "9", "unblocks": []}, "9")
        assert (root / "events" / "TASK_COMPLETE_9.event").exists()
        left = {layout.scratch_owner(path.name) for path in (root / "tmp").iterdir()}
        assert left <= {ATTEMPT}
    finally:
        host.close()


SYNCING = ("commit", "take in", "freeze plan", "publish", "finish")
"""Operations that make other calls in `power` than in `process`."""


@pytest.mark.parametrize(
    ("name", "durability"), [*((name, "process") for name in OPERATIONS), *((name, "power") for name in SYNCING)]
)
def test_requirement_3_crash_at_every_call(
    name: str, durability: str, tmp_path: Path, crashing: Any, crash: Any
) -> None:
    at = 1
    while True:
        root = tmp_path / f"{at}"
        prepare(root)
        fs = crashing()
        host = open_host(root, durability=durability, fs=fs)
        fs.at = fs.count + at
        try:
            OPERATIONS[name](host)
        except crash:
            pass
        else:
            fs.bury()
            check(root)
            break
        fs.bury()
        check(root)
        at += 1
    assert at > 1 or name == "nothing"


def test_requirement_3_crash_at_every_call_of_a_start(tmp_path: Path, crashing: Any, crash: Any) -> None:
    """The first start of a bus, and one that has to repair a torn journal."""
    for prepared in (False, True):
        at = 1
        while True:
            root = tmp_path / f"{prepared}{at}"
            if prepared:
                prepare(root)
                with (root / "queue.jsonl").open("ab") as journal:
                    journal.write(b'{"seq":2,"ep')
            fs = crashing(at)
            try:
                open_host(root, durability="process", fs=fs)
            except crash:
                fs.bury()
            else:
                fs.bury()
                break
            host = open_host(root, durability="process")
            assert [record.seq for record in host.records()] == ([1] if prepared else [])
            assert not any(path.name.startswith("legacy") for path in root.iterdir())
            host.close()
            at += 5 if prepared or at > 40 else 1
