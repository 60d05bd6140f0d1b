"""A session takes the track, or says why it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus import recovery
from bus.reader import open_reader
from conductor.cli.main import run_command_line

PLAN = '```yaml\ndag:\n  project: .\n  nodes:\n    - {id: "1", name: one, run: ["true"]}\n```\n'


def test_requirement_13_a_mount_without_locks_is_refused_unless_the_user_takes_the_risk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.md").write_text(PLAN)
    monkeypatch.setattr("bus.lock._works", lambda folders: False)
    assert run_command_line(["run", str(tmp_path), "--json"]) == 5
    error = json.loads(capsys.readouterr().out.splitlines()[-1])["error"]
    assert error["code"] == "bus_unsafe"
    assert "--unsafe-fs" in error["hint"]
    assert run_command_line(["run", str(tmp_path), "--unsafe-fs", "--quiet"]) == 0


def test_what_a_start_sets_aside_is_journaled(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(PLAN)
    assert run_command_line(["run", str(tmp_path), "--quiet"]) == 0
    journal = tmp_path / ".message-bus" / "queue.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"seq":99,"torn')
    (tmp_path / "plan.md").write_text(PLAN.removesuffix("```\n") + '    - {id: "2", name: two, run: ["true"]}\n```\n')
    assert run_command_line(["run", str(tmp_path), "--quiet"]) == 0
    [found] = [record for record in open_reader(journal.parent).records() if record.type == "QUARANTINED"]
    assert found.payload["name"].endswith("queue.jsonl")


def test_a_start_that_finds_nothing_to_do_keeps_the_snapshot_that_it_made_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each one would read the same tail, and behind a reboot all of `events/`."""
    (tmp_path / "plan.md").write_text(PLAN)
    assert run_command_line(["run", str(tmp_path), "--quiet"]) == 0
    snapshots = tmp_path / ".message-bus" / "snapshots"
    assert list(snapshots.iterdir()) == []
    monkeypatch.setattr(recovery, "TAIL", 10)
    for _ in range(2):
        assert run_command_line(["run", str(tmp_path), "--quiet"]) == 0
        assert len(list(snapshots.iterdir())) == 1
