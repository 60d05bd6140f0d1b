from __future__ import annotations

from pathlib import Path

import pytest

from conductor.cli.main import run_command_line
from conductor.plan import load


def test_a_new_track_has_a_plan_that_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    track = tmp_path / "deep" / "new"
    assert run_command_line(["init", str(track)]) == 0
    assert load(track).tasks
    text = capsys.readouterr().out
    assert f"conductor plan {track}" in text
    assert f"conductor run {track}" in text


def test_what_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["init", str(tmp_path)]) == 0
    (tmp_path / "plan.md").write_text((tmp_path / "plan.md").read_text() + "\nmine\n")
    before = (tmp_path / "plan.md").read_bytes()
    assert run_command_line(["init", str(tmp_path)]) == 0
    assert (tmp_path / "plan.md").read_bytes() == before
    assert "nothing was changed" in capsys.readouterr().out


def test_a_plan_without_a_dag_gets_a_proposal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prose = "# Plan\n\n- [ ] Task 1.1: First\n- [ ] Task 1.2: Second\n"
    (tmp_path / "plan.md").write_text(prose)
    assert run_command_line(["init", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert (tmp_path / "plan.md").read_text() == prose
    (tmp_path / "plan.md").write_text(prose + "\n" + captured.out)
    assert [task.id for task in load(tmp_path).tasks] == ["1.1", "1.2"]
    assert f"conductor init {tmp_path} >> {tmp_path}/plan.md" in captured.err


def test_an_empty_plan_is_an_error_and_stays_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.md").touch()
    assert run_command_line(["init", str(tmp_path)]) == 3
    assert (tmp_path / "plan.md").read_bytes() == b""
    assert capsys.readouterr().err.startswith("error: ")


def test_a_file_in_the_way_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run_command_line(["init", str(tmp_path / "file")]) == 74
    assert capsys.readouterr().err.startswith("error: ")
