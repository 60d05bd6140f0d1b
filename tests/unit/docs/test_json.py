"""docs/json.md names every key that scripts are given, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.host import open_host
from bus.wire import TaskId
from conductor.cli.failure import as_data, describe
from conductor.cli.main import run_command_line
from conductor.cli.output import STATUS_GLYPH
from conductor.cli.screen_json import JsonScreen
from conductor.core.events import TimerFired
from conductor.core.wait_events import GrantSeen, WaitBegan
from conductor.errors import ConductorError
from tests.unit.cli.conftest import Story

PAGE = (Path(__file__).parents[3] / "docs" / "json.md").read_text(encoding="utf-8")

PEOPLE = ("approval", "manual", "paused")
"""Kinds of waits for a person."""

NODES = """  nodes:
    - {id: "1", name: "First", files: [a.py], estimated_duration: 10s, fallback: [x]}
    - {id: "2", name: "Second", depends_on: ["1"]}
    - {id: "3", name: "Third", files: [a.py]}
  parallel_groups: [{id: g, tasks: ["1"]}]
"""


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    """A run in which a task is tried again."""
    for name in ("CONDUCTOR_ATTEMPT", "CONDUCTOR_BUS_DIR"):
        monkeypatch.delenv(name, raising=False)
    track = tmp_path / "track"
    track.mkdir()
    story = Story(track, open_host(track / ".message-bus", durability="process"))
    story.start(NODES, retries=1, retry_delay=1000.0)
    story.end("1", 3, tail="boom\n", log=b"words\n")
    story.tell(TimerFired("retry:1"))
    yield story
    story.close()


def tables(after: str) -> list[dict[str, str]]:
    """The tables behind some words, up to the next heading: what each key means."""
    text = PAGE.split(after, 1)[1]
    text = re.split(r"^#+ ", text, flags=re.MULTILINE)[0]
    found = []
    for table in re.findall(r"^\| key \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, flags=re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        found.append({name: row[2] for row in rows for name in re.findall(r"`([a-z_]+)`", row[0])})
    return found


def keys(after: str) -> list[str]:
    return sorted(tables(after)[0])


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run_command_line([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_errors() -> None:
    assert keys("## Errors\n") == sorted(as_data(describe(ConductorError("usage", "x"))))


def test_run_result(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    JsonScreen(sys.stdout, story.host).close(story.view(), 1)
    result = json.loads(capsys.readouterr().out)
    assert keys("## run\n") == sorted(result)
    assert sorted(result["tasks"][0]) == keys("### task\n")
    dry = printed(capsys, "run", str(story.track), "--dry-run", "--command", "true")
    assert sorted(tables("## run\n")[1]) == sorted(dry)
    assert "`id`, `name`, `depends_on`, `command`" in tables("## run\n")[1]["tasks"]
    assert list(dry["tasks"][0]) == ["id", "name", "depends_on", "command"]


@pytest.mark.parametrize("ran", [True, False])
def test_status(story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str], ran: bool) -> None:
    elsewhere = [] if ran else ["--bus-dir", str(tmp_path / "none")]
    status = printed(capsys, "status", str(story.track), *elsewhere)
    assert sorted(status) == keys("## status\n")
    assert sorted(status["run"]) == keys("### run in status\n")
    assert all(sorted(task) == keys("### task\n") for task in status["tasks"])
    said = tables("## status\n")[0]
    assert set(status["bus"]) <= set(re.findall(r"`(\w+)`", said["bus"]))
    assert set(status["quarantine"]) == set(re.findall(r"`(\w+)`", said["quarantine"]))


def test_what_is_held_asked_and_held_back(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.tell(GrantSeen(TaskId("3"), story.attempt("3"), "0000000a", ("a.py",), False, 1))
    story.tell(WaitBegan(TaskId("3"), story.attempt("3"), "0000000b", "question", (), text="which?"))
    status = printed(capsys, "status", str(story.track))
    said = {key: set(re.findall(r"`(\w+)`", text)) for key, text in tables("## status\n")[0].items()}
    assert set(status["locks"][0]) == said["locks"]
    assert set(status["questions"][0]) == said["questions"]
    kind = next(iter(status["kinds"].values()))
    assert {*kind, "class", "seconds"} <= said["kinds"]


def test_what_a_task_holds(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = {task["id"]: task for task in printed(capsys, "status", str(story.track))["tasks"]}
    said = {key: set(re.findall(r"`(\w+)`", text)) for key, text in tables("### task\n")[0].items()}
    assert set(STATUS_GLYPH) <= said["status"]
    assert set(tasks["1"]["exit"]) == said["exit"]
    kinds = {"conflict", "resource", "group", "backoff", "provider", *PEOPLE, "lock", "task", "answer", "pool"}
    assert {*tasks["1"]["waits_for"][0], *kinds} == said["waits_for"]
    assert {*tasks["3"]["life"], "starting", "working", "quiet", "stuck", "finished", "unkillable"} == said["life"]
    story.end("3")
    story.end("1", 3)
    tasks = {task["id"]: task for task in printed(capsys, "status", str(story.track))["tasks"]}
    assert set(tasks["1"]["error"]) == said["error"]
    assert set(tasks["1"]["evidence"]) == said["evidence"]


def test_plan(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    plan = printed(capsys, "plan", str(story.track))
    assert sorted(plan) == keys("## plan\n")
    assert sorted(plan["tasks"][0]) == keys("### task in plan\n")
    said = {key: set(re.findall(r"`(\w+)`", text)) for key, text in tables("## plan\n")[0].items()}
    assert set(plan["durations"]) == said["durations"]
    assert set(plan["conflicts"][0]) == said["conflicts"]
    assert set(plan["warnings"][0]) == said["warnings"]


def test_doctor(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "doctor", str(story.track))
    assert sorted(found) == keys("## doctor\n")
    assert all(sorted(one) == keys("### finding\n") for one in found["findings"])


def test_other_verbs(story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    track = str(story.track)
    why, logs, stop, reset, others = tables("## Other verbs\n")
    answer = printed(capsys, "why", track, "1")
    assert sorted(answer) == sorted(why)
    assert set(answer["records"][0]) == set(re.findall(r"`(\w+)`", why["records"]))
    elsewhere = ("--bus-dir", str(tmp_path / "none"))
    assert sorted(printed(capsys, "why", track, "1", *elsewhere)) == sorted(why)
    answer = printed(capsys, "logs", track, "1")
    assert sorted(answer) == sorted(logs)
    assert set(answer["stdout"]) == set(re.findall(r"`(\w+)`", logs["stdout"]))
    assert sorted(printed(capsys, "stop", track, *elsewhere)) == sorted(stop)
    assert sorted(printed(capsys, "reset", track, "--dry-run")) == sorted(reset)
    assert sorted(printed(capsys, "resume", track)) == sorted(others)
