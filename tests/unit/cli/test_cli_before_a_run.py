"""What `plan` and `run --dry-run` say of a run that would be refused, or that lacks a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conductor.cli.main import run_command_line

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def track(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A track whose user has no configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "track"
    folder.mkdir()
    return folder


def write(track: Path, nodes: str, rest: str = "project: .") -> None:
    (track / "plan.md").write_text(f"# P\n\n```yaml\ndag:\n  {rest}\n  nodes:\n{nodes}```\n")


def test_plan_says_which_tasks_have_no_command_and_how_to_give_one(track: Path, capsys: Captured) -> None:
    write(track, "    - {id: a, run: make}\n    - {id: b}\n    - {id: c}\n")
    assert run_command_line(["plan", str(track)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "warning: plan.md:8: 2 tasks have no command (b, c), and `run` would refuse the plan; "
        "give each a `run:`, or all the same one with --command 'my-worker {prompt_file}' [no_worker]"
    ) in lines
    assert lines[-1] == f"Run it: conductor run {track} --command 'my-worker {{prompt_file}}'"
    assert run_command_line(["run", str(track), "--dry-run"]) == 3
    assert run_command_line(["run", str(track), "--dry-run", "--command", "my-worker {prompt_file}"]) == 0


def test_plan_is_content_with_a_command_of_the_configuration(track: Path, capsys: Captured) -> None:
    write(track, "    - {id: a}\n")
    (track / "conductor.toml").write_text('command = "make {task_id}"\n')
    assert run_command_line(["plan", str(track), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []


def test_plan_says_that_agents_are_not_started(track: Path, capsys: Captured) -> None:
    write(track, "    - {id: a, agent: claude}\n")
    assert run_command_line(["plan", str(track), "--json"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert (warning["code"], warning["line"]) == ("agent_missing", 7)
    assert run_command_line(["run", str(track), "--dry-run", "--command", "make"]) == 3


@pytest.mark.parametrize("verb", [["plan"], ["run", "--dry-run"]])
def test_a_project_that_is_no_directory_is_an_error_of_the_plan(track: Path, capsys: Captured, verb: list[str]) -> None:
    write(track, "    - {id: a, run: make}\n", "project: nowhere")
    assert run_command_line([*verb, str(track)]) == 3
    text = capsys.readouterr().err
    assert text.startswith(f"error: {track}/plan.md:5: project: there is no directory {track}/nowhere\n")


def test_a_project_of_the_command_line_that_is_no_directory_is_a_slip_there(track: Path, capsys: Captured) -> None:
    write(track, "    - {id: a, run: make}\n")
    assert run_command_line(["run", str(track), "--dry-run", "--project", f"{track}/nowhere"]) == 2
    assert capsys.readouterr().err.count("nowhere") == 1


def test_a_dry_run_notes_programs_that_are_not_there(track: Path, capsys: Captured) -> None:
    (track / "script").write_text("#!/bin/sh\n")
    nodes = [
        "run: [no-such-program-a, x], verify: [no-such-program-b]",
        "run: no-such-program-a",
        "run: ./script",
        "run: sh -c true",
        "run: conductor bus progress 1",
        "run: [tool], env: {PATH: " + str(track) + "}",
    ]
    write(track, "".join(f"    - {{id: t{n}, {node}}}\n" for n, node in enumerate(nodes)))
    (track / "tool").write_text("#!/bin/sh\n")
    (track / "tool").chmod(0o755)
    assert run_command_line(["run", str(track), "--dry-run", "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert [note.partition(";")[0] for note in notes] == [
        "the program no-such-program-a is not found (tasks t0, t1)",
        "the program no-such-program-b is not found (task t0)",
        "the program ./script is not found (task t2)",
    ]
    assert run_command_line(["run", str(track), "--dry-run"]) == 0
    assert "note: the program ./script is not found (task t2); it has to be there when" in capsys.readouterr().out
