"""`conductor reset`: what is set back, said before and after; refused where it would pull a run's legs away."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conductor.cli.main import run_command_line

if TYPE_CHECKING:
    from conftest import Story

PLAN = """  nodes:
    - {id: a, name: one, run: [true]}
    - {id: b, name: two, run: [true], depends_on: [a]}
    - {id: c, name: three, run: [true]}
"""


@pytest.fixture
def over(story: Story) -> Path:
    """A track on which everything is done and nothing runs."""
    story.start(PLAN)
    for task in "acb":
        story.end(task)
    story.die()
    return story.track


def call(capsys: pytest.CaptureFixture[str], track: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    found = run_command_line(["reset", str(track), *arguments, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert found == code, data
    assert isinstance(data, dict)
    return data


def statuses(capsys: pytest.CaptureFixture[str], track: Path) -> dict[str, str]:
    capsys.readouterr()
    assert run_command_line(["status", str(track), "--json"]) == 0
    return {task["id"]: task["status"] for task in json.loads(capsys.readouterr().out)["tasks"]}


def test_a_task_takes_along_what_depends_on_it(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {"tasks": ["a", "b"], "everything": False, "run_ended": False, "dry_run": True, "unkillable": []}
    before = (over / ".message-bus" / "queue.jsonl").read_bytes()
    assert call(capsys, over, "a", "--dry-run") == expected
    assert (over / ".message-bus" / "queue.jsonl").read_bytes() == before
    assert call(capsys, over, "a") == {**expected, "dry_run": False}
    assert statuses(capsys, over) == {"a": "ready", "b": "pending", "c": "done"}
    events = {path.name for path in (over / ".message-bus" / "events").glob("*.event")}
    assert "TASK_COMPLETE_c.event" in events
    assert not events & {"TASK_COMPLETE_a.event", "TASK_COMPLETE_b.event"}


def test_without_a_task_everything_is_set_back_and_nothing_deleted(
    over: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attempts = sorted((over / ".message-bus" / "attempts").rglob("exit.json"))
    assert call(capsys, over, "--dry-run")["tasks"] == ["a", "b", "c"]
    done = {"tasks": ["a", "b", "c"], "everything": True, "run_ended": False, "dry_run": False, "unkillable": []}
    assert call(capsys, over) == done
    assert run_command_line(["status", str(over), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["state"] == "never_run"
    assert sorted((over / ".message-bus" / "attempts").rglob("exit.json")) == attempts
    assert call(capsys, over)["tasks"] == []


def test_why_tells_of_each_task_that_a_reset_took_along(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, over, "a")
    for task in ("a", "b"):
        capsys.readouterr()
        assert run_command_line(["why", str(over), task]) == 0
        text = capsys.readouterr().out
        assert "The run has ended; tasks of it were set back by" in text
        assert "set back to pending by" in text.partition("What happened:")[2]


def test_people_are_told_what_was_done_and_what_is_next(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["reset", str(over), "c", "a", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "3 tasks would be set back to pending: a, b, c." in text
    assert f"Do it:    conductor reset {over} c a\n" in text
    assert run_command_line(["reset", str(over), "c"]) == 0
    text = capsys.readouterr().out
    assert "1 task is set back to pending: c." in text
    assert "What tasks wrote stays as it is" in text
    assert f"Run:      conductor run {over}\n" in text


def test_never_run(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--dry-run"], ["a"]):
        assert run_command_line(["reset", str(track), *options]) == 0
        assert capsys.readouterr().out.startswith(f"nothing to set back: there is no bus at {track}/.message-bus ")
    assert list(track.iterdir()) == []


def test_a_task_that_does_not_exist_sets_nothing_back(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ((), ("--dry-run",)):
        assert call(capsys, over, "c", "nobody", *options, code=2)["error"]["code"] == "unknown_task"
    assert statuses(capsys, over)["c"] == "done"


def test_while_a_conductor_holds_the_track_it_is_refused_with_the_way_out(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(PLAN)
    error = call(capsys, story.track, "a", code=4)["error"]
    assert error["code"] == "held_by_other"
    assert f"pid {os.getpid()}" in error["message"]
    assert error["hint"] == f"end the run first: `conductor stop {story.track}`; then reset"
    assert call(capsys, story.track, "a", "--dry-run")["tasks"] == ["a", "b"]


def test_requirement_37_a_worker_may_not_reset_its_own_track(
    over: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", "a~1-00000000")
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(over / ".message-bus"))
    assert call(capsys, over, code=2)["error"]["code"] == "from_worker"
