"""A journal that was torn, cut, filled with zeros, written by others; a disk that is full or unsure."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bus.errors import BusCorrupt, BusError, BusGone, JournalBlocked
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.layout import attempt_id
from bus.reader import open_reader
from bus.wire import Message, ProcRecord, Stamp, TaskId

NOW = Stamp(1.0, 2.0, "boot")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


def put(host: FileHost, text: str) -> None:
    host.stage("NOTE", {"text": text}, NOW, task=TaskId("1"))
    host.commit()


def texts(root: Path) -> list[str]:
    return [record.payload["text"] for record in open_reader(root).records()]


def made(root: Path, *lines: str) -> bytes:
    host = open_host(root, durability="process")
    for text in lines:
        put(host, text)
    host.close()
    return (root / "queue.jsonl").read_bytes()


@pytest.mark.parametrize("rest", ["cut", "zeros", "foreign"])
def test_any_wrong_end_is_set_aside_and_cut_off(root: Path, rest: str) -> None:
    whole = made(root, "a", "b")
    start = whole.index(b"\n") + 1
    last = whole[start:]
    for cut in range(0, len(last), 1 if rest == "cut" else 9):
        tail = last[:cut]
        if rest == "zeros":
            tail += b"\0" * (len(last) - cut)
        elif rest == "foreign":
            tail += b'"what is this"\n'
        (root / "queue.jsonl").write_bytes(whole[:start] + tail)
        reader = open_reader(root)
        assert [record.payload["text"] for record in reader.records()] == ["a"], cut  # before any repair
        reader.close()
        host = open_host(root, durability="process")
        assert [record.payload["text"] for record in host.records()] == ["a"], cut
        assert (root / "queue.jsonl").read_bytes() == whole[:start]
        found = host.scan().quarantined
        assert bool(tail) == bool(found) == bool(host.notes)
        if tail:
            assert (root / "quarantine" / found[0].name).read_bytes() == tail
            assert (root / "quarantine" / f"{found[0].name}.why").exists()
        host.close()


def test_a_wrong_line_before_the_end_stops_with_its_number(root: Path) -> None:
    whole = made(root, "a", "b", "c")
    (root / "queue.jsonl").write_bytes(whole.replace(b'"b"', b'"x"'))
    with pytest.raises(BusCorrupt) as caught:
        open_host(root)
    assert caught.value.line == 2
    with pytest.raises(BusCorrupt) as caught:
        list(open_reader(root).records())
    assert caught.value.line == 2
    assert (root / "queue.jsonl").read_bytes() == whole.replace(b'"b"', b'"x"')


def test_a_reader_follows_and_reads_only_what_is_new(root: Path) -> None:
    host = open_host(root, durability="process")
    reader = open_reader(root)
    put(host, "a")
    assert [record.seq for record in reader.records()] == [1]
    with (root / "queue.jsonl").open("r+b") as journal:
        journal.write(b"#")  # a line that was read is not read again
    put(host, "b")
    assert [record.seq for record in reader.records(since=1)] == [2]
    assert list(reader.records(since=2)) == []
    with pytest.raises(BusCorrupt):
        list(reader.records())


def test_requirement_10_lines_of_a_replaced_conductor_are_passed_over(root: Path) -> None:
    made(root, "first")
    stale = made(root, "second").splitlines(keepends=True)[0]
    host = open_host(root, durability="process")
    put(host, "third")
    host.close()
    with (root / "queue.jsonl").open("ab") as journal:
        journal.write(stale)
    assert texts(root) == ["first", "second", "third"]
    host = open_host(root, durability="process")
    put(host, "fourth")
    assert [record.seq for record in open_reader(root).records()] == [1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, 5000])  # a line, and one that needs a blob
@pytest.mark.parametrize("full", ["error", "short"])
def test_requirement_32_full_disk_keeps_the_batch(root: Path, full_disk: Any, full: str, size: int) -> None:
    host = open_host(root, durability="power", fs=full_disk)
    put(host, "a")
    before = (root / "queue.jsonl").read_bytes()
    host.stage("NOTE", {"text": "b" * size}, NOW)
    host.stage("NOTE", {"text": "c"}, NOW)
    full_disk.full = full
    for _ in range(2):
        with pytest.raises(JournalBlocked):
            host.commit()
        assert (root / "queue.jsonl").read_bytes() == before
    full_disk.full = None
    host.commit()
    assert texts(root) == ["a", "b" * size, "c"]


def test_requirement_32_who_the_command_is_can_be_said_again(root: Path, full_disk: Any) -> None:
    attempt = attempt_id(TaskId("1"), 1, "0a1b2c3d")
    host = open_host(root, durability="process")
    os.close(host.create_attempt(attempt))
    hand = open_hand(root, attempt, fs=full_disk)
    hand.claim(ProcRecord("boot", 1, 2, 1))
    full_disk.full = "short"
    with pytest.raises(OSError, match="short write"):
        hand.started(3, 4, 3)
    assert host.read_command(attempt) is None
    full_disk.full = None
    hand.started(3, 4, 3)
    assert host.read_command(attempt) == {"pid": 3, "start_ticks": 4, "session": 3}
    assert host.read_proc(attempt) == ProcRecord("boot", 1, 2, 1)


def test_requirement_2_a_failed_sync_is_not_tried_again(root: Path, full_disk: Any) -> None:
    host = open_host(root, durability="power", fs=full_disk)
    host.stage("NOTE", {"text": "a"}, NOW)
    full_disk.unsure = True
    for _ in range(2):
        with pytest.raises(BusError, match="did not confirm"):
            host.commit()
        full_disk.unsure = False
    host.close()
    assert open_host(root).notes == []


def test_foreign_lines_are_set_aside(root: Path) -> None:
    host = open_host(root, durability="process")
    put(host, "a")
    with (root / "queue.jsonl").open("ab") as journal:
        journal.write(b'{"type":"TASK_COMPLETE"}\n')
    put(host, "b")
    assert texts(root) == ["a", "b"]
    (found,) = host.scan().quarantined
    assert (root / "quarantine" / found.name).read_bytes() == b'{"type":"TASK_COMPLETE"}\n'
    assert "somebody else" in found.reason


def test_a_journal_that_somebody_cut_stops_its_writer(root: Path) -> None:
    host = open_host(root, durability="process")
    put(host, "a")
    os.truncate(root / "queue.jsonl", 10)
    with pytest.raises(BusCorrupt, match="cut the journal"):
        put(host, "c")


def test_foreign_lines_in_the_very_moment_of_writing_are_set_aside(root: Path, meddler: Any) -> None:
    host = open_host(root, durability="power", fs=meddler)
    meddler.bytes = b"foreign\n"
    put(host, "a")
    assert texts(root) == ["a"]
    (found,) = host.scan().quarantined
    assert (root / "quarantine" / found.name).read_bytes() == b"foreign\n"


def test_a_disk_that_fails_is_no_full_disk(root: Path, full_disk: Any) -> None:
    host = open_host(root, durability="process", fs=full_disk)
    put(host, "a")
    full_disk.full = "broken"
    with pytest.raises(BusError, match="Input/output error") as caught:
        put(host, "b")
    assert not isinstance(caught.value, JournalBlocked)
    assert texts(root) == ["a"]


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_journal_that_is_no_file_is_refused(root: Path, tmp_path: Path, kind: str) -> None:
    made(root, "a")
    (root / "queue.jsonl").rename(tmp_path / "elsewhere")
    if kind == "folder":
        (root / "queue.jsonl").mkdir()
    else:
        (root / "queue.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BusCorrupt):
        open_host(root)
    with pytest.raises(BusCorrupt):
        list(open_reader(root).records())


def test_requirement_10_a_bus_that_was_replaced_is_not_written(root: Path) -> None:
    host = open_host(root, durability="process")
    root.rename(root.with_name("moved"))
    with pytest.raises(BusGone):
        put(host, "a")
    open_host(root, durability="process").close()
    with pytest.raises(BusGone):
        host.commit()
    assert texts(root) == []


def test_requirement_10_a_lock_that_was_replaced_stops_its_holder(root: Path) -> None:
    host = open_host(root, durability="process")
    (root / "conductor.lock").unlink()
    with pytest.raises(BusGone):
        put(host, "a")
    open_host(root, durability="process")
    with pytest.raises(BusGone):
        host.commit()


def test_requirement_8_a_worker_publishes_into_a_folder_that_was_made_again(root: Path) -> None:
    attempt = attempt_id(TaskId("1"), 1, "0a1b2c3d")
    host = open_host(root, durability="process")
    os.close(host.create_attempt(attempt))
    hand = open_hand(root, attempt)
    for text in ("before", "after"):
        hand.publish(Message(os.urandom(16).hex(), "NOTE", attempt, "t", {"text": text}))
        assert [item.message.payload["text"] for item in host.scan().messages] == [text]
        shutil.rmtree(root / "inbox")


def test_requirement_8_removed_folders_are_made_again(root: Path) -> None:
    host = open_host(root, durability="process")
    for name in ("inbox", "control"):
        shutil.rmtree(root / name)
        (root / name).mkdir(mode=0o700)
    (root / "control" / "00000001-stop").touch()
    assert [order.verb for order in host.scan().controls] == ["stop"]
    shutil.rmtree(root / "inbox")
    assert host.scan().messages == ()
    assert (root / "inbox").is_dir()
    for name in ("events", "tmp"):
        shutil.rmtree(root / name)
    record = host.stage("TASK_COMPLETE", {"task_id": "1", "unblocks": []}, NOW, task=TaskId("1"))
    host.commit()
    host.project([record])
    assert (root / "events" / "TASK_COMPLETE_1.event").exists()


@pytest.mark.parametrize("full", ["error", "short"])
def test_requirement_32_full_disk_delays_views_and_quarantine(root: Path, full_disk: Any, full: str) -> None:
    host = open_host(root, durability="process", fs=full_disk)
    attempt = attempt_id(TaskId("1"), 1, "0a1b2c3d")
    os.close(host.create_attempt(attempt))
    failed = host.stage("TASK_FAILED", {"task_id": "1", "error": "x"}, NOW, task=TaskId("1"))
    host.commit()
    host.project([failed])
    complete = host.stage("TASK_COMPLETE", {"task_id": "1", "unblocks": ["2"]}, NOW, task=TaskId("1"))
    host.commit()
    (root / "inbox" / "noise").touch()
    full_disk.full = full
    host.project([complete])
    host.write_views({}, {"w": {}})
    host.revoke(attempt, "stopped")
    assert host.scan().quarantined == ()
    assert (root / "inbox" / "noise").exists()
    full_disk.full = None
    host.project([])
    host.write_views({}, {"w": {}})
    assert {path.name for path in (root / "events").glob("*.event")} == {"TASK_COMPLETE_1.event", "DEP_READY_2.event"}
    assert (root / "worker-status.json").exists()
    assert len(host.scan().quarantined) == 1
