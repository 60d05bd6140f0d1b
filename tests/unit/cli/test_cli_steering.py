"""The verbs of an operator, with a conductor that takes their orders, and without one."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass, field
from typing import Any

import click
import pytest

from bus.errors import HeldByOther
from bus.wire import TaskId
from conductor.cli import ordering, steering
from conductor.cli.main import VERBS, run_command_line
from conductor.cli.operator import operator
from conductor.cli.options import text_of
from conductor.core.events import ControlReceived
from conductor.core.wait_events import GrantSeen, WaitBegan
from conductor.runtime import orders
from conductor.runtime.start import Request
from tests.unit.cli.conftest import Story

NODES = """  nodes:
    - {id: "1", name: "First", run: [x]}
    - {id: "2", name: "Second", depends_on: ["1"], run: [x]}
    - {id: "3", name: "Third", run: [x]}
    - {id: "4", name: "Gated", run: [x], approve: before}
    - {id: "5", name: "By hand", agent: manual}
    - {id: "6", name: "Gated too", run: [x], approve: before}
    - {id: "7", name: "By hand too", agent: manual}
"""

STEERING = [name for name, verb in VERBS.items() if verb.section == "Steer" and name not in ("stop", "reset")]

ARGUMENTS: dict[str, list[str]] = {
    "pause": [],
    "resume": [],
    "reload": [],
    "answer": ["1a2b3c4d", "yes"],
    "steer": ["1", "faster"],
    "unlock": ["a.py", "--force"],
}
"""What stands behind TRACK; of all others a task."""


@dataclass
class Conductor:
    """Takes the orders of a story at a look of the verb that waits."""

    story: Story
    after: int = 1
    """At which look."""
    looks: int = 0
    taken: list[tuple[str, str | None, str | None, int | None]] = field(default_factory=list)

    def pause(self, seconds: float) -> None:
        self.looks += 1
        if self.looks < self.after:
            return
        for control in self.story.host.scan().controls:
            self.taken.append((control.verb, control.target, control.text, control.epoch))
            fact = ControlReceived(control.verb, f"operator:{control.who}", control.target, control.text)
            self.story.tell(self.story.machine.resolve(fact))
            self.story.host.discard([control])


@pytest.fixture
def conductor(story: Story, monkeypatch: pytest.MonkeyPatch) -> Conductor:
    story.start(NODES)
    conductor = Conductor(story)
    monkeypatch.setattr(ordering, "pause", conductor.pause)
    return conductor


def call(capsys: pytest.CaptureFixture[str], verb: str, story: Story, *arguments: str, code: int = 0) -> str:
    assert run_command_line([verb, str(story.track), *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.out + captured.err


def status_of(story: Story, task: str) -> str:
    return next(one.status for one in story.view().tasks if one.id == task)


def test_an_order_is_recorded_with_who_and_what_follows(
    conductor: Conductor, capsys: pytest.CaptureFixture[str]
) -> None:
    story = conductor.story
    said = call(capsys, "cancel", story, "3", "-m", "not wanted")
    assert said.startswith("3 is cancelled once its worker is stopped; it is told to stop.\nLook on:  ")
    assert conductor.taken == [("cancel", "3", "not wanted", None)]
    [order] = [record for record in story.records if record.type == "CONTROL"]
    assert order.payload["who"] == f"operator:{operator()}"
    assert [record.payload["reason"] for record in story.records if record.type == "STOP"] == ["cancelled"]
    events = call(capsys, "events", story, "--type", "CONTROL")
    assert f"cancel 3 by {operator()}: not wanted" in events


def test_what_is_so_already_is_no_error_and_is_not_recorded(
    conductor: Conductor, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "pause", conductor.story)
    said = json.loads(call(capsys, "pause", conductor.story, "--json"))
    assert (said["state"], said["conductor"]) == ("unchanged", False)
    assert said["message"] == f"Already paused by {operator()}."
    assert f"Look on:  conductor status {conductor.story.track}\n" in call(capsys, "pause", conductor.story)
    assert len(conductor.taken) == 1


def test_of_several_tasks_none_is_touched_where_one_cannot_be(
    conductor: Conductor, capsys: pytest.CaptureFixture[str]
) -> None:
    conductor.story.end("3")
    assert "task 3 is done" in call(capsys, "cancel", conductor.story, "1", "3", code=1)
    assert "unknown_task" in call(capsys, "cancel", conductor.story, "1", "x", "--json", code=2)
    assert conductor.taken == []


def test_json_names_the_tasks_that_an_order_changes(conductor: Conductor, capsys: pytest.CaptureFixture[str]) -> None:
    conductor.story.end("1", 3)
    assert status_of(conductor.story, "2") == "blocked"
    said = json.loads(call(capsys, "retry", conductor.story, "1", "--json"))
    assert said == {
        "state": "recorded",
        "conductor": True,
        "tasks": ["1", "2"],
        "message": "back to pending: 1, 2.",
    }
    assert status_of(conductor.story, "2") == "pending"


def test_an_order_that_became_meaningless_on_the_way_is_told_by_its_record(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def meanwhile(seconds: float) -> None:
        if "3" not in {record.task for record in conductor.story.records if record.type == "TASK_COMPLETE"}:
            conductor.story.end("3")
        conductor.pause(seconds)

    monkeypatch.setattr(ordering, "pause", meanwhile)
    assert "task 3 is done" in call(capsys, "cancel", conductor.story, "3", code=1)
    assert conductor.taken == [("cancel", "3", None, None)]


def test_a_pause_is_bound_to_the_conductor_and_others_are_not(
    conductor: Conductor, capsys: pytest.CaptureFixture[str]
) -> None:
    said = call(capsys, "pause", conductor.story)
    workers = sum(task.worker is not None for task in conductor.story.view().tasks)
    assert said.startswith(f"paused: nothing new is started; {workers} workers go on.\nGo on:    conductor resume ")
    call(capsys, "resume", conductor.story)
    assert [epoch for *_, epoch in conductor.taken] == [conductor.story.host.epoch, None]


@pytest.mark.parametrize(
    ("data", "said"), [(b"x" * 65537, "more than 65536 bytes"), (b"\xff\xfe", "not valid UTF-8"), (b"\n", "is empty")]
)
def test_requirement_14_a_text_that_cannot_be_recorded_is_refused_before_anything_is(
    monkeypatch: pytest.MonkeyPatch, data: bytes, said: str
) -> None:
    """With a conductor and without one, whatever the locale makes of stdin."""
    stdin = io.TextIOWrapper(io.BytesIO(data), encoding="ascii", errors="surrogateescape")
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(click.UsageError, match=said):
        text_of(["-"])
    for words in ([data.decode("utf-8", "surrogateescape")], ["x", data.decode("utf-8", "surrogateescape") * 2]):
        if data != b"\n":
            with pytest.raises(click.UsageError, match=said):
                text_of(words)


def test_words_for_a_worker_come_from_the_command_line_or_from_stdin(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "steer", conductor.story, "1", "look", "again")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"two\nlines\n")))
    call(capsys, "steer", conductor.story, "1", "-")
    assert [text for _, _, text, _ in conductor.taken] == ["look again", "two\nlines"]
    assert "the text is empty" in call(capsys, "steer", conductor.story, "1", " ", code=2)


def test_a_lock_is_not_taken_without_being_asked_twice(
    conductor: Conductor, capsys: pytest.CaptureFixture[str]
) -> None:
    story = conductor.story
    story.tell(GrantSeen(TaskId("1"), story.attempt("1"), "0000000a", ("a.py",), False, 1))
    assert "nobody holds b.py; held: a.py (by 1)" in call(capsys, "unlock", story, "b.py", code=1)
    said = call(capsys, "unlock", story, "a.py", code=2)
    assert "held by 1, which may still write there" in said
    assert f"conductor unlock {conductor.story.track} a.py --force" in said
    assert conductor.taken == []


@pytest.mark.parametrize("verb", STEERING)
def test_nothing_is_steered_where_nothing_ever_ran(
    story: Story, tmp_path: Any, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    elsewhere = ["--bus-dir", str(tmp_path / "none"), "--json"]
    said = json.loads(call(capsys, verb, story, *ARGUMENTS.get(verb, ["1"]), *elsewhere, code=1))
    assert said["error"]["code"] == "refused"
    said = json.loads(call(capsys, verb, story, *ARGUMENTS.get(verb, ["1"]), "--json", code=1))
    assert said["error"]["message"] == "there is nothing to steer: no run has begun"


@pytest.mark.parametrize("verb", STEERING)
def test_requirement_37_each_verb_is_refused_inside_a_worker_of_the_track(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", "1~1-00000000")
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(conductor.story.track / ".message-bus"))
    said = json.loads(call(capsys, verb, conductor.story, *ARGUMENTS.get(verb, ["1"]), "--json", code=2))
    assert said["error"]["code"] == "from_worker"
    assert conductor.taken == []


def set_the_stage(story: Story) -> list[list[str]]:
    """Let every verb mean something; return their command lines, in an order in which they do."""
    attempt = story.attempt("1")
    story.tell(GrantSeen(TaskId("1"), attempt, "0000000a", ("a.py",), False, 1))
    story.tell(WaitBegan(TaskId("1"), attempt, "1a2b3c4d", "question", (), text="which?"))
    story.end("3", 3)
    track = str(story.track)
    return [
        ["steer", track, "1", "faster"],
        ["answer", track, "1", "the second"],
        ["unlock", track, "a.py", "--force"],
        ["retry", track, "3"],
        ["approve", track, "4"],
        ["reject", track, "6"],
        ["complete", track, "5"],
        ["fail", track, "7"],
        ["cancel", track, "2"],
        ["reload", track],
        ["pause", track],
        ["resume", track],
    ]


def test_each_verb_gives_its_order(conductor: Conductor, capsys: pytest.CaptureFixture[str]) -> None:
    lines = set_the_stage(conductor.story)
    assert {line[0] for line in lines} == set(STEERING)
    for line in lines:
        assert run_command_line(line) == 0, capsys.readouterr()
        said = capsys.readouterr().out
        assert said.endswith(f"Look on:  conductor status {conductor.story.track}\n")
    targets = ["1", "1a2b3c4d", "a.py", "3", "4", "6", "5", "7", "2", None, None, None]
    assert [(verb, target) for verb, target, *_ in conductor.taken] == [
        (line[0], target) for line, target in zip(lines, targets, strict=True)
    ]


# --- without a conductor --------------------------------------------------------------------------------------------


@dataclass
class Desk:
    """Records orders in the place of a conductor."""

    refuse: int = 0
    """How often the track is held by somebody else."""
    recorded: list[ControlReceived] = field(default_factory=list)

    def record(
        self, request: Request, verb: str, who: str, target: str | None = None, text: str | None = None
    ) -> ControlReceived:
        if self.refuse:
            self.refuse -= 1
            raise HeldByOther("another conductor holds the track")
        self.recorded.append(ControlReceived(verb, who, target, text, ahead=True))
        return self.recorded[-1]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk()
    monkeypatch.setattr(orders, "record", desk.record)
    monkeypatch.setattr(steering, "pause", lambda _: None)
    return desk


def test_each_verb_records_its_order_where_no_conductor_lives(
    story: Story, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES)
    lines = set_the_stage(story)
    story.die()
    for line in lines[:-1]:  # nothing is paused: the order was not really recorded
        assert run_command_line([*line, "--json"]) == 0, capsys.readouterr()
        said = json.loads(capsys.readouterr().out)
        assert (said["state"], said["conductor"]) == ("recorded", False)
    assert [one.verb for one in desk.recorded] == [line[0] for line in lines[:-1]]
    assert json.loads(call(capsys, "resume", story, "--json"))["state"] == "unchanged"


def test_without_a_conductor_an_order_is_recorded_in_its_place(
    story: Story, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES)
    story.die()
    said = call(capsys, "pause", story)
    assert said.startswith("recorded: the next run starts paused.")
    assert f"No conductor lives now; the next run acts on it.\nRun:      conductor run {story.track}\n" in said
    assert json.loads(call(capsys, "cancel", story, "1", "--json"))["conductor"] is False
    assert [(one.verb, one.target, one.who) for one in desk.recorded] == [
        ("pause", None, f"operator:{operator()}"),
        ("cancel", "1", f"operator:{operator()}"),
    ]


def test_words_for_a_worker_that_is_gone_are_not_said_to_be_given(
    story: Story, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES)
    story.die()
    assert call(capsys, "steer", story, "1", "faster") == "given to the worker of 1.\n"
    os.close(story.live.pop(story.attempt("1")))
    said = call(capsys, "steer", story, "1", "faster")
    assert said.startswith(
        "recorded, but the worker of 1 is gone: nobody reads it. No conductor lives now; the next run"
    )


def test_a_pause_may_say_why(story: Story, desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(NODES)
    story.die()
    call(capsys, "pause", story, "-m", "the disk is full")
    assert desk.recorded[-1].text == "the disk is full"


def test_a_track_that_somebody_holds_for_a_moment_is_asked_again(
    story: Story, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES)
    story.die()
    desk.refuse = 3
    call(capsys, "cancel", story, "1")
    assert len(desk.recorded) == 1
    desk.refuse = steering.TRIES
    assert "held_by_other" in call(capsys, "cancel", story, "1", "--json", code=4)


def test_an_order_whose_conductor_dies_is_taken_back_and_recorded(
    conductor: Conductor, desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    story = conductor.story
    monkeypatch.setattr(ordering, "pause", lambda _: story.die())
    call(capsys, "cancel", story, "1")
    assert [one.verb for one in desk.recorded] == ["cancel"]
    assert not list((story.track / ".message-bus" / "control").iterdir())


def test_ctrl_c_takes_an_order_back(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ordering, "pause", interrupt)
    assert "the order is taken back" in call(capsys, "cancel", conductor.story, "1", code=130)
    assert not list((conductor.story.track / ".message-bus" / "control").iterdir())
