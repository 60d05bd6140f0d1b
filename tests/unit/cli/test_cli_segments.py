"""A journal in several parts is one journal for everybody who looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conductor.cli.main import run_command_line

if TYPE_CHECKING:
    from conftest import Story

PLAN = "  nodes:\n    - {id: a, name: one, run: [true]}\n    - {id: b, name: two, depends_on: [a], run: [true]}\n"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run_command_line(list(arguments)) == 0
    return capsys.readouterr().out


def test_events_logs_why_and_status_reach_over_segments(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(PLAN)
    journal = story.track / ".message-bus" / "queue.jsonl"
    for task in "ab":
        with journal.open("ab") as file:
            file.write(b"whoever writes here makes the journal be sealed\n")
        story.end(task, log=task.encode())
    segments = list((story.track / ".message-bus" / "segments").iterdir())
    assert len(segments) == 2
    track = str(story.track)
    records = [json.loads(line) for line in shown(capsys, "events", track, "--json").splitlines()]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert [record["task"] for record in records if record["type"] == "TASK_COMPLETE"] == ["a", "b"]
    since = [json.loads(line) for line in shown(capsys, "events", track, "--json", "--since", "3").splitlines()]
    assert since == records[3:]
    assert [shown(capsys, "logs", track, task) for task in "ab"] == ["a", "b"]
    assert "attempt 1 started" in shown(capsys, "why", track, "a")
    assert ": 2 done" in shown(capsys, "status", track)
    assert "2 sealed segments" in shown(capsys, "doctor", track, "--verify")
