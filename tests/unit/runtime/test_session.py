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


def track(folder: Path, *nodes: str, config: str = "") -> str:
    lines = "".join(f"    - {node}\n" for node in nodes)
    (folder / "plan.md").write_text(f"```yaml\ndag:\n  project: .\n  nodes:\n{lines}```\n")
    (folder / "conductor.toml").write_text(f'retry_delay = "0s"\n{config}')
    return str(folder)


def test_commands_of_the_configuration_hear_of_a_run(tmp_path: Path) -> None:
    config = """
        [hooks]
        task_started = ["sh", "-c", "cat >>told"]
        run_finished = "sh -c 'cat >>told'"
    """
    run = track(tmp_path, '{id: "1", name: one, run: ["true"]}', config=config)
    assert run_command_line(["run", run, "--quiet"]) == 0
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [(one["event"], one["task"]) for one in told] == [("task_started", "1"), ("run_finished", None)]
    assert told[0]["track"] == told[0]["project"] == str(tmp_path)


def test_a_command_that_nobody_can_be_told_of_is_an_error_of_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = track(tmp_path, '{id: "1", name: one, run: ["true"]}', config='[hooks]\ntask_done = "true"')
    assert run_command_line(["run", run]) == 2
    assert "task_done" in capsys.readouterr().err


def test_requirement_19_a_further_attempt_reads_in_its_prompt_how_the_one_before_ended(tmp_path: Path) -> None:
    script = "cp {prompt_file} prompt-{attempt_number}; echo no such module >&2; [ -e prompt-2 ]"
    run = track(tmp_path, '{id: "1", name: one}')
    assert run_command_line(["run", run, "--quiet", "--command", f"sh -c '{script}'"]) == 0
    first, second = ((tmp_path / f"prompt-{number}").read_text() for number in (1, 2))
    assert "The attempt before" not in first
    assert "Attempt 1 of this task ended without success (exit)" in second
    assert "no such module" in second


def test_a_claim_that_is_made_while_no_conductor_lives_ends_its_task_in_the_next_run(tmp_path: Path) -> None:
    run = track(
        tmp_path, '{id: "1", name: one, agent: manual}', '{id: "2", name: two, depends_on: ["1"], run: ["true"]}'
    )
    assert run_command_line(["run", run, "--quiet", "--no-wait"]) == 6
    (tmp_path / ".message-bus" / "events" / "TASK_COMPLETE_1.event").touch()
    assert run_command_line(["run", run, "--quiet"]) == 0
    orders = [r.payload for r in open_reader(tmp_path / ".message-bus").records() if r.type == "CONTROL"]
    assert [(order["verb"], order["who"], order["target"]) for order in orders] == [("complete", "claim", "1")]
