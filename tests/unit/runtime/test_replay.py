"""Following the journal from a snapshot, and comparing what comes of it."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bus import journal
from bus.contract import Snapshot
from bus.errors import BusCorrupt
from bus.host import open_host
from bus.memory import MemoryBus
from bus.reader import open_reader
from bus.repair import repair
from bus.wire import AttemptId, Stamp
from conductor.runtime import messages
from conductor.runtime.messages import Messages
from conductor.runtime.replay import Replayed, replay
from conductor.runtime.verify import verify
from conductor.testing import Play

ONE, TWO = AttemptId("a~1-00000000"), AttemptId("b~1-00000000")


def played() -> Play:
    play = Play().start("a", "b < a", "c", retries=1)
    play.result("c", "fails").result("a").timer("c").result("c").result("b")
    return play


def test_requirement_6_every_snapshot_and_its_tail_give_what_the_whole_journal_gives(write: Any) -> None:
    play = played()
    whole = MemoryBus()
    write(whole.host(), play)
    expected = replay(whole.reader(), whole=True).digest()
    for place in range(1, len(play.journal) + 1):
        bus = MemoryBus()
        write(bus.host(), play, checkpoints=[place])
        assert replay(bus.reader()).digest() == expected, place
        assert all(finding.ok for finding in verify(bus.reader()))


def test_a_look_takes_in_only_what_is_behind_the_snapshot(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bus, play = MemoryBus(), played()
    write(bus.host(), play, checkpoints=[15])
    taken: list[int] = []
    take = Replayed.take
    monkeypatch.setattr(
        Replayed, "take", lambda self, record, load: (taken.append(record.seq), take(self, record, load))
    )
    found = replay(bus.reader())
    assert taken == [16, 17, 18, 19]
    assert (found.last_seq, found.epoch) == (len(play.journal), 1)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: {},
        lambda state: {**state, "state": {**state["state"], "fingerprint": "another build"}},
        lambda state: {**state, "state": {**state["state"], "tasks": {}}},
        lambda state: {**state, "time": {"hands": 2}},
        lambda state: {**state, "messages": None},
    ],
    ids=["empty", "other build", "no tasks", "other clock", "no messages"],
)
def test_a_snapshot_that_is_not_understood_changes_nothing_and_an_older_one_follows(write: Any, spoil: Any) -> None:
    bus, play = MemoryBus(), played()
    write(bus.host(), play, checkpoints=[6, 15])
    older, newer = bus.snapshots
    fresh = Replayed()
    broken = replace(newer, state=spoil(newer.state))
    assert not fresh.restore(broken, bus.reader().load_plan)
    assert fresh.digest() == Replayed().digest()
    bus.snapshots = [older, broken]
    assert replay(bus.reader()).snapshot_seq == older.seq
    assert replay(bus.reader()).digest() == replay(bus.reader(), whole=True).digest()


def test_a_snapshot_that_says_something_else_than_the_journal_is_found_out(write: Any) -> None:
    bus, play = MemoryBus(), played()
    write(bus.host(), play, checkpoints=[6, 15])
    newest = bus.snapshots[-1]
    assert newest.state["state"]["retired"] == {}
    newest.state["state"]["retired"]["ghost"] = 3
    by_seq = {(finding.seq, finding.ok) for finding in verify(bus.reader())}
    assert by_seq == {(6, True), (15, False), (19, False)}


def test_a_snapshot_behind_the_end_of_the_journal_and_one_of_another_build_are_told_of(write: Any) -> None:
    bus, play = MemoryBus(), played()
    write(bus.host(), play, checkpoints=[6])
    (kept,) = bus.snapshots
    bus.snapshots = [Snapshot(5, 1, {"state": {}}), replace(kept, seq=99)]
    texts = [finding.text for finding in verify(bus.reader())]
    assert texts[0] == "the snapshot after record 5 was written by another version and is not used"
    assert texts[1] == "the snapshot after record 99 belongs to no record of the journal"


def test_a_record_that_cannot_follow_those_before_it_is_damage(write: Any) -> None:
    bus = MemoryBus()
    host = bus.host()
    write(host, played())
    host.stage("TASK_COMPLETE", {"task_id": "a"}, Stamp(0.0, 0.0, "boot"))
    host.commit()
    with pytest.raises(BusCorrupt, match="cannot follow those before it") as caught:
        replay(bus.reader())
    assert "doctor" in str(caught.value.hint)


def test_a_track_is_the_same_on_disk(write: Any, tmp_path: Path) -> None:
    play = played()
    host = open_host(tmp_path / "bus")
    write(host, play, checkpoints=[3, 9])
    host.close()
    follower = Replayed()
    again = open_host(tmp_path / "bus", follower=follower)
    again.close()
    reader = open_reader(tmp_path / "bus")
    assert follower.digest() == replay(reader).digest() == replay(reader, whole=True).digest()
    assert [finding.ok for finding in verify(reader)] == [True, True, True]


def test_messages_of_attempts_that_are_long_over_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "KEPT", 1)
    known = Messages({ONE: ["x"], TWO: ["y"]}, open=[TWO])
    known.add(TWO, "z")
    known.closed(AttemptId("c~1-00000000"))  # it said nothing
    assert ("x" in known, "y" in known, "n" in known, len(known)) == (True, True, False, 3)
    known.closed(TWO)
    assert ("x" in known, "y" in known, "z" in known, len(known)) == (False, True, True, 2)
    assert known.dump()["known"] == {TWO: ["y", "z"]}


def test_ids_of_messages_are_taken_from_the_journal_and_kept_in_snapshots() -> None:
    bus = MemoryBus()
    host = bus.host()
    host.stage("NOTE", {}, Stamp(0.0, 0.0, "boot"), source=f"worker:{ONE}", attempt=ONE, id="ab" * 16)
    order = {"verb": "noted", "who": "me"}
    host.stage("CONTROL", order, Stamp(0.0, 0.0, "boot"), id="cd" * 16)
    host.commit()
    found = replay(bus.reader())
    assert found.messages.dump() == {"known": {ONE: ["ab" * 16]}, "orders": ["cd" * 16]}
    host.checkpoint(found.dump() or {})
    again = Replayed()
    bus.reader().follow(again)
    assert again.snapshot_seq == 2
    assert "ab" * 16 in again.messages
    assert "cd" * 16 in again.messages


def test_orders_that_were_recorded_long_ago_are_forgotten() -> None:
    known = Messages(orders=["a", *map(str, range(messages.ORDERS - 1))])
    assert "a" in known
    known.ordered("b")
    assert ("a" in known, "b" in known, len(known)) == (False, True, messages.ORDERS)


def test_behind_records_that_a_repair_gave_up_all_is_compared_from_the_snapshot_that_stands_for_them(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is said that what stands before it cannot be compared."""
    monkeypatch.setattr(journal, "SEGMENT", 1)
    root, play = tmp_path / "bus", played()
    host = open_host(root)
    write(host, play, checkpoints=[9, 15])
    host.close()
    whole = replay(open_reader(root)).digest()
    sorted((root / "segments").iterdir())[2].unlink()
    assert "The state is not touched" in repair(root, follower=Replayed())[-1]
    reader = open_reader(root)
    findings = list(verify(reader))
    assert [(one.seq, one.ok) for one in findings] == [(9, True), (15, True), (len(play.journal), True)]
    assert "what stands before the snapshot after record 9 cannot be compared" in findings[0].text
    assert replay(reader).digest() == whole
    for kept in (root / "snapshots").iterdir():
        kept.unlink()
    with pytest.raises(BusCorrupt, match="there is no snapshot behind them"):
        list(verify(open_reader(root)))


def test_a_snapshot_whose_plan_is_among_what_was_lost_is_passed_over(write: Any, tmp_path: Path) -> None:
    """A start takes the newer one, and so does the comparison."""
    root, play = tmp_path / "bus", played()
    host = open_host(root)
    write(host, play.start("d").result("d"), checkpoints=[9, len(play.journal)])
    host.close()
    round_one, round_two = [record for record in open_reader(root).records() if record.type == "RUN_STARTED"]
    (root / "plan" / f"{round_one.payload['plan_sha']}.json").unlink()
    assert round_one.payload["plan_sha"] != round_two.payload["plan_sha"]
    repair(root, follower=Replayed())
    findings = list(verify(open_reader(root)))
    assert all(one.ok for one in findings)
    assert "what stands before the snapshot after record" in findings[0].text


def test_only_what_is_read_first_is_put_out_of_the_collectors_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks again and again lets go of what he saw before; frozen cycles of it would never be collected."""
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: len(frozen))
    bus = MemoryBus()
    for _ in range(3):
        replay(bus.reader())
        assert gc.isenabled()
    assert frozen == [1]
