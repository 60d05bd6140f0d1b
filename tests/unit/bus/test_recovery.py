"""What a start makes of the journal's end, of snapshots and of `events/` (requirements 1, 2, 3, 5, 6)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bus import journal, layout, recovery, snapshots
from bus._fs import FileSystem
from bus.errors import BusCorrupt, BusError
from bus.host import FileHost
from bus.reader import open_reader
from bus.wire import Record, Stamp, encode_record
from conductor.testing.disk import Killed, ModelDisk
from tests.unit.bus.journals import NOW, Texts, final, names, put, start, texts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


def ended(host: FileHost, *texts: str) -> None:
    """Record, keep a snapshot of it, and give the track up."""
    put(host, *texts)
    host.checkpoint({"texts": list(texts)})
    host.close()


# --- the end of the journal ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [b'{"seq":3,"epoch":1,"t"', b"\0" * 5000, b"garbage\n", b"\0" * 100 + b"\n", b"a\nb\nc\n\0\0", b"\n\n\n"],
    ids=["torn", "zeros", "a line", "zeros and newline", "lines and zeros", "empty lines"],
)
def test_requirement_5_what_is_wrong_at_the_end_is_kept_and_cut_off(root: Path, end: bytes) -> None:
    host = start(root)
    put(host, "a", "b")
    host.close()
    whole = (root / "queue.jsonl").read_bytes()
    (root / "queue.jsonl").write_bytes(whole + end)
    assert texts(root) == ["a", "b"]  # before any repair
    host = start(root)
    (note,) = host.notes
    assert note.startswith("queue.jsonl: ")
    (found,) = host.scan().quarantined
    assert (root / "quarantine" / found.name).read_bytes() == end
    put(host, "c")
    assert texts(root) == ["a", "b", "c"]


def test_requirement_3_a_power_cut_that_keeps_the_end_of_a_write_and_loses_its_beginning(root: Path) -> None:
    """Nothing of that write was acknowledged: what is whole of it behind the hole goes too."""
    host = start(root)
    put(host, "a")
    put(host, "b", "c", "d")
    host.close()
    path = root / "queue.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\0" * len(lines[1]) + lines[2] + lines[3])
    assert texts(root) == ["a"]
    host = start(root)
    assert texts(root) == ["a"]
    put(host, "e")
    assert [record.seq for record in open_reader(root).records()] == [1, 2]


def test_requirement_5_damage_behind_which_something_was_acknowledged_stops_the_start(root: Path) -> None:
    host = start(root)
    for text in "abcd":
        put(host, text)
    host.close()
    path = root / "queue.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\0" * len(lines[1]) + lines[2] + lines[3])
    before = path.read_bytes()
    for look in (lambda: start(root), lambda: texts(root)):
        with pytest.raises(BusCorrupt, match="line 2 of the journal is damaged") as caught:
            look()
        assert (caught.value.line, caught.value.path) == (2, "queue.jsonl")
        assert "--repair" in str(caught.value.hint)
    assert path.read_bytes() == before


def test_missing_lines_and_lines_that_stand_twice_are_damage(root: Path) -> None:
    host = start(root)
    for text in "abc":
        put(host, text)
    host.close()
    path = root / "queue.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for content, message in (
        (lines[0] + lines[2], "record 2 is missing"),
        (lines[1] + lines[2], "record 1 is missing"),
        ([*lines, lines[2]], "record 3 stands here again"),
    ):
        path.write_bytes(b"".join(content) if isinstance(content, list) else content)
        for look in (lambda: start(root), lambda: texts(root)):
            with pytest.raises(BusCorrupt, match=message):
                look()


def test_requirement_10_the_successor_wins_where_a_replaced_conductor_wrote_in_the_same_moment(root: Path) -> None:
    """Its line came between the successor's last look and its first write, and the successor was killed right then."""
    host = start(root)
    put(host, "a")
    host.close()
    with (root / "queue.jsonl").open("ab") as file:
        for epoch, text in ((1, "old 2"), (1, "old 3"), (2, "new 2")):
            seq = 3 if text == "old 3" else 2
            t = Stamp(1.0, 2.0, "boot", 2)
            file.write(encode_record(Record(seq, epoch, t, "0" * 32, "NOTE", "x", "t", None, None, {"text": text})))
    follower = Texts()
    host = start(root, follower)
    assert follower.texts == ["a", "new 2"]
    assert texts(root) == ["a", "new 2"]
    (found,) = host.scan().quarantined
    assert b"old 3" in (root / "quarantine" / found.name).read_bytes()
    put(host, "b")
    assert [record.seq for record in open_reader(root).records()] == [1, 2, 3]


def test_requirement_10_what_a_replaced_conductor_appends_while_its_successor_starts_counts_nowhere(root: Path) -> None:
    host = start(root)
    put(host, "a")
    stale = (root / "queue.jsonl").read_bytes()
    put(host, "b")
    host.close()

    class Late(FileSystem):
        """Appends a line of the first epoch right before the file is read for the second time."""

        looks = 0

        def read_at(self, fd: int, size: int, offset: int) -> bytes:
            if offset == 0 and size > 100_000:
                self.looks += 1
                if self.looks == 2:
                    with (root / "queue.jsonl").open("ab") as journal:
                        journal.write(stale)
            return super().read_at(fd, size, offset)

    follower = Texts()
    host = start(root, follower, Late())
    assert follower.texts == ["a", "b"]
    put(host, "c")
    assert texts(root) == ["a", "b", "c"]
    assert any(path.read_bytes() == stale for path in (root / "quarantine").iterdir())


def test_requirement_2_after_a_failed_sync_the_journal_is_copied_before_it_is_used() -> None:
    disk = ModelDisk()
    host = start("/bus", fs=disk.process())
    put(host, "a")
    before = disk.process().stat("/bus/queue.jsonl").st_ino
    disk.faults.failing_syncs = 1
    for _ in range(2):
        with pytest.raises(BusError, match="did not confirm"):
            put(host, "b")
    host.close()
    assert "journal.doubt" in disk.names("/bus")
    start("/bus", fs=disk.process()).close()
    assert disk.process().stat("/bus/queue.jsonl").st_ino != before
    assert "journal.doubt" not in disk.names("/bus")
    known = texts("/bus", fs=disk.process())
    disk.power_cut()
    assert texts("/bus", fs=disk.process()) == known


@pytest.mark.parametrize("seed", range(30))
def test_requirement_3_a_power_cut_in_a_long_write_loses_that_write_at_most(seed: int) -> None:
    disk = ModelDisk(Random(seed))
    process = disk.process()
    host = start("/bus", fs=process)
    put(host, "a", "b")
    process.before = lambda process, call: process.kill() if call == "sync_data" else None
    with pytest.raises(Killed):
        put(host, *"cdefghi", size=2000)
    disk.power_cut()
    follower = Texts()
    host = start("/bus", follower, disk.process())
    assert [text[0] for text in follower.texts] == list("abcdefghi")[: len(follower.texts)]
    assert len(follower.texts) >= 2
    put(host, "z")
    assert texts("/bus", fs=disk.process())[-1] == "z"


def test_requirement_3_what_a_killed_conductor_had_not_synced_is_on_disk_before_anything_follows_from_it() -> None:
    disk = ModelDisk()
    process = disk.process()
    host = start("/bus", fs=process)
    process.before = lambda process, call: process.kill() if call == "sync_data" else None
    with pytest.raises(Killed):
        put(host, "a")
    follower = Texts()
    start("/bus", follower, disk.process())
    assert follower.texts == ["a"]
    disk.power_cut()
    assert texts("/bus", fs=disk.process()) == ["a"]


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_requirement_6_only_what_is_behind_the_snapshot_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SEGMENT", 300)
    host = start(root)
    put(host, "a", "b")
    put(host, "c", "d")
    ended(host, "e")
    host = start(root)
    put(host, "f")
    host.close()
    for segment in (root / "segments").iterdir():
        if int(segment.name[13:25]) <= 4:
            segment.write_bytes(b"")  # would be damage, if anybody looked
    follower = Texts()
    start(root, follower).close()
    assert (follower.texts, follower.taken) == (["e", "f"], [6])
    looking = Texts()
    reader = open_reader(root)
    reader.follow(looking)
    assert (looking.texts, looking.taken) == (["e", "f"], [6])
    assert list(reader.records(6)) == []


@pytest.mark.parametrize("harm", ["torn", "empty", "changed", "other seq", "folder", "format"])
def test_requirement_6_a_snapshot_that_cannot_be_trusted_is_passed_over(root: Path, harm: str) -> None:
    host = start(root)
    put(host, "a")
    host.checkpoint({"texts": ["a"]})
    put(host, "b")
    host.checkpoint({"texts": ["a", "WRONG"]})
    put(host, "c")
    host.close()
    path = root / "snapshots" / layout.snapshot_name(2)
    whole = path.read_bytes()
    if harm == "torn":
        path.write_bytes(whole[:-20])
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "changed":
        path.write_bytes(whole.replace(b"WRONG", b"wrong"))
    elif harm == "other seq":
        path.rename(path.with_name(layout.snapshot_name(3)))
    elif harm == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(b'{"format":99}\n{}\nsha256:0\n')
    follower, looking = Texts(), Texts()
    open_reader(root).follow(looking)
    start(root, follower).close()
    assert follower.texts == looking.texts == ["a", "b", "c"]


def test_a_snapshot_is_due_by_the_bytes_since_the_last(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVERY", 5000)
    host = start(root)
    assert not host.checkpoint_due()
    put(host, "a", size=3000)
    assert not host.checkpoint_due()
    put(host, "b", size=3000)
    assert host.checkpoint_due()
    host.checkpoint({"texts": ["." * 14_000]})
    put(host, "c", size=3000)
    put(host, "d", size=3000)
    assert not host.checkpoint_due()  # the snapshot is large itself
    put(host, "e", size=3000)
    assert host.checkpoint_due()


def test_requirement_6_a_recovery_that_is_killed_again_and_again_gets_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each start lives for fewer calls than a whole recovery needs, and goes on from the snapshot of the one before."""
    monkeypatch.setattr(snapshots, "EVERY", 20_000)
    disk = ModelDisk()
    host = start("/bus", fs=disk.process(), durability="process")
    for number in range(100):
        final(host, "TASK_COMPLETE", str(number), unblocks=[], long="x" * 700)
    host.close()
    for name in disk.names("/bus/events"):
        if name.endswith(".event"):
            process = disk.process()
            process.unlink(name, process.open_directory("/bus/events"))
    process = disk.process()
    whole = Texts()
    start("/bus", whole, process).close()
    for name in disk.names("/bus/snapshots"):
        process.unlink(name, process.open_directory("/bus/snapshots"))
    longest = process.calls
    taken = []
    for _ in range(20):
        process, follower = disk.process(), Texts()
        process.dies_at = longest // 2
        try:
            start("/bus", follower, process)
        except Killed:
            taken.append(len(follower.taken))
            continue
        break
    assert follower.texts == whole.texts
    assert taken
    assert len(follower.taken) < 100


def test_behind_a_start_with_a_long_tail_a_snapshot_is_due_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = start(root)
    put(host, "a", "b")
    host.close()
    host = start(root, Texts())
    assert not host.checkpoint_due()
    host.close()
    monkeypatch.setattr(recovery, "TAIL", 10)
    host = start(root, Texts())
    assert names(root / "snapshots") == []  # whoever waits for the start does not wait for a snapshot
    assert host.checkpoint_due()
    host.checkpoint({"texts": ["a", "b"]})
    assert not host.checkpoint_due()
    host.close()
    assert names(root / "snapshots") == [layout.snapshot_name(2)]
    follower = Texts()
    start(root, follower).close()
    assert (follower.texts, follower.taken) == (["a", "b"], [])


def test_a_full_disk_keeps_no_snapshot_and_stops_nothing() -> None:
    disk = ModelDisk()
    host = start("/bus", fs=disk.process())
    put(host, "a")
    disk.faults.room = 10
    host.checkpoint({"texts": ["a"]})
    disk.faults.room = None
    assert disk.names("/bus/snapshots") == []
    assert disk.names("/bus/tmp") == []
    put(host, "b")
    host.checkpoint({"texts": ["a", "b"]})
    assert disk.names("/bus/snapshots") == [layout.snapshot_name(2)]


def test_a_folder_in_the_place_of_a_snapshot_keeps_none_and_stops_nothing(root: Path) -> None:
    host = start(root)
    put(host, "a")
    (root / "snapshots" / layout.snapshot_name(1)).mkdir()
    host.checkpoint({"texts": ["a"]})
    put(host, "b")
    host.checkpoint({"texts": ["a", "b"]})
    host.close()
    assert names(root / "tmp") == []
    follower = Texts()
    start(root, follower).close()
    assert (follower.texts, follower.taken) == (["a", "b"], [])


def test_a_snapshot_of_what_is_not_committed_is_refused(root: Path) -> None:
    host = start(root)
    host.stage("NOTE", {"text": "a"}, NOW)
    with pytest.raises(ValueError, match="staged"):
        host.checkpoint({"texts": ["a"]})


# --- events/ ---------------------------------------------------------------------------------------------------------


class Reading(FileSystem):
    """Counts what is opened in `events/`."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, name: str | bytes, *args: Any, **kwargs: Any) -> int:
        if str(name).endswith(".event"):
            self.opened.append(str(name))
        return super().open(name, *args, **kwargs)


def events(root: Path) -> dict[str, int]:
    return {path.name: json.loads(path.read_bytes())["seq"] for path in (root / "events").glob("*.event")}


@pytest.fixture
def finished(root: Path) -> Path:
    """Three tasks done and one failed before a snapshot, one done behind it."""
    host = start(root)
    final(host, "TASK_FAILED", "d", error="x")
    final(host, "TASK_COMPLETE", "a", unblocks=["b", "c"])
    final(host, "TASK_COMPLETE", "b", unblocks=[])
    host.checkpoint({"texts": []})
    final(host, "TASK_COMPLETE", "c", unblocks=[])
    host.close()
    return root


EXPECTED = {
    "TASK_FAILED_d.event": 1, "TASK_COMPLETE_a.event": 2, "DEP_READY_b.event": 2, "DEP_READY_c.event": 2,
    "TASK_COMPLETE_b.event": 3, "TASK_COMPLETE_c.event": 4,
}  # fmt: skip


def test_requirement_3_events_are_compared_by_name_and_read_only_behind_the_snapshot(finished: Path) -> None:
    fs = Reading()
    host = start(finished, fs=fs)
    assert fs.opened == ["TASK_COMPLETE_c.event"]
    assert events(finished) == EXPECTED
    assert host.notes == []


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_requirement_3_an_event_that_is_missing_is_made_again(finished: Path, name: str) -> None:
    content = (finished / "events" / name).read_bytes()
    (finished / "events" / name).unlink()
    assert start(finished).notes == []
    assert (finished / "events" / name).read_bytes() == content
    assert events(finished) == EXPECTED


def test_requirement_3_after_a_reboot_events_are_read_as_a_power_cut_may_have_torn_them(finished: Path) -> None:
    class Rebooted(FileSystem):
        def boot(self) -> str:
            return "another"

    path = finished / "events" / "TASK_COMPLETE_a.event"
    whole = path.read_bytes()
    for torn in (b"", whole[:50], whole[:-1], b"\0" * len(whole)):
        path.write_bytes(torn)
        host = start(finished, fs=Rebooted())
        assert host.notes == []
        assert host.checkpoint_due()  # what this start found whole, the next one need not look into again
        host.close()
        assert path.read_bytes() == whole
    assert names(finished / "events" / "archive")


def test_many_foreign_events_are_told_in_one_note(finished: Path) -> None:
    """After a repair all of them may be stale."""
    for name in "vwxyz":
        (finished / "events" / f"TASK_COMPLETE_{name}.event").write_text("mine")
    host = start(finished)
    shown = ", ".join(f"events/TASK_COMPLETE_{name}.event" for name in "vwx")
    assert host.notes == [f"5 files do not follow from the journal and were archived: {shown} and 2 more"]
    host.close()


def test_a_foreign_event_is_archived_and_told(finished: Path) -> None:
    (finished / "events" / "TASK_COMPLETE_z.event").write_text("mine")
    (finished / "events" / "TASK_COMPLETE_c.event").unlink()
    (finished / "events" / "TASK_COMPLETE_c.event").write_text("also mine")
    host = start(finished)
    assert host.notes == ["events/TASK_COMPLETE_z.event does not follow from the journal and was archived"]
    assert events(finished) == EXPECTED
    host.close()
    (finished / "events" / "TASK_COMPLETE_z.event").write_text("mine again")
    start(finished)
    kept = {path.read_text() for path in (finished / "events" / "archive").glob("TASK_COMPLETE_?.event.0*")}
    assert kept == {"mine", "also mine", "mine again"}


def test_a_new_round_and_a_reset_take_events_back_over_a_restart(finished: Path) -> None:
    host = start(finished)
    for type, payload in (
        ("RUN_STARTED", {}),
        ("CONTROL", {"verb": "reset", "who": "me", "target": "b", "tasks": ["b", "c"]}),
    ):
        host.stage(type, payload, NOW)
    host.commit()  # and killed before it could project
    host.close()
    host = start(finished)
    assert events(finished) == {"TASK_COMPLETE_a.event": 2, "DEP_READY_b.event": 2}
    assert host.notes == []
    record = host.stage("CONTROL", {"verb": "reset", "who": "me", "target": None, "tasks": []}, NOW)
    host.commit()
    host.project([record])
    assert events(finished) == {}
    host.close()
    start(finished)
    assert events(finished) == {}


def test_a_retry_and_a_reloaded_plan_take_back_what_is_not_final_any_more(root: Path) -> None:
    host = start(root)
    for task in "abc":
        final(host, "TASK_FAILED", task, error="x")
    final(host, "TASK_BLOCKED", "d", blocked_by=["a"])
    final(host, "TASK_BLOCKED", "e", blocked_by=["c"])
    for order in (
        {"verb": "retry", "who": "me", "target": "a", "tasks": ["a", "d"]},
        {"verb": "retry", "who": "me", "target": "b", "tasks": ["b"], "refused": "no"},
        {"verb": "cancel", "who": "me", "target": "b", "tasks": ["b"]},
    ):
        host.stage("CONTROL", order, NOW)
    host.commit()  # and killed before it could project
    host.close()
    host = start(root)
    assert set(events(root)) == {"TASK_FAILED_b.event", "TASK_FAILED_c.event", "TASK_BLOCKED_e.event"}
    record = host.stage("PLAN_RELOADED", {}, NOW)
    host.commit()
    host.project([record])
    assert set(events(root)) == {"TASK_FAILED_b.event", "TASK_FAILED_c.event"}


def test_a_task_that_fails_after_all_is_complete_no_more(root: Path) -> None:
    host = start(root)
    final(host, "TASK_COMPLETE", "a", unblocks=[])
    final(host, "TASK_FAILED", "a", error="x")
    assert events(root) == {"TASK_FAILED_a.event": 2}


def test_requirement_3_a_start_that_is_killed_at_any_call_is_followed_by_one_that_ends_the_same() -> None:
    """With a snapshot, a torn end, an event missing and one foreign, in both kinds of death."""
    for at in itertools.count(1):
        disk = ModelDisk(Random(at))
        host = start("/bus", fs=disk.process())
        final(host, "TASK_COMPLETE", "a", unblocks=["b"])
        host.checkpoint({"texts": ["TASK_COMPLETE"]})
        final(host, "TASK_FAILED", "b", error="x")
        host.close()
        disk.write("/bus/queue.jsonl", disk.read("/bus/queue.jsonl") + b"torn")
        disk.write("/bus/events/TASK_COMPLETE_z.event", b"mine")
        process = disk.process()
        process.unlink("TASK_COMPLETE_a.event", process.open_directory("/bus/events"))
        process.calls, process.dies_at = 0, at
        try:
            start("/bus", Texts(), process)
        except Killed:
            if at % 2:
                disk.power_cut()
        else:
            assert at > 100
            break
        follower = Texts()
        host = start("/bus", follower, disk.process())
        assert follower.texts == ["TASK_COMPLETE", "TASK_FAILED"]
        found = {name for name in disk.names("/bus/events") if name.endswith(".event")}
        assert found == {"TASK_COMPLETE_a.event", "DEP_READY_b.event", "TASK_FAILED_b.event"}
        assert disk.names("/bus/tmp") == []
        put(host, "c")
        assert texts("/bus", fs=disk.process()) == ["TASK_COMPLETE", "TASK_FAILED", "c"]
