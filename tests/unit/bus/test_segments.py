"""The journal over several files: sealing, reading across, and what a start finds half done."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from random import Random

import pytest

from bus import journal, layout
from bus._fs import FileSystem
from bus.errors import BusCorrupt, BusGone
from bus.host import open_host
from bus.reader import open_reader
from conductor.testing.disk import Killed, ModelDisk, ModelProcess
from tests.unit.bus.journals import NOW, Texts, names, put, start, texts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of the journal is full after two records or so."""
    monkeypatch.setattr(journal, "SEGMENT", 400)


@pytest.mark.usefixtures("small")
def test_requirement_6_readers_go_over_all_files_from_any_record(root: Path) -> None:
    host = start(root)
    for number in range(1, 10):
        put(host, str(number))
    assert names(root / "segments") == [
        "000000000001-000000000002.jsonl",
        "000000000003-000000000004.jsonl",
        "000000000005-000000000006.jsonl",
        "000000000007-000000000008.jsonl",
    ]
    assert (root / "queue.jsonl").read_text().count("\n") == 1
    for since in range(10):
        assert texts(root, since) == [str(number) for number in range(since + 1, 10)]
    host.close()
    follower = Texts()
    again = start(root, follower)
    assert follower.texts == [str(number) for number in range(1, 10)]
    put(again, "10")
    assert texts(root)[-2:] == ["9", "10"]


@pytest.mark.usefixtures("small")
def test_a_reader_follows_over_a_rotation_and_opens_only_what_is_new(root: Path) -> None:
    host = start(root)
    reader = open_reader(root)
    seen: list[str] = []
    for number in range(1, 12):
        put(host, str(number))
        if number % 3 == 0:
            seen += [record.payload["text"] for record in reader.records(len(seen))]
            for segment in (root / "segments").iterdir():  # whatever was read is not read again
                if int(segment.name[13:25]) <= len(seen):
                    segment.write_bytes(b"")
    assert seen == [str(number) for number in range(1, 10)]


@pytest.mark.usefixtures("small")
def test_a_reader_that_stops_in_the_middle_goes_on_from_there(root: Path) -> None:
    host = start(root)
    put(host, "1", "2", "3")
    put(host, "4")
    put(host, "5")
    reader = open_reader(root)
    for expected in ("1", "2", "3", "4", "5"):
        assert next(iter(reader.records(int(expected) - 1))).payload["text"] == expected


class Sealing(FileSystem):
    """Calls back right before a call."""

    def __init__(self, name: str) -> None:
        self.before: object = None
        inner = getattr(self, name)

        def call(*args: object, **kwargs: object) -> object:
            before, self.before = self.before, None
            if callable(before):
                before()
            return inner(*args, **kwargs)

        setattr(self, name, call)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("moment", ["names", "read_at"])
def test_a_rotation_between_opening_and_listing_is_no_damage(root: Path, moment: str) -> None:
    """The reader has `queue.jsonl` open when that is sealed, once or several times, and a new one takes its place."""
    host = start(root)
    put(host, "1", "2", "3")
    for written in range(4):
        fs = Sealing(moment)
        reader = open_reader(root, fs=fs)
        known = len(texts(root))
        fs.before = lambda: [put(host, "x", "y", "z") for _ in range(written)]  # noqa: B023
        found = [record.seq for record in reader.records()]
        assert found[:known] == list(range(1, known + 1))
        assert [record.seq for record in reader.records(found[-1])] == list(range(found[-1] + 1, len(texts(root)) + 1))


@pytest.mark.usefixtures("small")
def test_who_writes_to_a_sealed_file_changes_nothing(root: Path) -> None:
    host = start(root)
    with (root / "queue.jsonl").open("ab") as held:
        put(host, "1", "2", "3")
        held.write(b"foreign\n")
    put(host, "4")
    assert texts(root) == ["1", "2", "3", "4"]
    host.close()
    assert start(root).notes == []


def test_a_file_that_somebody_wrote_to_is_sealed_after_the_batch(root: Path) -> None:
    host = start(root)
    put(host, "1")
    with (root / "queue.jsonl").open("ab") as held:
        held.write(b"foreign\n")
        held.flush()
        put(host, "2")
        assert names(root / "segments") == ["000000000001-000000000002.jsonl"]
        held.write(b"more\n")
    put(host, "3")
    assert texts(root) == ["1", "2", "3"]


def test_a_file_whose_end_was_repaired_is_sealed_after_the_batch(root: Path) -> None:
    host = start(root)
    put(host, "1")
    host.close()
    with (root / "queue.jsonl").open("ab") as torn:
        torn.write(b'{"seq":2,"epo')
    host = start(root)
    assert names(root / "segments") == []
    put(host, "2")
    assert names(root / "segments") == ["000000000001-000000000002.jsonl"]
    assert (root / "queue.jsonl").read_bytes() == b""
    put(host, "3")
    assert texts(root) == ["1", "2", "3"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("power", [False, True])
def test_requirement_3_a_conductor_that_dies_at_any_call_of_a_rotation_loses_nothing(power: bool, links: bool) -> None:
    """Killed, or the power cut: what was acknowledged before is there, and the next conductor goes on behind it."""
    for at in itertools.count(1):
        disk = ModelDisk(Random(at))
        disk.faults.no_links = not links
        process = disk.process()
        host = start("/bus", fs=process)
        put(host, "1")
        for text in ("2", "3"):
            host.stage("NOTE", {"text": text, "long": "." * 100}, NOW)
        process.dies_at = process.calls + at
        try:
            host.commit()
        except Killed:
            if power:
                disk.power_cut()
        else:
            assert at > 15
            break
        follower = Texts()
        again = start("/bus", follower, disk.process())
        assert follower.texts in (["1"], ["1", "2"], ["1", "2", "3"])
        put(again, "4")
        put(again, "5")
        found = texts("/bus", fs=disk.process())
        assert found == [*follower.texts, "4", "5"]
        assert disk.names("/bus/tmp") == []
        again.close()
        last = start("/bus", fs=disk.process())
        assert last.notes == []
        last.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(10))
def test_requirement_3_what_was_sealed_is_there_after_a_power_cut(seed: int) -> None:
    disk = ModelDisk(Random(seed))
    host = start("/bus", fs=disk.process())
    for text in "abcde":
        put(host, text)
    disk.power_cut()
    assert texts("/bus", fs=disk.process()) == list("abcde")


@pytest.mark.parametrize("missing", [1, 3, 5])
@pytest.mark.usefixtures("small")
def test_a_deleted_segment_is_damage_that_names_what_is_missing(root: Path, missing: int) -> None:
    host = start(root)
    for number in range(1, 8):
        put(host, str(number))
    host.close()
    (root / "segments" / layout.segment_name(missing, missing + 1)).unlink()
    for look in (lambda: start(root), lambda: texts(root)):
        with pytest.raises(BusCorrupt, match=f"records {missing} to {missing + 1} are missing") as caught:
            look()
        assert "doctor TRACK --repair" in (caught.value.hint or "")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "link"])
def test_a_damaged_segment_is_told_with_its_line(root: Path, harm: str) -> None:
    host = start(root)
    for number in range(1, 6):
        put(host, str(number))
    host.close()
    path = root / "segments" / layout.segment_name(1, 2)
    whole = path.read_bytes()
    if harm == "flip":
        path.write_bytes(whole.replace(b'"2"', b'"x"'))
    elif harm == "cut":
        path.write_bytes(whole[:-10])
    elif harm == "empty":
        path.write_bytes(b"")
    else:
        path.rename(root / "elsewhere")
        path.symlink_to(root / "elsewhere")
    for look in (lambda: start(root), lambda: texts(root)):
        with pytest.raises(BusCorrupt) as caught:
            look()
        assert caught.value.path == f"segments/{path.name}"
        assert caught.value.line == (2 if harm in ("flip", "cut") else None)


def test_a_journal_that_was_removed_is_damage(root: Path) -> None:
    start(root).close()
    (root / "queue.jsonl").unlink()
    for look in (lambda: start(root), lambda: texts(root)):
        with pytest.raises(BusCorrupt, match="it is missing"):
            look()
    assert not os.path.lexists(root / "queue.jsonl")


@pytest.mark.usefixtures("small")
def test_an_older_copy_put_back_in_the_place_of_the_journal_is_damage(root: Path) -> None:
    host = start(root)
    put(host, "1")
    old = (root / "queue.jsonl").read_bytes()
    for number in range(2, 6):
        put(host, str(number))
    host.close()
    (root / "queue.jsonl").write_bytes(old)
    with pytest.raises(BusCorrupt, match="begins with record 1, which stands here too"):
        start(root)


def test_a_copy_of_a_sealed_file_is_put_in_place_only_while_the_track_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links. Whoever stood still while copying must not name a segment beside those of his successor."""
    monkeypatch.setattr(journal, "SEGMENT", 1)
    disk = ModelDisk()
    disk.faults.no_links = True
    process, other = disk.process(), disk.process()
    host = open_host("/bus", fs=process)

    def take_the_lock_away(process: ModelProcess, call: str) -> None:
        if call == "close" and process.about.endswith(".journal.copy"):
            process.before = None
            other.discard(layout.LOCK, other.open_directory("/bus"))

    process.before = take_the_lock_away
    with pytest.raises(BusGone):
        put(host, "a")
    assert disk.names("/bus/segments") == []


@pytest.mark.usefixtures("small")
def test_requirement_6_a_snapshot_of_a_start_behind_a_sealed_file_is_used_by_the_next(root: Path) -> None:
    """The growing file is empty then, and the last record stands in the one before."""
    host = start(root)
    put(host, "1", "2", size=200)
    host.close()
    assert (root / "queue.jsonl").read_bytes() == b""
    host = start(root, Texts())
    host.checkpoint({"texts": ["1", "2"]})
    host.close()
    follower = Texts()
    start(root, follower).close()
    assert (follower.texts, follower.taken) == (["1", "2"], [])
