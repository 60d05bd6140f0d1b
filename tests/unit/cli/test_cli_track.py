"""The argument TRACK: which folders it stands for, what is refused, and the command lines that hints show."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from conductor.cli.main import run_command_line
from conductor.cli.track import Track, resolve, spoken

PLAN = '```yaml\ndag:\n  nodes:\n    - {id: "-x", name: dash, run: [sh, -c, "exit 3"]}\n```\n'


def write(folder: Path, plan: str = PLAN) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.md").write_text(plan)
    return folder


@pytest.mark.parametrize(
    ("label", "bus_dir", "arguments", "options", "line"),
    [
        ("t", None, ["1.1"], [], "conductor why t 1.1"),
        ("my track", "b", [], ["--watch"], "conductor why 'my track' --watch --bus-dir b"),
        ("t", "b", ["-x"], [], "conductor why t --bus-dir b -- -x"),
        ("-t", None, ["1"], ["--watch"], "conductor why --watch -- -t 1"),
    ],
)
def test_hints_put_two_dashes_before_what_looks_like_an_option(
    label: str, bus_dir: str | None, arguments: list[str], options: list[str], line: str
) -> None:
    track = Track(label, Path("/t"), Path("/t/b"), bus_dir)
    assert track.command("why", *arguments, options=options) == line


def test_every_verb_takes_the_lines_of_its_hints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "-t")
    monkeypatch.chdir(tmp_path)
    track = resolve("-t", "bus")
    assert run_command_line(shlex.split(track.command("run", options=["--retries", "0"]))[1:]) == 1
    shown = capsys.readouterr().out
    assert "Why:      conductor why --bus-dir bus -- -t -x\n" in shown
    for verb in ("why", "logs"):
        assert run_command_line(shlex.split(track.command(verb, "-x"))[1:]) == 0
    for verb in ("status", "events", "stop"):
        assert run_command_line(shlex.split(track.command(verb))[1:]) == 0
    without = resolve("-t")
    for verb in ("plan", "init"):
        assert run_command_line(shlex.split(without.command(verb))[1:]) == 0


def test_what_is_taken_for_an_option_has_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["why", str(tmp_path), "-x"]) == 2
    assert "stands behind `--`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["run", ""], ["status", ""], ["init", ""], ["run", "t", "--bus-dir", ""], ["run", "t", "--project", ""]],
)
def test_an_empty_path_is_not_the_folder_that_we_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    write(tmp_path)
    write(tmp_path / "t")
    monkeypatch.chdir(tmp_path)
    assert run_command_line(arguments) == 2
    assert "is empty" in capsys.readouterr().err
    assert not (tmp_path / ".message-bus").exists()


def odd(folder: Path) -> Path:
    """Make a folder whose name is not UTF-8."""
    found = Path(os.fsdecode(os.fsencode(folder) + b"/\xff"))
    try:
        found.mkdir(parents=True)
    except OSError:
        pytest.skip("this file system has no such names")
    return found


@pytest.mark.parametrize("verb", ["run", "plan", "status"])
def test_a_path_that_is_not_utf8_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    track = write(odd(tmp_path) / "t")
    assert run_command_line([verb, str(track), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["message"]) == ("usage", "this argument is not valid UTF-8")
    assert "rename" in error["hint"]
    assert [entry.name for entry in track.iterdir()] == ["plan.md"]


def test_a_cwd_and_a_project_that_are_not_utf8_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = odd(tmp_path)
    track = write(tmp_path / "t")
    (track / "link").symlink_to(folder)
    for arguments in (["--project", str(track / "link")], ["--command", "echo \udcff"], ["--project", str(folder)]):
        assert run_command_line(["run", str(track), *arguments]) == 2
        assert "is not valid UTF-8" in capsys.readouterr().err
    assert not (track / ".message-bus").exists()
    monkeypatch.chdir(write(folder))
    assert run_command_line(["run", "."]) == 2
    assert "TRACK is not valid UTF-8" in capsys.readouterr().err
    assert run_command_line(["init", "new"]) == 2
    assert [entry.name for entry in folder.iterdir()] == ["plan.md"]


def test_a_removed_cwd_is_no_cwd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    track = write(tmp_path / "t", PLAN.replace("exit 3", "true"))
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run_command_line(["run", str(track)]) == 0
    assert "The task is done" in capsys.readouterr().out
    assert run_command_line(["status", "t"]) == 2
    assert "was removed" in capsys.readouterr().err


def test_a_second_run_says_only_what_still_matters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = PLAN.replace("exit 3", "true").replace("name: dash", "name: dash, depend_on: []")
    track = write(tmp_path / "t", good)
    assert run_command_line(["run", str(track), "--retries", "0"]) == 0
    assert "depend_on" in capsys.readouterr().out
    write(track, good.replace("name: dash", "name: other, max_turns: 3"))
    assert run_command_line(["run", str(track)]) == 0
    text = capsys.readouterr().out
    assert "note: done tasks are not run again, although they changed: -x\n" in text
    assert "✓ Nothing to do: task -x is done since " in text
    assert "depend_on" not in text
    assert " in 0" not in text
    assert f"conductor reset {track} && conductor run {track}" in text


def test_the_agent_is_no_choice_of_this_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", "--help"]) == 0
    assert "--agent" not in capsys.readouterr().out
    track = write(tmp_path / "t", PLAN.replace(', run: [sh, -c, "exit 3"]', ""))
    assert run_command_line(["run", str(track), "--agent", "claude", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "agent_missing"


@pytest.mark.parametrize(
    ("label", "bus_dir", "expected"),
    [
        ("my track", None, "keep a copy, then: conductor doctor 'my track' --repair"),
        ("-t", "b", "keep a copy, then: conductor doctor --repair --bus-dir b -- -t"),
    ],
)
def test_a_hint_that_knows_no_track_is_given_the_one_that_was_typed(
    label: str, bus_dir: str | None, expected: str
) -> None:
    assert spoken("keep a copy, then: conductor doctor TRACK --repair", label, bus_dir) == expected
    assert spoken("`conductor status` lists them", label, bus_dir) == "`conductor status` lists them"


@pytest.mark.parametrize("project", ["/p", "/my p", "/it's `here`"])
def test_a_hint_may_name_a_project_behind_the_track(project: str) -> None:
    """A copied track goes on in the project of the original: the command can be typed as it is said."""
    hint = f"go on there: `conductor run TRACK --project {shlex.quote(project)}`; or begin anew"
    whole = f"go on there: `conductor run t --project {shlex.quote(project)} --bus-dir b`; or begin anew"
    assert spoken(hint, "t", "b") == whole


def test_errors_of_the_bus_name_the_track_in_their_hints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    track = write(tmp_path / "t")
    assert run_command_line(["run", str(track), "--retries", "0"]) == 1
    journal = track / ".message-bus" / "queue.jsonl"
    first, second, *rest = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([first, second.replace(b'"seq":2', b'"seq":7'), *rest]))
    for verb in ("run", "status"):
        capsys.readouterr()
        assert run_command_line([verb, str(track), "--json"]) == 5
        error = json.loads(capsys.readouterr().out)["error"]
        assert error["code"] == "bus_corrupt"
        assert f"conductor doctor {track} --repair" in error["hint"]
    assert run_command_line(["doctor", str(track)]) == 5
    assert f"conductor doctor {track} --repair" in capsys.readouterr().out
