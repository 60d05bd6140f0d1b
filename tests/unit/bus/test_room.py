"""The journal on a disk that is full, or where files may not grow (requirements 1, 2, 32)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from bus import recovery, reserve, room
from bus._fs import FileSystem
from bus.errors import BusError, JournalBlocked, NoSpace
from bus.wire import Stamp, TaskId
from conductor.testing.disk import ModelDisk, ModelProcess
from tests.unit.bus.journals import Texts, put, start, texts


def test_requirement_32_the_reserve_is_given_up_first_and_made_again_later() -> None:
    disk = ModelDisk()
    host = start("/bus", fs=disk.process())
    assert len(disk.read("/bus/reserve")) == reserve.SIZE
    assert disk.read("/bus/reserve").strip(b"\0")  # some file systems store no zeros
    put(host, "a")
    disk.faults.room = 0
    put(host, "b")
    assert "the disk is full: the reserve of the bus was given up" in host.notes[-1]
    assert "reserve" not in disk.names("/bus")
    disk.faults.room = 0
    with pytest.raises(JournalBlocked, match="the disk is full"):
        put(host, "c")
    disk.faults.room = None
    host.commit()
    assert "reserve" not in disk.names("/bus")  # not at once: trying fills the disk up for a moment
    host.stage("NOTE", {"text": "d"}, Stamp(1.0, 2.0 + reserve.AGAIN_AFTER, "boot"))
    host.commit()
    assert len(disk.read("/bus/reserve")) == reserve.SIZE
    assert texts("/bus", fs=disk.process()) == ["a", "b", "c", "d"]


def test_requirement_32_a_run_goes_on_where_there_is_room_and_the_reserve_never_takes_that_room() -> None:
    """Neither at a start nor later is the reserve made of what the run needs to go on."""
    disk = ModelDisk()
    disk.faults.room = reserve.SIZE + room.NEEDED_AGAIN - 1
    host = start("/bus", fs=disk.process())
    assert "reserve" not in disk.names("/bus")
    disk.faults.room = 0
    said = host.scan().blocked
    assert said == "the disk is full (0 KiB free, 1.0 MiB needed to go on)"
    disk.faults.room = room.NEEDED_AGAIN - 1
    assert str(host.scan().blocked).startswith("the disk is full (")
    disk.faults.room = room.NEEDED_AGAIN + 4096
    for later in (1.0, 2.0):
        host.stage("NOTE", {"text": "a"}, Stamp(1.0, later * (1 + reserve.AGAIN_AFTER), "boot"))
        host.commit()
        assert "reserve" not in disk.names("/bus")
        assert host.scan().blocked is None


def test_requirement_32_a_snapshot_that_is_due_on_a_full_disk_is_not_tried_at_each_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not while `events/` is behind, and once it failed only when another is due: each try dumps the whole state."""
    disk = ModelDisk()
    host = start("/bus", fs=disk.process())
    put(host, "a")
    host.close()
    monkeypatch.setattr(recovery, "TAIL", 10)
    host = start("/bus", Texts(), fs=disk.process())
    assert host.checkpoint_due()
    record = host.stage("TASK_COMPLETE", {"task_id": "1"}, Stamp(1.0, 2.0, "boot"), task=TaskId("1"))
    host.commit()
    disk.faults.room = 0
    host.project([record])
    assert not host.checkpoint_due()
    disk.faults.room = None
    host.project([])
    assert host.checkpoint_due()
    disk.faults.room = 0
    host.checkpoint({"texts": ["a"]})
    assert not host.checkpoint_due()
    assert disk.names("/bus/snapshots") == []
    disk.faults.room = None
    assert not host.checkpoint_due()
    host.close()


def test_requirement_32_a_start_on_a_full_disk_gives_the_reserve_up_and_goes_on() -> None:
    """Whoever wants to stop the workers of a dead conductor on a full disk must get so far."""
    disk = ModelDisk()
    first = start("/bus", fs=disk.process())
    put(first, "a")
    first.close()
    disk.faults.room = 0
    host = start("/bus", fs=disk.process())
    assert host.epoch == 2
    assert host.freeze_plan(b"{}")
    put(host, "b")
    assert "reserve" not in disk.names("/bus")
    assert texts("/bus", fs=disk.process()) == ["a", "b"]


def test_requirement_32_starts_that_fail_on_a_full_disk_leave_nothing_and_say_what_to_do() -> None:
    disk = ModelDisk()
    first = start("/bus", fs=disk.process())
    put(first, "a")
    first.close()
    process = disk.process()
    process.unlink("reserve", process.open_directory("/bus"))
    before = disk.names("/bus/epochs")
    for _ in range(3):
        disk.faults.room = 0
        host = start("/bus", fs=disk.process())
        with pytest.raises(NoSpace, match="the disk is full") as caught:
            host.freeze_plan(b"{}")
        assert "free some space" in str(caught.value.hint)
        host.close()
    assert disk.names("/bus/epochs") == before
    disk.faults.room = None
    put(start("/bus", fs=disk.process()), "b")
    assert texts("/bus", fs=disk.process()) == ["a", "b"]


def test_requirement_32_without_room_for_a_reserve_there_is_none() -> None:
    disk = ModelDisk()
    start("/bus", fs=disk.process()).close()
    process = disk.process()
    process.unlink("reserve", process.open_directory("/bus"))
    disk.faults.room = 5000
    host = start("/bus", fs=disk.process())
    assert "reserve" not in disk.names("/bus")
    assert disk.names("/bus/tmp") == []
    put(host, "a")


def test_requirement_1_a_short_write_is_undone_and_the_batch_kept() -> None:
    disk = ModelDisk()
    host = start("/bus", fs=disk.process())
    put(host, "a")
    process = disk.process()
    process.unlink("reserve", process.open_directory("/bus"))
    before = disk.read("/bus/queue.jsonl")
    disk.faults.room = 100
    with pytest.raises(JournalBlocked, match="the disk is full"):
        put(host, "b", "c")
    assert disk.read("/bus/queue.jsonl") == before
    disk.faults.room = None
    host.commit()
    assert texts("/bus", fs=disk.process()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EFBIG, "the limit on the size of files"), (errno.EROFS, "read-only"), (errno.EDQUOT, "quota")],
)
def test_requirement_32_what_is_in_the_way_is_told_as_what_it_is(tmp_path: Path, number: int, said: str) -> None:
    class Refusing(FileSystem):
        room: int | None = None

        def write(self, fd: int, data: bytes) -> int:
            if self.room is None:
                return super().write(fd, data)
            if self.room == 0:
                raise OSError(number, os.strerror(number))
            taken, self.room = self.room, 0
            return super().write(fd, data[:taken])

    fs = Refusing()
    host = start(tmp_path / "bus", fs=fs)
    fs.room = 10
    with pytest.raises(JournalBlocked, match=said):
        put(host, "a")
    fs.room = None
    host.commit()
    assert texts(tmp_path / "bus") == ["a"]
    assert (tmp_path / "bus" / "reserve").exists() == (number != errno.EDQUOT)


def test_requirement_32_a_full_disk_delays_sealing() -> None:
    disk = ModelDisk()
    host = start("/bus", fs=disk.process())
    put(host, "a")
    host.close()
    disk.write("/bus/queue.jsonl", disk.read("/bus/queue.jsonl") + b"torn")
    host = start("/bus", fs=disk.process())
    disk.faults.no_names = True
    put(host, "b")
    assert disk.names("/bus/segments") == []
    disk.faults.no_names = False
    put(host, "c")
    assert disk.names("/bus/segments") == ["000000000001-000000000003.jsonl"]
    follower = Texts()
    host.close()
    start("/bus", follower, disk.process())
    assert follower.texts == ["a", "b", "c"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("call", ["link", "rename", "sync"])
def test_a_seal_that_fails_half_way_is_taken_up_again(call: str, restart: bool) -> None:
    """Whatever was done by then: the next seal, or the next start, takes the second name away first."""
    disk = ModelDisk()
    process = disk.process()
    host = start("/bus", fs=process)
    put(host, "a")
    refused: list[str] = []

    def refuse(process: ModelProcess, name: str) -> None:
        if name == call:
            refused.append(name)
            raise OSError(errno.EROFS, "read-only")

    host._journal.doubtful = True
    process.before = refuse
    put(host, "b")
    process.before = None
    assert refused
    if restart:
        host.close()
        host = start("/bus", fs=disk.process())
        host._journal.doubtful = True
    put(host, "c")
    put(host, "d")
    assert disk.names("/bus/segments") == ["000000000001-000000000003.jsonl"]
    assert texts("/bus", fs=disk.process()) == ["a", "b", "c", "d"]


def test_requirement_2_a_new_file_whose_name_is_not_on_disk_is_not_written_to() -> None:
    disk = ModelDisk()
    process = disk.process()
    host = start("/bus", fs=process)
    put(host, "a")

    def refuse(process: ModelProcess, name: str) -> None:
        if name == "sync" and "000000000001-000000000002.jsonl" in disk.names("/bus/segments"):
            disk.faults.failing_syncs = 1 if disk.read("/bus/queue.jsonl") == b"" else 0

    host._journal.doubtful = True
    process.before = refuse
    for _ in range(2):
        with pytest.raises(BusError, match="did not confirm"):
            put(host, "b")
    process.before = None
    host.close()
    again = start("/bus", fs=disk.process())
    put(again, "c")
    disk.power_cut()
    assert texts("/bus", fs=disk.process())[:2] == ["a", "b"]


@pytest.mark.parametrize("luck", range(8))
def test_requirement_2_a_plan_whose_sync_failed_is_written_anew(luck: int) -> None:
    """It is there, and perhaps not on disk; a round that rests on it is."""
    disk = ModelDisk()
    process = disk.process()
    host = start("/bus", fs=process)
    made: list[str] = []

    def refuse(process: ModelProcess, name: str) -> None:
        made[:] = disk.names("/bus/plan")
        disk.faults.failing_syncs = len(made)

    process.before = refuse
    with pytest.raises(BusError, match="the plan cannot be kept"):
        host.freeze_plan(b"plan")
    process.before = None
    assert made
    host.close()
    disk.faults.failing_syncs = 0
    again = start("/bus", fs=disk.process())
    sha = again.freeze_plan(b"plan")
    put(again, "the round begins")
    disk.power_cut(Random(luck))
    assert start("/bus", fs=disk.process()).load_plan(sha) == b"plan"
