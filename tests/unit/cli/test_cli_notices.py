"""What `status` says beside the tasks: put aside, paused, edited, interrupted; each only where it is so."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bus.room import Room
from conductor.cli import notices
from conductor.cli.main import run_command_line
from conductor.core.events import PlanEdited

if TYPE_CHECKING:
    from conftest import Story

PLAN = "  nodes:\n    - {id: a, name: one, run: [true]}\n    - {id: b, name: two, run: [true]}\n"


def status(capsys: pytest.CaptureFixture[str], track: Path) -> tuple[str, dict[str, Any]]:
    """What people see, and what scripts read."""
    capsys.readouterr()
    assert run_command_line(["status", str(track)]) == 0
    text = capsys.readouterr().out
    assert run_command_line(["status", str(track), "--json"]) == 0
    return text, json.loads(capsys.readouterr().out)


def test_nothing_is_said_where_nothing_is_odd(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    text, data = status(capsys, story.track)
    assert [word for word in ("aside", "Paused", "suspended", "edited", "not recorded") if word in text] == []
    assert data["paused"] is None
    assert data["suspended"] is False
    assert data["edited"] == []
    assert data["quarantine"] == {"count": 0, "newest": None}


def test_requirement_11_who_stands_still_with_the_mutex_of_the_file_locks_is_named(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(PLAN)
    mutex = story.track / ".message-bus" / "locks" / ".mutex"
    fd = os.open(mutex, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    text, data = status(capsys, story.track)
    said = f"rocess {os.getpid()} holds the mutex of the file locks and does not go on"
    assert f"P{said}" in text
    assert f"kill -CONT {os.getpid()}" in text
    assert data["locks_held_up_by"] == os.getpid()
    assert run_command_line(["doctor", str(story.track), "--json"]) == 0
    found = {one["code"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert f"p{said}" in found["locks_held_up"]["text"]
    os.close(fd)
    assert status(capsys, story.track)[1]["locks_held_up_by"] is None


def test_what_was_put_aside_is_counted_and_the_newest_named(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    for name in ("one\x1b[31m", "two"):
        (story.track / ".message-bus" / "inbox" / name).write_text("?")
        story.host.scan()
    text, data = status(capsys, story.track)
    assert "2 things put aside, the newest 00000002-two: no message's name" in text
    assert f"All: conductor doctor {story.track}" in text
    assert data["quarantine"]["count"] == 2
    assert data["quarantine"]["newest"].startswith("00000002-two: ")


def test_requirement_32_a_pause_is_shown(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(PLAN)
    holder = story.track / ".message-bus" / "conductor.json"
    said = holder.read_text()
    holder.write_text(json.dumps({**json.loads(said), "paused": "the disk is full"}))
    text, data = status(capsys, story.track)
    assert "Paused: the disk is full. Workers go on" in text
    assert data["paused"] == "the disk is full"
    holder.write_text(said)
    assert "Paused" not in status(capsys, story.track)[0]
    monkeypatch.setattr(Room, "said_by_disk", lambda _: "the file system is read-only")
    assert "Paused: the file system is read-only" in status(capsys, story.track)[0]
    story.die()
    assert "Paused" not in status(capsys, story.track)[0]


def test_a_suspended_conductor_is_shown_with_how_to_wake_it(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(PLAN)
    monkeypatch.setattr(notices, "is_suspended", lambda _: True)
    text, data = status(capsys, story.track)
    assert "The conductor is suspended and does nothing; its workers go on. Wake it: `kill -CONT " in text
    assert data["suspended"] is True
    story.die()
    text, data = status(capsys, story.track)
    assert "is suspended" not in text
    assert data["suspended"] is False


def test_requirement_33_an_edited_plan_is_shown(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    story.tell(PlanEdited("plan.md", "0" * 64, ("new in plan.md: c",)))
    text, data = status(capsys, story.track)
    assert "The plan was edited since the run began; the edit is not applied until this run has ended" in text
    assert data["edited"] == ["new in plan.md: c"]
    assert run_command_line(["events", str(story.track), "--type", "PLAN_EDITED"]) == 0
    assert "plan.md was edited; the edit is not applied until" in capsys.readouterr().out
    story.end("a")
    story.end("b")
    assert "The plan was edited since the run began; the next run applies the edit" in status(capsys, story.track)[0]


def test_an_interrupted_run_says_who_lives_on(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    story.die()
    text, data = status(capsys, story.track)
    assert "The conductor is gone before the run ended; 2 workers of it still work.\nGo on: conductor run" in text
    assert "\nEnd it: conductor stop" in text
    assert data["run"]["state"] == "interrupted"
