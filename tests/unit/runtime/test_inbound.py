"""What is handed in, where something is odd: late results, orders that nobody may give, errors that pass."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from bus import control, layout
from bus._fs import FileSystem
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.wire import ExitRecord, Message, Stamp, TaskId
from conductor.core.events import AttemptAdopted, ControlReceived
from conductor.core.instructions import LaunchWorker
from conductor.core.supervision import UsageReported
from conductor.runtime.attempts import Attempts
from conductor.runtime.inbound import Inbound
from conductor.runtime.launches import Launches, Order
from conductor.runtime.messages import Messages
from conductor.runtime.pause import Pause
from conductor.runtime.shortage import Shortage
from conductor.testing import FakeLauncher

TASK = TaskId("1")
ATTEMPT = layout.attempt_id(TASK, 1, "0a1b2c3d")
EXIT = ExitRecord(True, "self", command={"code": 0, "signal": None})


class Short(FileSystem):
    """Runs out of descriptors for reading files whose name holds `of`."""

    of = ""

    def open(self, name: str | bytes, flags: int, mode: int = 0o600, *, at: int | None = None) -> int:
        if self.of and self.of in os.fsdecode(name):
            raise OSError(errno.EMFILE, "Too many open files")
        return super().open(name, flags, mode, at=at)


class Desk:
    """A host with one attempt, and who reads what is handed in to it."""

    def __init__(self, root: Path) -> None:
        self.fs = Short()
        self.root = root
        self.host: FileHost = open_host(root, durability="process", fs=self.fs)
        os.close(self.host.create_attempt(ATTEMPT))
        self.launcher = FakeLauncher()
        self.said: list[str] = []
        self.attempts = Attempts(self.host, self.launcher, self.said.append)
        self.inbound = Inbound(self.host, set(), self.said.append)

    def read(self) -> list[tuple[str, Any]]:
        """Look, and take in what was found."""
        entries = self.inbound.read(self.attempts)
        for entry in entries:
            self.host.stage(entry.type, entry.payload, Stamp(1.0, 2.0, "b"), id=entry.id)
        self.host.commit()
        self.inbound.recorded(entries)
        return [(entry.type, entry.payload) for entry in entries]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "bus")


def test_requirement_4_a_result_that_comes_behind_its_verdict_is_removed_silently(desk: Desk) -> None:
    open_hand(desk.root, ATTEMPT).finish(EXIT)
    assert desk.read() == []
    assert os.listdir(desk.root / "inbox") == os.listdir(desk.root / "quarantine") == []


def test_a_result_that_says_something_else_than_the_verdict_is_kept(desk: Desk) -> None:
    hand = open_hand(desk.root, ATTEMPT)
    hand.finish(EXIT)
    desk.read()
    hand.publish(Message("ab" * 16, "RESULT", ATTEMPT, "t", {"started": False, "ended_by": "self"}))
    desk.read()
    [(type, payload)] = desk.read()
    assert (type, "not open" in payload["reason"]) == ("QUARANTINED", True)


def test_nobody_resets_a_track_by_a_file(desk: Desk) -> None:
    control.drop(desk.root, "reset", who="me")
    desk.read()
    [(type, payload)] = desk.read()
    assert (type, "conductor reset" in payload["reason"]) == ("QUARANTINED", True)


@pytest.mark.parametrize("what", [".msg", "inbox", "control", "-noted"])
def test_requirement_5_reading_errors_that_pass_are_said_once_and_hide_nothing_for_good(desk: Desk, what: str) -> None:
    desk.attempts.opened(TASK, ATTEMPT)
    open_hand(desk.root, ATTEMPT).publish(Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "x"}))
    control.drop(desk.root, "noted", who="me")
    if what in ("inbox", "control"):  # so that it has to be opened anew
        (desk.root / what).rename(desk.root / "aside")
        (desk.root / what).mkdir()
        for name in os.listdir(desk.root / "aside"):
            (desk.root / "aside" / name).rename(desk.root / what / name)
    desk.fs.of = what
    found = [*desk.read(), *desk.read()]
    assert desk.inbound.more or what == "-noted"
    assert len(desk.said) == 1
    assert "Too many open files" in desk.said[0]
    desk.fs.of = ""
    found += desk.read()
    assert sorted(type for type, _ in found) == ["CONTROL", "NOTE"]
    assert desk.said[1:] == ["resumed: what is handed in can be read again"]
    assert os.listdir(desk.root / "quarantine") == []


def test_requirement_5_a_result_whose_file_cannot_be_read_now_waits(desk: Desk) -> None:
    open_hand(desk.root, ATTEMPT).finish(EXIT)
    desk.fs.of = "exit.json"
    assert desk.read() == []
    assert desk.inbound.more
    assert len(os.listdir(desk.root / "inbox")) == 1
    desk.fs.of = ""
    desk.read()
    assert os.listdir(desk.root / "inbox") == []


def test_an_attempt_that_is_there_already_is_watched_and_not_launched(desk: Desk) -> None:
    """Its launch was recorded in an end of the journal that a repair cut off."""
    live = desk.host.create_attempt(layout.attempt_id(TaskId("2"), 1, "0a1b2c3d"))
    desk.launcher.lives[layout.attempt_id(TaskId("2"), 1, "0a1b2c3d")] = "running"

    def order(wanted: LaunchWorker) -> Order:
        return Order(None, {})  # type: ignore[arg-type]

    launches = Launches(
        desk.host, desk.launcher, desk.attempts, order, Pause(desk.said.append), Shortage(desk.said.append)
    )
    wanted = LaunchWorker(TaskId("2"), layout.attempt_id(TaskId("2"), 1, "0a1b2c3d"), 1, "0a1b2c3d")
    [fact] = launches.start(wanted, 0.0)
    assert isinstance(fact, AttemptAdopted)
    assert desk.launcher.orders == {}
    assert desk.said == []
    os.close(live)


def test_who_only_stops_is_told_of_a_full_disk_only_where_the_stop_cannot_be_recorded() -> None:
    """What else a full disk holds up does not matter to a stop, and "a stop cannot be recorded" is what goes on."""
    said: list[str] = []
    pause = Pause(said.append, to_stop=True)
    assert not pause.met("disk", "the disk is full")
    assert pause.met("disk", None)  # workers are given time for their results all the same
    assert said == []
    pause.met("disk", "the disk is full")
    pause.met("journal", "the disk is full")
    assert pause.lasts
    pause.met("journal", None)
    pause.met("disk", None)
    assert [text.split(":")[0] for text in said] == ["paused", "resumed"]
    assert "the stop is recorded as soon as there is room for that" in said[0]
    assert "cannot be recorded either" not in said[0]


def test_a_pause_is_said_once_whoever_meets_the_disk() -> None:
    said: list[str] = []
    pause = Pause(said.append)
    assert not pause.met("disk", None)
    assert not pause.met("disk", "the disk is full")
    assert not pause.met("launches", "the bus cannot be written")
    assert not pause.met("disk", None)
    assert pause.lasts
    assert pause.met("launches", None)
    assert [text.split(":")[0] for text in said] == ["paused", "resumed"]
    pause.met("launches", "the disk is full")
    pause.give_up("launches")
    assert not pause.lasts
    assert [text.split(":")[0] for text in said[2:]] == ["paused", "the pause is over"]
    pause.end()
    assert len(said) == 4


def test_a_pause_says_what_cannot_be_recorded_only_where_it_cannot() -> None:
    """On a full disk the journal goes on in the room of the reserve: what ends is recorded, a stop too."""
    said: list[str] = []
    pause = Pause(said.append)
    pause.met("disk", "the disk is full")
    assert "nothing is started" in said[0]
    assert "recorded as long as" in said[0]
    assert "TERM" not in said[0]
    pause.met("journal", "the bus cannot be written: the disk is full")
    pause.met("journal", "the bus cannot be written: the disk is full")
    assert len(said) == 2
    assert said[1].startswith("nothing can be recorded any more: the bus cannot be written")
    assert "TERM, or Ctrl-C three times" in said[1]
    pause.met("journal", None)
    assert len(said) == 2
    pause.met("journal", "the bus cannot be written: the disk is full")
    assert len(said) == 3, "it could be written in between"


def test_a_run_that_ends_in_a_pause_says_that_it_is_over() -> None:
    said: list[str] = []
    pause = Pause(said.append)
    pause.end()
    assert said == []
    pause.met("disk", "the disk is full (0 KiB free)")
    pause.end()
    assert said[1:] == ["the pause is over: the run has ended"]


@pytest.mark.parametrize(
    ("verb", "epoch", "taken"),
    [
        ("stop", None, False),
        ("drain", None, False),
        ("pause", None, True),
        ("retry", None, True),
        ("stop", "ours", True),
        ("pause", "ours", True),
        ("pause", "earlier", False),
        ("stop", "earlier", False),
        ("cancel", "earlier", True),
    ],
)
def test_orders_that_were_left_for_another_conductor_are_set_aside_and_those_for_any_are_taken(
    desk: Desk, verb: str, epoch: str | None, taken: bool
) -> None:
    number = {None: None, "ours": desk.host.epoch, "earlier": desk.host.epoch - 1}[epoch]
    control.drop(desk.root, verb, target="1", who="me", epoch=number)
    found = desk.inbound.orders()
    assert [entry.type for entry in found] == (["CONTROL"] if taken else [])
    if not taken:
        [(type, payload)] = desk.read()
        assert (type, payload["reason"]) == ("QUARANTINED", "meant for an earlier conductor")


def test_a_stop_by_hand_without_an_epoch_is_for_the_conductor_that_lives(desk: Desk) -> None:
    desk.inbound.orders()
    control.drop(desk.root, "stop", who="me")
    assert [type for type, _ in desk.read()] == ["CONTROL"]


def test_a_claim_is_an_order_of_whoever_made_the_file(desk: Desk) -> None:
    (desk.root / "events" / "TASK_COMPLETE_1.event").touch()
    (desk.root / "events" / "TASK_FAILED_2.event").write_text("no paper")
    found = desk.inbound.read(desk.attempts, [TaskId("1"), TaskId("2")])
    facts = [entry.fact for entry in found]
    assert facts == [
        ControlReceived("complete", "claim", "1", None),
        ControlReceived("fail", "claim", "2", "no paper"),
    ]
    assert {entry.source for entry in found} == {"operator:claim"}


def test_what_an_attempt_has_used_is_a_fact(desk: Desk) -> None:
    desk.attempts.opened(TASK, ATTEMPT)
    open_hand(desk.root, ATTEMPT).publish(Message("ab" * 16, "USAGE", ATTEMPT, "t", {"cost_usd": 0.5}))
    [entry] = desk.inbound.read(desk.attempts)
    assert entry.fact == UsageReported(TASK, ATTEMPT, {"cost_usd": 0.5})


@pytest.mark.parametrize("by_hand", [False, True])
def test_requirement_4_an_order_whose_conductor_died_before_it_removed_it_is_not_recorded_twice(
    desk: Desk, by_hand: bool
) -> None:
    known = Messages()
    desk.inbound = Inbound(desk.host, known, desk.said.append)
    path = desk.root / "control" / "00000001-retry"
    if by_hand:
        path.write_text('{"target":"1"}')
    else:
        control.drop(desk.root, "retry", target="1", who="me")
    [entry] = desk.inbound.orders()
    assert entry.id is not None
    known.ordered(entry.id)
    assert desk.inbound.read(desk.attempts) == []
    assert not path.exists()
    path.write_text('{"target":"1"}')
    assert len(desk.inbound.read(desk.attempts)) == 1, "the same order again is another one"
    known.ordered(desk.inbound.read(desk.attempts)[0].id or "")
    desk.inbound.forget_recorded()
    assert not path.exists()
