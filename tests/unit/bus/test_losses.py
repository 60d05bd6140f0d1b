"""A journal that has lost its end is told from one that was never written, by what was made after its records."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bus import layout, losses
from bus.errors import BusCorrupt, BusFormat
from bus.host import open_host
from bus.reader import open_reader
from bus.repair import repair
from bus.wire import AttemptId
from conductor.testing.disk import ModelDisk
from tests.unit.bus.journals import Texts, names, put, start, texts

ATTEMPT = AttemptId("1.1~1-0a1b2c3d")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


def used(root: Path, *, snapshot: bool) -> Path:
    """A bus with three records, an attempt, and perhaps a snapshot of the last."""
    host = start(root)
    put(host, "a")
    os.close(host.create_attempt(ATTEMPT))
    put(host, "b")
    put(host, "c")
    if snapshot:
        host.checkpoint({"texts": ["a", "b", "c"]})
    host.close()
    return root / "queue.jsonl"


def refused(root: Path, said: str) -> None:
    """A start, who looks, and who lists records say the same, and nothing is touched."""
    before = (root / "queue.jsonl").read_bytes()
    looks: list[Callable[[], object]] = [
        lambda: start(root, Texts()),
        lambda: open_reader(root).follow(Texts()),
        lambda: open_reader(root).follow(Texts(), whole=True),
        lambda: texts(root),
    ]
    for look in looks:
        with pytest.raises(BusCorrupt, match=said) as caught:
            look()
        assert caught.value.hint is not None
        assert "--repair" in caught.value.hint
    assert (root / "queue.jsonl").read_bytes() == before


def goes_on(root: Path, expected: list[str]) -> None:
    """A start goes on from there, knowing that the end was lost, and so does the one after."""
    follower = Texts()
    host = start(root, follower)
    assert (follower.texts, losses.is_cut(host.folders)) == (expected, True)
    put(host, "next")
    host.close()
    assert texts(root) == [*expected, "next"]


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("damage", ["emptied", "only batch damaged"])
def test_an_empty_journal_of_a_used_bus_is_damage_until_it_is_repaired(root: Path, damage: str, snapshot: bool) -> None:
    """Otherwise everything would be done again, beside workers that live."""
    journal = used(root, snapshot=snapshot)
    first = journal.read_bytes().partition(b"\n")[0]
    journal.write_bytes(b"" if damage == "emptied" else first[:30] + b"?" + first[31:] + b"\n")
    refused(
        root,
        "records 1 to 3 are missing, as a snapshot was taken" if snapshot else "all records are missing, and there are",
    )
    said = repair(root)
    assert "It goes on from record 0" in said[-1]
    assert repair(root) == []
    goes_on(root, [])


def test_a_first_start_that_died_before_its_first_record_is_no_damage(root: Path) -> None:
    host = start(root)
    host.freeze_plan(b"{}")
    host.close()
    assert texts(root) == []
    start(root, Texts()).close()


def test_a_journal_that_ends_before_a_snapshot_is_damage_until_it_is_repaired(root: Path) -> None:
    journal = used(root, snapshot=True)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    refused(root, "record 3 is missing, as a snapshot was taken after record 3")
    said = repair(root)
    assert "quarantine/" in said[0]
    assert "what was recorded behind is lost" in said[1]
    assert names(root / "snapshots") == []
    goes_on(root, ["a", "b"])


def test_what_a_power_cut_took_that_was_not_synced_is_told_and_no_damage() -> None:
    """That is what `process` means. In the same boot nothing but a foreign hand takes records away."""
    disk = ModelDisk()
    host = open_host("/bus", durability="process", fs=disk.process())
    put(host, "a")
    host.checkpoint({"texts": ["a"]})
    host.close()
    disk.write("/bus/queue.jsonl", b"")
    with pytest.raises(BusCorrupt, match="a snapshot was taken after record 1"):
        texts("/bus", fs=disk.process())
    disk.boots += 1
    assert texts("/bus", fs=disk.process()) == []
    follower = Texts()
    host = start("/bus", follower, fs=disk.process())
    assert follower.texts == []
    assert [note for note in host.notes if "the power cut took records 1 to 1" in note]
    assert layout.snapshot_name(1) not in disk.names("/bus/snapshots")
    host.close()


def test_what_was_synced_no_power_cut_takes(root: Path) -> None:
    disk = ModelDisk()
    host = open_host("/bus", durability="power", fs=disk.process())
    put(host, "a")
    host.checkpoint({"texts": ["a"]})
    host.close()
    disk.write("/bus/queue.jsonl", b"")
    disk.boots += 1
    with pytest.raises(BusCorrupt, match="a snapshot was taken after record 1"):
        start("/bus", Texts(), fs=disk.process())


def test_an_end_that_was_cut_off_is_known_until_it_is_settled(root: Path) -> None:
    """It may have been acknowledged, and damaged afterwards: attempts may live of which nothing is told."""
    journal = used(root, snapshot=False)
    journal.write_bytes(journal.read_bytes()[:-3])
    host = start(root)
    assert losses.is_cut(host.folders)
    assert list(host.attempts()) == [ATTEMPT]
    losses.forget_cut(host.folders)
    host.close()
    host = start(root)
    assert not losses.is_cut(host.folders)
    host.close()


def test_what_cannot_be_settled_on_a_read_only_disk_is_left_to_the_next_start() -> None:
    disk = ModelDisk()
    host = open_host("/bus", fs=disk.process())
    losses.mark_cut(host.folders)
    disk.faults.read_only = True
    losses.forget_cut(host.folders)
    assert losses.is_cut(host.folders)


def test_a_format_that_was_removed_is_missed_and_made_again(root: Path) -> None:
    """All verbs say the same, and nothing moves the bus away as that of an older program."""
    used(root, snapshot=False)
    (root / "FORMAT").unlink()
    for look in (lambda: open_reader(root), lambda: start(root)):
        with pytest.raises(BusFormat, match="FORMAT was removed") as caught:
            look()
        assert "--repair" in str(caught.value.hint)
    assert repair(root) == ["FORMAT was removed, and is there again"]
    assert texts(root) == ["a", "b", "c"]
