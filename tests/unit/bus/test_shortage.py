"""A machine without descriptors (or memory) for a moment, whatever the host is doing then: nothing is lost, nothing is
concluded, nothing is left behind, and it goes on."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from bus import journal, layout
from bus.errors import JournalBlocked, Shortage
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.wire import AttemptId, Message, Record, TaskId
from conductor.testing.disk import ModelDisk, ModelProcess
from tests.unit.bus.journals import NOW, start, texts

NEED_ROOM = frozenset({"open", "names"})
"""Calls that take a descriptor."""

ATTEMPT = layout.attempt_id(TaskId("1"), 1, "0a1b2c3d")
LATER = layout.attempt_id(TaskId("2"), 1, "0a1b2c3d")
MESSAGE = Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "handed in"})


class Scarce:
    """Refuses descriptors from the n-th call that takes one, for some calls."""

    def __init__(self, process: ModelProcess, first: int, calls: int) -> None:
        self._refused = range(first, first + calls)
        self.asked = 0
        process.before = self

    def __call__(self, process: ModelProcess, call: str) -> None:
        if call in NEED_ROOM:
            self.asked += 1
            if self.asked in self._refused:
                raise OSError(errno.EMFILE, "Too many open files")


def in_time(host: FileHost, attempt: AttemptId) -> int:
    """Make an attempt, as often as it takes."""
    while True:
        try:
            return host.create_attempt(attempt, {layout.PROMPT: b"do it"})
        except Shortage:
            continue


def written(host: FileHost, *staged: Record) -> None:
    """Commit and project, as often as it takes."""
    while True:
        try:
            host.commit()
            break
        except JournalBlocked:
            continue
    host.project(staged)


def a_pass(host: FileHost) -> None:
    """What a conductor does: takes in, records (also a blob, and a full segment), shows, launches, stops."""
    found = host.scan().messages
    taken = [host.stage("NOTE", one.message.payload, NOW, id=one.message.id) for one in found]
    complete = host.stage(
        "TASK_COMPLETE", {"task_id": "1", "unblocks": ["2"], "text": "c" * 5000}, NOW, task=TaskId("1")
    )
    written(host, *taken, complete)
    host.discard(found)
    host.fs.close(in_time(host, LATER))
    host.revoke(ATTEMPT, "stopped")
    host.tell_pause("because")
    host.write_views({"a": 1}, {"w": {}})
    host.checkpoint({"texts": []})
    host.tell_pause(None)


def played(first: int, calls: int) -> tuple[ModelDisk, Scarce]:
    """Let a host work while descriptors run short, and once more after that."""
    disk = ModelDisk()
    process = disk.process()
    host = open_host("/bus", fs=process)
    process.close(host.create_attempt(ATTEMPT))
    open_hand("/bus", ATTEMPT, fs=process).publish(MESSAGE)
    scarce = Scarce(process, first, calls)
    a_pass(host)
    process.before = None
    found = host.scan().messages
    host.close_attempt(ATTEMPT)
    written(host, *(host.stage("NOTE", one.message.payload, NOW, id=one.message.id) for one in found))
    host.discard(found)
    written(host, host.stage("NOTE", {"text": "end"}, NOW))
    host.scan()
    host.close()
    return disk, scarce


@pytest.mark.parametrize("calls", [1, 4])
def test_requirement_32_a_lack_of_descriptors_at_any_call_only_delays(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT", 1)
    _, calm = played(0, 0)
    assert calm.asked > 12
    for first in range(1, calm.asked + 1):
        disk, _ = played(first, calls)
        said = texts("/bus", fs=disk.process())
        assert sorted(text[:9] for text in said) == ["ccccccccc", "end", "handed in"], first
        assert disk.names("/bus/inbox") == disk.names("/bus/tmp") == disk.names("/bus/heartbeats") == [], first
        assert {name for name in disk.names("/bus/events") if name.endswith(".event")} == {
            "TASK_COMPLETE_1.event",
            "DEP_READY_2.event",
        }, first
        assert disk.names("/bus/quarantine") == [], first
        assert disk.names(f"/bus/{layout.attempt_dir(ATTEMPT)}") == ["live", "revoked"], first
        assert disk.names(f"/bus/{layout.attempt_dir(LATER)}") == ["live", "prompt.md"], first
        assert "paused" not in json.loads(disk.read("/bus/conductor.json")), first
        start("/bus", fs=disk.process()).close()


def test_why_nothing_is_started_stands_in_conductor_json_until_it_is_over(tmp_path: Path) -> None:
    host = open_host(tmp_path / "bus", durability="process")

    def told() -> object:
        holder = host.holder()
        assert holder is not None
        return holder.extra.get("paused")

    assert told() is None
    host.tell_pause("no worker can be started")
    assert told() == "no worker can be started"
    host.scan()
    assert told() == "no worker can be started"
    host.tell_pause(None)
    assert told() is None
