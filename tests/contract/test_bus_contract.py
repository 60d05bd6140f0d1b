"""What any bus keeps, whatever it is made of."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from bus import layout
from bus.contract import Host, Snapshot
from bus.errors import AlreadyFinished, AttemptExists, BusError, BusGone, HeldByOther, Shortage
from bus.strict import WireError
from bus.wire import AttemptId, ExitRecord, JsonObject, Message, ProcRecord, Record, Stamp, TaskId

NOW = Stamp(wall=1_700_000_000.5, mono=12.25, boot="boot")
ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
OTHER = layout.attempt_id(TaskId("a/b"), 2, "ffffffff")
EXIT = ExitRecord(started=True, ended_by="self", command={"code": 0, "signal": None}, tail="ä\n")


def message(type: str, payload: dict[str, Any], *, attempt: AttemptId = ATTEMPT, timestamp: str = "t") -> Message:
    return Message(os.urandom(16).hex(), type, attempt, timestamp, payload)


def put(host: Host, type: str, payload: dict[str, Any], task: str | None = None) -> Record:
    record = host.stage(type, payload, NOW, task=None if task is None else TaskId(task))
    host.commit()
    host.project([record])
    return record


def complete(host: Host, task: str, *unblocks: str) -> Record:
    return put(host, "TASK_COMPLETE", {"task_id": task, "unblocks": list(unblocks)}, task)


def test_records_come_back_as_staged_and_only_after_commit(bus: Any) -> None:
    host = bus.host()
    first = host.stage("NOTE", {"text": "é", "n": [1, None]}, NOW, source="operator:x", task=TaskId("1.1"))
    second = host.stage("RESULT", {}, NOW, attempt=ATTEMPT, id="ab" * 16)
    assert list(bus.reader().records()) == []
    host.commit()
    assert list(bus.reader().records()) == [first, second]
    assert [record.seq for record in bus.reader().records(since=first.seq)] == [second.seq]
    assert (first.seq, second.seq, second.id, first.epoch) == (1, 2, "ab" * 16, host.epoch)
    assert first.timestamp == "2023-11-14T22:13:20.500Z"


def test_large_payload_comes_back_whole(bus: Any) -> None:
    host = bus.host()
    payload = {"task_id": "1.1", "text": "x" * 20_000}
    put(host, "NOTE", payload)
    put(host, "NOTE", {"blob": "of the sender's own"})
    assert [record.payload for record in bus.reader().records()] == [payload, {"blob": "of the sender's own"}]


def test_sequence_goes_on_and_epoch_grows_over_a_restart(bus: Any) -> None:
    host = bus.host()
    put(host, "A", {})
    host.close()
    again = bus.host()
    put(again, "B", {})
    assert [(record.seq, record.epoch) for record in bus.reader().records()] == [(1, 1), (2, 2)]


def test_one_conductor_at_a_time(bus: Any) -> None:
    host = bus.host()
    assert bus.reader().holder().epoch == host.epoch
    with pytest.raises(HeldByOther, match=f"pid {os.getpid()}"):
        bus.host()
    host.close()
    assert bus.reader().holder() is None
    bus.host().close()


def test_messages_are_scanned_in_a_fixed_order_until_discarded(bus: Any) -> None:
    host = bus.host()
    for attempt in (OTHER, ATTEMPT):
        os.close(host.create_attempt(attempt))
    hand, other = bus.hand(ATTEMPT), bus.hand(OTHER)
    hand.finish(EXIT)
    hand.publish(message("PROGRESS", {"pct": 50, "text": "later"}, timestamp="2"))
    hand.publish(message("PROGRESS", {"pct": 10, "text": "sooner"}, timestamp="1"))
    other.publish(message("CUSTOM", {"any": {"thing": 1}}, attempt=OTHER))
    assert bus.reader().not_ingested() == 4
    scan = host.scan()
    found = [(item.message.attempt, item.message.type, item.message.timestamp) for item in scan.messages]
    assert [(a, t) for a, t, _ in found] == [
        (ATTEMPT, "PROGRESS"), (ATTEMPT, "PROGRESS"), (ATTEMPT, "RESULT"), (OTHER, "CUSTOM"),
    ]  # fmt: skip
    assert [when for _, _, when in found[:2]] == ["1", "2"]
    assert host.scan() == scan
    host.discard(scan.messages[:3])
    assert [item.message.type for item in host.scan().messages] == ["CUSTOM"]
    host.discard(scan.messages)
    assert host.scan().messages == ()


def test_messages_survive_a_conductor(bus: Any) -> None:
    host = bus.host()
    host.stage("NOTE", {}, NOW)
    host.commit()
    os.close(host.create_attempt(ATTEMPT))
    sent = message("NOTE", {"text": "hi"})
    bus.hand(ATTEMPT).publish(sent)
    host.close()
    assert [item.message for item in bus.host().scan().messages] == [sent]


def test_a_message_handed_in_twice_is_there_once(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    sent = message("NOTE", {"text": "hi"})
    for _ in range(2):
        bus.hand(ATTEMPT).publish(sent)
    assert len(host.scan().messages) == 1


def test_result_and_exit_record_say_the_same(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    hand = bus.hand(ATTEMPT)
    assert host.read_exit(ATTEMPT) is None
    hand.finish(EXIT)
    with pytest.raises(AlreadyFinished):
        hand.finish(ExitRecord(started=False, ended_by="self"))
    (item,) = host.scan().messages
    exit = bus.reader().read_exit(ATTEMPT)
    assert exit.command == item.message.payload["command"] == {"code": 0, "signal": None}
    assert exit.tail == item.message.payload["tail"] == "ä\n"
    assert exit.started


def test_a_result_that_would_be_refused_is_not_written(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    hand = bus.hand(ATTEMPT)
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"in": deep}
    for report in (deep, {"message": "x" * (1 << 20)}):
        with pytest.raises(WireError):
            hand.finish(ExitRecord(started=True, ended_by="self", report=report))
    assert host.read_exit(ATTEMPT) is None
    hand.finish(ExitRecord(started=True, ended_by="self", report={"verb": "complete"}))
    assert host.read_exit(ATTEMPT).report == {"verb": "complete"}


def test_an_attempt_is_claimed_once(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    first, second = bus.hand(ATTEMPT), bus.hand(ATTEMPT)
    assert host.read_proc(ATTEMPT) is None
    assert first.claim(ProcRecord("boot", 10, 20, host.epoch))
    assert not second.claim(ProcRecord("boot", 11, 21, host.epoch))
    assert host.read_proc(ATTEMPT) == ProcRecord("boot", 10, 20, host.epoch)
    assert host.read_command(ATTEMPT) is None
    first.started(12, 22, 12)
    assert host.read_command(ATTEMPT) == {"pid": 12, "start_ticks": 22, "session": 12}


def test_an_attempt_is_there_once_it_was_made(bus: Any) -> None:
    host = bus.host()
    assert not host.has_attempt(ATTEMPT)
    os.close(host.create_attempt(ATTEMPT))
    assert bus.reader().has_attempt(ATTEMPT)
    assert not bus.reader().has_attempt(OTHER)


def test_live_is_held_as_long_as_anybody_has_the_descriptor(bus: Any) -> None:
    host = bus.host()
    live = host.create_attempt(ATTEMPT)
    copy = os.dup(live)
    os.close(live)
    assert bus.reader().is_live(ATTEMPT)
    os.close(copy)
    assert not bus.reader().is_live(ATTEMPT)
    assert not bus.reader().is_live(OTHER)


def test_an_attempt_that_got_no_worker_can_be_locked_again(bus: Any) -> None:
    host = bus.host()
    live = host.create_attempt(ATTEMPT)
    with pytest.raises(Shortage, match="held"):
        host.lock_attempt(ATTEMPT)
    os.close(live)
    live = host.lock_attempt(ATTEMPT)
    assert bus.reader().is_live(ATTEMPT)
    os.close(live)
    assert not bus.reader().is_live(ATTEMPT)


def test_heartbeat_changes_and_is_forgotten_when_closed(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    hand = bus.hand(ATTEMPT)
    assert host.heartbeat(ATTEMPT) is None
    hand.beat({})
    first = host.heartbeat(ATTEMPT)
    assert first is not None
    for _ in range(10_000):  # a file's time may be as coarse as a clock tick
        hand.beat({})
        if host.heartbeat(ATTEMPT) != first:
            break
    assert host.heartbeat(ATTEMPT) != first
    assert host.beat_of(ATTEMPT) == {}
    hand.beat({"phase": "command", "output": {"bytes": 3, "age": 0.5}})
    assert bus.reader().beat_of(ATTEMPT) == {"phase": "command", "output": {"bytes": 3, "age": 0.5}}
    hand.report_status({"progress_pct": 5})
    assert bus.reader().read_worker_status(ATTEMPT) == {"progress_pct": 5}
    for _ in range(2):
        host.close_attempt(ATTEMPT)
        assert host.heartbeat(ATTEMPT) is host.beat_of(ATTEMPT) is None
        assert host.read_worker_status(ATTEMPT) is None


def test_the_last_report_is_kept_and_each_is_published(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    hand = bus.hand(ATTEMPT)
    assert hand.last_report() is None
    for verb in ("complete", "fail"):
        hand.report(Message(os.urandom(16).hex(), "REPORT", ATTEMPT, "2026-01-01T00:00:00.000Z", {"verb": verb}))
    assert hand.last_report() == {"verb": "fail"}
    assert sorted(found.message.payload["verb"] for found in host.scan().messages) == ["complete", "fail"]


def test_revoked_once_for_the_first_reason(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    hand = bus.hand(ATTEMPT)
    assert hand.revoked() is None
    host.revoke(ATTEMPT, "timeout")
    host.revoke(ATTEMPT, "cancelled")
    assert hand.revoked() == "timeout"
    host.revoke(OTHER, "never made")


def test_a_worker_sees_the_newest_epoch(bus: Any) -> None:
    host = bus.host()
    host.stage("NOTE", {}, NOW)
    host.commit()
    os.close(host.create_attempt(ATTEMPT))
    hand = bus.hand(ATTEMPT)
    assert hand.newest_epoch() == 1
    hand.claim(ProcRecord("boot", 1, 2, host.epoch))
    assert hand.newest_epoch() == 1
    host.close()
    bus.host()
    assert hand.newest_epoch() == 2


def test_a_hand_speaks_only_for_its_attempt(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    with pytest.raises(ValueError, match="from the hand of"):
        bus.hand(ATTEMPT).publish(message("NOTE", {"text": ""}, attempt=OTHER))
    with pytest.raises(BusGone):
        bus.hand(OTHER)
    with pytest.raises(layout.LayoutError):
        bus.hand(AttemptId("../../x"))


def test_controls_come_by_number(bus: Any) -> None:
    host = bus.host()
    assert bus.drop("retry", target="1.1", who="ann") == "00000001-retry"
    assert bus.drop("stop", epoch=host.epoch) == "00000002-stop"
    first, second = host.scan().controls
    assert (first.verb, first.target, first.who, first.epoch) == ("retry", "1.1", "ann", None)
    assert (second.number, second.verb, second.epoch) == (2, "stop", 1)
    host.discard([first])
    assert host.scan().controls == (second,)


def test_what_is_refused_is_told_of_once(bus: Any) -> None:
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    bus.hand(ATTEMPT).publish(message("NOTE", {"text": "x"}))
    bus.drop("stop")
    scan = host.scan()
    for item in (*scan.messages, *scan.controls):
        host.refuse(item, "too late")
    scan = host.scan()
    assert (scan.messages, scan.controls) == ((), ())
    assert [found.reason for found in scan.quarantined] == ["too late"] * 2
    assert host.scan().quarantined == ()


def test_plans_are_kept_by_their_hash(bus: Any) -> None:
    host = bus.host()
    sha = host.freeze_plan(b'{"plan":1}')
    assert host.freeze_plan(b'{"plan":1}') == sha
    assert bus.reader().load_plan(sha) == b'{"plan":1}'
    with pytest.raises(BusError):
        bus.reader().load_plan("0" * 64)


def test_projection_of_a_task_and_what_it_unblocks(bus: Any) -> None:
    host = bus.host()
    record = complete(host, "1.1", "1.2", "a/b")
    assert set(bus.events()) == {"TASK_COMPLETE_1.1.event", "DEP_READY_1.2.event", "DEP_READY_a%2Fb.event"}
    before = bus.events()
    host.project([record])
    assert bus.events() == before


def test_a_later_word_about_a_task_replaces_the_earlier(bus: Any) -> None:
    host = bus.host()
    put(host, "TASK_FAILED", {"task_id": "1", "error": "x"}, "1")
    put(host, "TASK_BLOCKED", {"task_id": "2", "blocked_by": ["1"], "reason": "r"}, "2")
    assert set(bus.events()) == {"TASK_FAILED_1.event", "TASK_BLOCKED_2.event"}
    complete(host, "1")
    assert set(bus.events()) == {"TASK_COMPLETE_1.event", "TASK_BLOCKED_2.event"}
    put(host, "RUN_STARTED", {})
    assert set(bus.events()) == {"TASK_COMPLETE_1.event"}
    put(host, "TASK_FAILED", {"task_id": "2", "error": "x"}, "2")
    put(host, "TASK_CANCELLED", {"task_id": "2"}, "2")
    assert set(bus.events()) == {"TASK_COMPLETE_1.event"}


def test_projections_follow_from_the_journal_after_a_restart(bus: Any) -> None:
    host = bus.host()
    put(host, "TASK_FAILED", {"task_id": "1", "error": "x"}, "1")
    put(host, "RUN_STARTED", {})
    complete(host, "2", "1")
    host.stage("TASK_FAILED", {"task_id": "1", "error": "y"}, NOW, task=TaskId("1"))
    host.commit()  # and no projection: a crash in between
    host.close()
    bus.host()
    assert set(bus.events()) == {"TASK_COMPLETE_2.event", "DEP_READY_1.event", "TASK_FAILED_1.event"}


class Texts:
    """A follower whose state is what the records say, in order."""

    def __init__(self, *, understands: bool = True) -> None:
        self.texts: list[str] = []
        self.taken: list[int] = []
        self._understands = understands

    def restore(self, snapshot: Snapshot, load_plan: Callable[[str], bytes]) -> bool:
        if self._understands:
            self.texts = list(snapshot.state["texts"])
        return self._understands

    def take(self, record: Record, load_plan: Callable[[str], bytes]) -> None:
        self.texts.append(record.payload["text"])
        self.taken.append(record.seq)

    def dump(self) -> JsonObject | None:
        return {"texts": self.texts}


def test_requirement_6_a_follower_is_the_same_with_and_without_a_snapshot(bus: Any) -> None:
    host = bus.host()
    for text in "abc":
        put(host, "NOTE", {"text": text})
    host.checkpoint({"texts": ["a", "b", "c"]})
    put(host, "NOTE", {"text": "d" * 5000})
    (kept,) = bus.reader().snapshots()
    assert (kept.seq, kept.epoch, kept.state) == (3, host.epoch, {"texts": ["a", "b", "c"]})
    whole, quick, wary = Texts(), Texts(), Texts(understands=False)
    bus.reader().follow(whole, whole=True)
    reader = bus.reader()
    reader.follow(quick)
    bus.reader().follow(wary)
    assert whole.texts == quick.texts == wary.texts == ["a", "b", "c", "d" * 5000]
    assert (whole.taken, quick.taken, wary.taken) == ([1, 2, 3, 4], [4], [1, 2, 3, 4])
    put(host, "NOTE", {"text": "e"})
    assert [record.seq for record in reader.records(since=4)] == [5]


def test_requirement_6_a_start_brings_its_follower_to_the_end(bus: Any) -> None:
    host = bus.host()
    put(host, "NOTE", {"text": "a"})
    host.checkpoint({"texts": ["a"]})
    put(host, "NOTE", {"text": "b"})
    host.close()
    for understands, taken in ((True, [2]), (False, [1, 2])):
        follower = Texts(understands=understands)
        again = bus.host(follower=follower)
        assert (follower.texts, follower.taken) == (["a", "b"], taken)
        again.close()
    assert bus.host().stage("NOTE", {}, NOW).seq == 3


def test_the_last_two_snapshots_are_kept(bus: Any) -> None:
    host = bus.host()
    host.checkpoint({"of": "nothing"})
    assert list(bus.reader().snapshots()) == []
    for text in "abc":
        put(host, "NOTE", {"text": text})
        host.checkpoint({"texts": [text]})
        host.checkpoint({"texts": [text]})
    assert [(kept.seq, kept.state["texts"]) for kept in bus.reader().snapshots()] == [(3, ["c"]), (2, ["b"])]
    assert not host.checkpoint_due()


def test_an_attempt_is_made_once(bus: Any) -> None:
    """A journal that lost its end names an attempt again: what its folder holds happened, and is not done again."""
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    bus.hand(ATTEMPT).finish(EXIT)
    with pytest.raises(AttemptExists, match=str(ATTEMPT)):
        host.create_attempt(ATTEMPT)
    assert host.read_exit(ATTEMPT).command == {"code": 0, "signal": None}
