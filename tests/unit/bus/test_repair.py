"""`doctor --repair`: what can be used again, and what is said about the rest."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bus import journal, layout, losses
from bus.errors import BusCorrupt, BusGone, BusUnsafe, HeldByOther
from bus.reader import open_reader
from bus.repair import repair, told_done
from conductor.testing.disk import Killed, ModelDisk
from tests.unit.bus.journals import NOW, Texts, final, names, put, start, texts

ALL = [str(number) for number in range(1, 12)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of the journal is full after four records or so."""
    monkeypatch.setattr(journal, "SEGMENT", 800)


def filled(root: Path | str, *, snapshot: bool, disk: ModelDisk | None = None) -> None:
    """Segments 1-4 and 5-8, and 9 to 11 in `queue.jsonl`; perhaps a snapshot of the ninth."""
    host = start(root, fs=disk.process() if disk else None)
    for text in ALL:
        put(host, text)
        if snapshot and text == "9":
            host.checkpoint({"texts": ALL[:9]})
    host.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


def segment(root: Path, first: int) -> Path:
    return root / "segments" / layout.segment_name(first, first + 3)


def harm(path: Path, text: str) -> None:
    whole = path.read_bytes()
    assert f'"{text}"'.encode() in whole
    path.write_bytes(whole.replace(f'"{text}"'.encode(), b'"?"'))


def state(root: Path) -> list[str]:
    """What a start makes of it; a reader agrees."""
    follower, looking = Texts(), Texts()
    host = start(root, follower)
    open_reader(root).follow(looking)
    assert looking.texts == follower.texts
    put(host, "next")
    assert texts(root)[-1] == "next"
    host.close()
    return follower.texts


@pytest.mark.parametrize("snapshot", [True, False])
def test_nothing_is_done_where_nothing_is_damaged(root: Path, snapshot: bool) -> None:
    filled(root, snapshot=snapshot)
    with (root / "queue.jsonl").open("ab") as torn:
        torn.write(b'{"seq":12,')  # every start repairs that
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert repair(root) == []
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert state(root) == ALL


@pytest.mark.parametrize("text", ["1", "2", "4", "6"])
def test_damage_in_front_of_a_snapshot_costs_records_and_not_the_state(root: Path, text: str) -> None:
    filled(root, snapshot=True)
    first = 1 if int(text) < 5 else 5
    harm(segment(root, first), text)
    with pytest.raises(BusCorrupt):
        texts(root)
    said = repair(root)
    assert said[-1].startswith(f"record {text}: lost. The state is not touched")
    assert layout.segment_name(int(text), int(text), lost=True) in names(root / "segments")
    assert texts(root) == [one for one in ALL if one != text]
    assert open_reader(root).lost() == ((int(text), int(text)),)
    assert repair(root) == []
    assert state(root) == ALL
    kept = [path for path in (root / "quarantine").iterdir() if path.suffix != ".why"]
    assert any(b'"?"' in path.read_bytes() for path in kept)


def test_a_snapshot_that_nobody_understands_leads_over_no_gap(root: Path) -> None:
    filled(root, snapshot=True)
    harm(segment(root, 1), "2")
    assert "the journal ends before record 2 now" in repair(root, follower=Texts(understands=False))[-1]
    assert state(root) == ALL[:1]


def test_damage_in_the_growing_file_in_front_of_a_snapshot(root: Path) -> None:
    filled(root, snapshot=False)
    host = start(root)
    host.checkpoint({"texts": ALL})
    host.close()
    harm(root / "queue.jsonl", "10")
    repair(root)
    assert texts(root) == [*ALL[:9], "11"]
    assert state(root) == ALL


def test_a_whole_file_that_is_gone_in_front_of_a_snapshot(root: Path) -> None:
    filled(root, snapshot=True)
    segment(root, 5).unlink()
    assert "records 5 to 8: lost" in repair(root)[-1]
    assert texts(root) == [*ALL[:4], *ALL[8:]]
    assert state(root) == ALL


def test_where_records_are_lost_only_a_snapshot_leads_over_the_gap(root: Path) -> None:
    filled(root, snapshot=True)
    harm(segment(root, 1), "2")
    repair(root)
    for follow in (
        lambda: start(root, Texts(understands=False)),
        lambda: open_reader(root).follow(Texts(understands=False)),
        lambda: open_reader(root).follow(Texts(), whole=True),
    ):
        with pytest.raises(BusCorrupt, match="record 2 is missing, and there is no snapshot behind"):
            follow()
    assert state(root) == ALL


@pytest.mark.parametrize("text", ["1", "2", "5", "7", "9", "10"])
def test_without_a_snapshot_the_journal_ends_before_the_damage(root: Path, text: str) -> None:
    filled(root, snapshot=False)
    number = int(text)
    harm(root / "queue.jsonl" if number > 8 else segment(root, 1 if number < 5 else 5), text)
    said = repair(root)
    assert f"the journal ends before record {text} now" in said[-1]
    assert f"{11 - number} records behind it were sound" in said[-1]
    assert repair(root) == []
    assert texts(root) == ALL[: number - 1]
    assert state(root) == ALL[: number - 1]
    kept = b"".join(path.read_bytes() for path in (root / "quarantine").iterdir())
    assert all(f'"text":"{one}"'.encode() in kept for one in ALL[number:])


@pytest.mark.parametrize("first", [1, 5])
def test_without_a_snapshot_the_journal_ends_before_a_file_that_is_gone(root: Path, first: int) -> None:
    filled(root, snapshot=False)
    segment(root, first).unlink()
    repair(root)
    assert state(root) == ALL[: first - 1]


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_something_else_in_the_place_of_the_journal_is_set_aside(root: Path, tmp_path: Path, kind: str) -> None:
    filled(root, snapshot=False)
    (root / "queue.jsonl").rename(tmp_path / "elsewhere")
    if kind == "folder":
        (root / "queue.jsonl").mkdir()
    else:
        (root / "queue.jsonl").symlink_to(tmp_path / "elsewhere")
    assert "was moved to quarantine" in repair(root)[0]
    assert state(root) == ALL[:8]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize("sealed", [True, False])
def test_requirement_5_a_journal_that_may_not_be_opened_is_not_damaged(root: Path, sealed: bool) -> None:
    """A wrong owner (a restore, `sudo`) is put right by giving the file back; a repair would throw the journal away."""
    filled(root, snapshot=False)
    path = segment(root, 1) if sealed else root / "queue.jsonl"
    os.chown(path, 4711, -1)
    for look in (lambda: start(root), lambda: repair(root), lambda: texts(root)):
        with pytest.raises(BusUnsafe, match="may not be opened: belongs to user 4711"):
            look()
    os.chown(path, os.geteuid(), -1)
    assert state(root) == ALL


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_journal_that_was_removed(root: Path, snapshot: bool) -> None:
    filled(root, snapshot=snapshot)
    (root / "queue.jsonl").unlink()
    said = repair(root)
    assert "queue.jsonl was missing: whatever was recorded behind record 8 is lost" in said[-1]
    assert len(said) == 1 + snapshot, "a snapshot of what is lost is set aside"
    assert state(root) == ALL[:8]


def test_snapshots_of_records_that_were_cut_off_do_not_outlive_new_ones(root: Path) -> None:
    filled(root, snapshot=True)
    host = start(root)
    host.checkpoint({"texts": ALL})
    host.close()
    (root / "queue.jsonl").unlink()
    repair(root)
    host = start(root)
    put(host, "new")
    host.checkpoint({"texts": ["new state"]})
    host.close()
    assert names(root / "snapshots") == [layout.snapshot_name(9)]
    assert state(root) == ["new state"]


def test_something_that_is_no_record_is_taken_out(root: Path) -> None:
    filled(root, snapshot=False)
    for path in (segment(root, 1), root / "queue.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*lines[:1], b"no record\n", *lines[1:]]))
    with pytest.raises(BusCorrupt):
        texts(root)
    assert len(repair(root)) == 2
    assert texts(root) == ALL
    assert state(root) == ALL


def test_a_payload_that_is_lost_is_a_record_that_is_lost(root: Path) -> None:
    host = start(root)
    put(host, "1")
    put(host, "2", size=5000)
    put(host, "3")
    host.close()
    for blob in (root / "blobs").iterdir():
        blob.unlink()
    with pytest.raises(BusCorrupt):
        texts(root)
    repair(root)
    assert state(root) == ["1"]


def test_an_older_copy_in_the_place_of_the_journal_is_set_aside(root: Path) -> None:
    filled(root, snapshot=False)
    lines = segment(root, 5).read_bytes().splitlines(keepends=True)
    (root / "queue.jsonl").write_bytes(lines[0] + b"edited\n" + lines[1])
    repair(root)
    assert state(root) == ALL[:8]


def test_a_segment_of_a_foreign_hand_does_not_win(root: Path) -> None:
    filled(root, snapshot=False)
    (root / "segments" / layout.segment_name(1, 999)).write_text("mine")
    repair(root)
    assert state(root) == ALL


def test_requirement_10_a_journal_in_use_is_left_alone(root: Path) -> None:
    filled(root, snapshot=False)
    host = start(root)
    with pytest.raises(HeldByOther):
        repair(root)
    host.close()
    with pytest.raises(BusGone):
        repair(root.with_name("nowhere"))


def _lose_a_line(path: str, text: str) -> Callable[[ModelDisk], None]:
    def damage(disk: ModelDisk) -> None:
        disk.write(path, disk.read(path).replace(f'"{text}"'.encode(), b'"?"'))
        process = disk.process()
        process.sync(process.open(path, os.O_RDONLY))

    return damage


def _remove(path: str) -> Callable[[ModelDisk], None]:
    def damage(disk: ModelDisk) -> None:
        process = disk.process()
        folder, _, name = path.rpartition("/")
        process.unlink(name, process.open_directory(folder))
        process.sync(process.open_directory(folder))

    return damage


DAMAGE = {
    "first segment": _lose_a_line("/bus/segments/000000000001-000000000004.jsonl", "2"),
    "second segment": _lose_a_line("/bus/segments/000000000005-000000000008.jsonl", "5"),
    "growing file": _lose_a_line("/bus/queue.jsonl", "9"),
    "segment gone": _remove("/bus/segments/000000000005-000000000008.jsonl"),
    "journal gone": _remove("/bus/queue.jsonl"),
}


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("damage", DAMAGE)
def test_requirement_3_a_repair_that_dies_at_any_call_can_be_run_again(damage: str, snapshot: bool) -> None:
    """Killed, or the power cut: the next one ends with the same journal as one that was not disturbed."""
    ends: list[tuple[list[str], list[str]]] = []
    for at in itertools.count(0):
        disk = ModelDisk(Random(at))
        filled("/bus", snapshot=snapshot, disk=disk)
        process = disk.process()
        process.sync(process.open_directory("/bus/snapshots"))
        for name in disk.names("/bus/snapshots"):
            process.sync(process.open(name, os.O_RDONLY, at=process.open_directory("/bus/snapshots")))
        DAMAGE[damage](disk)
        process.calls, process.dies_at = 0, at
        try:
            repair("/bus", fs=process)
        except Killed:
            if at % 2:
                disk.power_cut()
            repair("/bus", fs=disk.process())
        else:
            if at:
                assert at > 50
                break
        follower = Texts()
        host = start("/bus", follower, disk.process())
        assert host.notes == []
        ends.append((follower.texts, texts("/bus", fs=disk.process())))
        host.close()
    assert ends[0][0] == ALL or not (snapshot and "segment" in damage)
    assert all(end == ends[0] for end in ends), [(at, end) for at, end in enumerate(ends) if end != ends[0]]


def test_a_snapshot_that_stands_for_lost_records_is_on_disk_and_so_are_those_after_it() -> None:
    """It is all that is known of them: a power cut must not take it."""
    disk = ModelDisk()
    filled("/bus", snapshot=True, disk=disk)
    DAMAGE["first segment"](disk)
    repair("/bus", fs=disk.process())
    disk.power_cut(Random(1))
    assert state_on(disk) == ALL
    host = start("/bus", fs=disk.process())
    for text in ("x", "y", "z"):
        put(host, text)
        host.checkpoint({"texts": [*ALL, text]})
    host.close()
    disk.power_cut(Random(1))
    assert state_on(disk) == [*ALL, "z"]


def state_on(disk: ModelDisk) -> list[str]:
    follower = Texts()
    start("/bus", follower, fs=disk.process()).close()
    return follower.texts


def test_where_no_snapshot_is_left_that_leads_over_lost_records_the_journal_ends_before_them(root: Path) -> None:
    filled(root, snapshot=True)
    harm(segment(root, 5), "6")
    repair(root)
    for kept in (root / "snapshots").iterdir():
        kept.unlink()
    with pytest.raises(BusCorrupt, match="there is no snapshot behind them") as caught:
        start(root, Texts())
    assert "--repair" in str(caught.value.hint)
    assert "the journal ends before record 6 now" in repair(root, follower=Texts())[-1]
    assert state(root) == ALL[:5]


def rounds(root: Path) -> None:
    """Two rounds of which the second goes on; `1` and `2` are done in the first, `3` in the second."""
    host = start(root)
    sha = host.freeze_plan(b"{}")
    for run, tasks in (("first", "12"), ("second", "3")):
        host.stage("RUN_STARTED", {"run": run, "plan_sha": sha, "project": "/p"}, NOW)
        host.commit()
        for task in tasks:
            final(host, "TASK_COMPLETE", task)
        if run == "first":
            host.stage("RUN_ENDED", {}, NOW)
            host.commit()
    put(host, "last")
    host.close()


def journal_of(root: Path) -> list[str]:
    return [record.type for record in open_reader(root).records()]


@pytest.mark.parametrize("seq", [1, 2, 5, 6])
def test_what_was_done_is_told_by_all_sound_records_whatever_is_missing_between(
    root: Path, seq: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT", 1 << 20)
    rounds(root)
    lines = (root / "queue.jsonl").read_bytes().splitlines(keepends=True)
    lines[seq - 1] = lines[seq - 1].replace(b'"crc":"', b'"crc":"x', 1)
    (root / "queue.jsonl").write_bytes(b"".join(lines))
    assert told_done(root) == [task for task in "123" if {"1": 2, "2": 3, "3": 6}[task] != seq]
    repair(root)
    host = start(root)
    assert losses.is_cut(host.folders)
    host.close()


@pytest.mark.parametrize("harmed", [True, False])
def test_a_frozen_plan_is_made_again_where_its_source_gives_the_same(root: Path, harmed: bool) -> None:
    rounds(root)
    (plan,) = (root / "plan").iterdir()
    if harmed:
        plan.write_bytes(b"changed")
    else:
        plan.unlink()
    asked: list[str] = []

    def again(project: str) -> bytes:
        asked.append(project)
        return b"{}"

    assert "was made again from the plan's source" in repair(root, plan_again=again)[-1]
    assert (asked, plan.read_bytes()) == (["/p"], b"{}")
    assert len(journal_of(root)) == 7


def test_a_round_whose_plan_is_gone_for_good_is_a_record_that_is_lost(root: Path) -> None:
    """Nothing can be replayed behind it: so the journal ends before it, and a start is possible again."""
    rounds(root)
    (plan,) = (root / "plan").iterdir()
    plan.unlink()
    said = repair(root, plan_again=lambda project: b"another")
    assert any(
        "the frozen plan is not there any more, and the plan's source is another one by now" in one for one in said
    )
    assert "the journal ends before record 1 now" in said[-1]
    assert journal_of(root) == []


def test_the_journal_ends_only_before_what_no_snapshot_was_taken_behind(root: Path) -> None:
    """Of two damages the first costs its record, the second what came after it, whenever each is repaired."""
    for at_once in (True, False):
        place = root / str(at_once)
        place.parent.mkdir(exist_ok=True)
        filled(place, snapshot=True)
        harm(segment(place, 1), "2")
        if not at_once:
            repair(place)
        harm(place / "queue.jsonl", "10")
        said = repair(place)
        assert any("the journal ends before record 10 now" in line for line in said)
        assert texts(place) == ["1", *ALL[2:9]]
        assert repair(place) == []
        assert state(place) == ALL[:9]


def test_a_snapshot_proves_that_a_batch_with_a_damaged_line_was_acknowledged(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it looks as one that was being written, and is cut off whole."""
    monkeypatch.setattr(journal, "SEGMENT", 1 << 20)
    host = start(root)
    put(host, "1")
    put(host, "2", "3", "4")
    host.checkpoint({"texts": ALL[:4]})
    host.close()
    harm(root / "queue.jsonl", "3")
    assert repair(root)[-1].startswith("record 3: lost. The state is not touched")
    assert texts(root) == ["1", "2", "4"]
    assert state(root) == ALL[:4]


def test_what_stands_behind_a_damaged_record_goes_with_the_end_of_the_file_before(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that looks as if it had not been acknowledged, as long as the record before it is there."""
    host = start(root)
    for text in ALL[:8]:
        put(host, text)
    monkeypatch.setattr(journal, "SEGMENT", 1 << 20)
    put(host, *ALL[8:])
    host.close()
    harm(segment(root, 5), "8")
    harm(root / "queue.jsonl", "9")
    repair(root)
    assert texts(root) == ALL[:7]
    assert repair(root) == []
    assert state(root) == ALL[:7]


@pytest.mark.parametrize("folder", [layout.ARCHIVE, layout.QUARANTINE, layout.TMP])
def test_a_file_in_the_place_of_a_folder_does_not_keep_a_repair_from_mending_the_rest(root: Path, folder: str) -> None:
    """No start puts it aside while FORMAT is missing, so the repair has to."""
    filled(root, snapshot=False)
    (root / layout.FORMAT).unlink()
    for inner in (root / folder).iterdir():
        inner.unlink()
    (root / folder).rmdir()
    (root / folder).write_bytes(b"x")
    said = repair(root)
    assert any(f"stood in the place of the folder {folder}" in line for line in said)
    assert state(root) == ALL
