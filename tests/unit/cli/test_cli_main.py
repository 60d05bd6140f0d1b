from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from bus.errors import BusCorrupt
from conductor.cli import main
from conductor.cli.exit_codes import Exit, exit_of
from conductor.cli.main import VERBS, run_command_line, wants_json
from conductor.errors import ConductorError, PlanError

ROOT = Path(__file__).parents[3]


def use(monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None, result: Any = None) -> None:
    """Put a verb `try` into the table that raises `error` or returns `result`."""

    @click.command()
    @click.option("--json", is_flag=True)
    def attempt(json: bool) -> Any:
        if error is not None:
            raise error
        return result

    monkeypatch.setattr(main, "attempt", attempt, raising=False)
    monkeypatch.setitem(VERBS, "try", main.Verb("conductor.cli.main:attempt", "Look", "Try."))


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("usage", 2),
        ("unknown_task", 2),
        ("from_worker", 2),
        ("no_worker", 3),
        ("agent_missing", 3),
        ("plan_cycle", 3),
        ("plan_bytes_exceeded", 3),
        ("fan_out_exceeded", 3),
        ("concurrent_effect_denied", 3),
        ("no_base_commit", 3),
        ("held_by_other", 4),
        ("project_held", 4),
        ("bus_gone", 5),
        ("bus_corrupt", 5),
        ("run_timeout", 6),
        ("budget_exceeded", 6),
        ("restart_intensity", 6),
        ("internal", 70),
        ("io", 74),
        ("something_new", 1),
    ],
)
def test_exit_codes_are_the_documented_ones(code: str, number: int) -> None:
    assert exit_of(code) == number


def test_help_groups_the_verbs_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["--help"]) == 0
    text = capsys.readouterr().out
    for part in ("Work:", "Look:", "Steer:", "For workers:", "Examples:", "conductor init my-track"):
        assert part in text
    assert all(f"  {verb} " in text for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_each_verb_has_an_example(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert run_command_line([verb, "-h"]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"Examples?:\n +conductor {verb} ", text)
    assert max(map(len, text.splitlines())) <= 80


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([]) == 0
    assert "Usage: conductor" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["--version"]) == 0
    assert capsys.readouterr().out.startswith("conductor ")


def test_a_misspelt_verb_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["statsu"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: there is no verb 'statsu'. Did you mean 'status'?\nhint: `conductor --help`\n"


def test_usage_errors_are_json_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["statsu", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "usage"
    assert set(error) == {"code", "message", "path", "line", "hint"}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["plan", "t", "--format", "json"], True),
        (["plan", "t", "--format=json"], True),
        (["plan", "json", "--format", "table"], False),
        (["status", "t", "--json"], True),
        (["status", "--", "--json"], False),
        ([], False),
    ],
)
def test_errors_are_json_where_the_answer_would_be(words: list[str], answer: bool) -> None:
    assert wants_json(words) is answer


def test_json_behind_two_dashes_is_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["statsu", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_an_error_has_place_message_and_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, PlanError("plan_cycle", "1 → 2 → 1", path="plan.md", line=41, hint="cut\none of them"))
    assert run_command_line(["try"]) == 3
    assert capsys.readouterr().err == "error: plan.md:41: 1 → 2 → 1\nhint: cut\none of them\n"
    assert run_command_line(["try", "--json"]) == 3
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out.splitlines()[-1]) == {
        "error": {
            "code": "plan_cycle",
            "message": "1 → 2 → 1",
            "path": "plan.md",
            "line": 41,
            "hint": "cut\none of them",
        }
    }


def test_an_error_in_a_plan_names_the_file_as_seen_from_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    track = tmp_path / "examples" / "x"
    track.mkdir(parents=True)
    (track / "plan.md").write_text("```yaml\ndag:\n  nodes: [{id: a, depends_on: [b]}]\n```\n")
    monkeypatch.chdir(tmp_path)
    for verb in ("plan", "run"):
        assert run_command_line([verb, "examples/x"]) == 3
        assert capsys.readouterr().err.startswith("error: examples/x/plan.md:3: ")
    assert run_command_line(["plan", "examples/x", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["path"] == "plan.md"
    assert run_command_line(["plan", "nowhere"]) == 3
    assert capsys.readouterr().err.startswith("error: nowhere: no such folder")


def test_req31_foreign_text_in_errors_is_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, ConductorError("usage", "task \x1b[2J\u202e", path="a\nb", hint="\x9b"))
    assert run_command_line(["try"]) == 2
    assert capsys.readouterr().err == "error: a\\nb: task \\e[2J\\u202e\nhint: \\x9b\n"
    assert run_command_line(["try", "--json"]) == 2
    assert "\x9b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (BusCorrupt("line 7 is damaged", path="queue.jsonl", line=7), 5, "error: queue.jsonl:7: line 7 is damaged\n"),
        (PermissionError(13, "Permission denied", "plan.md"), 74, "error: plan.md: Permission denied\n"),
        (click.UsageError("no"), 2, "error: no\nhint: `conductor try --help`\n"),
        (click.FileError("x", "gone"), 2, "error: Could not open file 'x': gone\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_every_error_becomes_a_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, text: str
) -> None:
    use(monkeypatch, error)
    assert run_command_line(["try"]) == code
    assert capsys.readouterr().err == text


def test_an_unexpected_exception_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CONDUCTOR_DEBUG", raising=False)
    use(monkeypatch, RecursionError("too deep"))
    assert run_command_line(["try"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("error: conductor itself failed: RecursionError: too deep\nhint: please report this")
    assert "Traceback" not in err
    monkeypatch.setenv("CONDUCTOR_DEBUG", "1")
    assert run_command_line(["try"]) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("result", "code"), [(None, 0), (0, 0), (6, 6), (Exit.PROVIDER, 75)])
def test_a_verb_returns_the_exit_code(monkeypatch: pytest.MonkeyPatch, result: int | None, code: int) -> None:
    use(monkeypatch, result=result)
    assert run_command_line(["try"]) == code


def program(*arguments: str, redirect: str = "") -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-E", "-P", "-c", "import conductor_bus_start as s; s.main()", *arguments]
    quoted = ["sh", "-c", f'"$@" {redirect}', "sh", *start]
    return subprocess.run(quoted, text=True, capture_output=True, check=False, timeout=30)


@pytest.mark.parametrize("redirect", ["| true", ">&-", "2>&- >&-"])
def test_a_closed_output_is_no_trouble(redirect: str) -> None:
    done = program("--help", redirect=redirect)
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_stdout_is_said() -> None:
    done = program("--help", redirect="> /dev/full")
    assert done.returncode == 74
    assert done.stderr.splitlines() == [
        "error: No space left on device",
        "hint: free some space on that disk, then try again; nothing that was recorded is lost",
    ]


HEAVY = {"pydantic", "watchdog", "filelock", "psutil", "asyncio", "rich.live", "yaml"}


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["status", "TRACK"], {"yaml"}),  # it looks whether there is a plan
        (["why", "TRACK", "1"], {"yaml"}),  # these, whether the task is in it
        (["logs", "TRACK", "1"], {"yaml"}),
        (["events", "TRACK"], set()),
        (["stop", "TRACK"], set()),
        (["plan", "TRACK"], {"yaml"}),
        (["bus", "progress", "1"], set()),
    ],
)
def test_verbs_import_only_what_they_use(tmp_path: Path, arguments: list[str], allowed: set[str]) -> None:
    words = [str(tmp_path) if word == "TRACK" else word for word in arguments]
    code = (
        "import sys; from conductor.cli.main import run_command_line;"
        f"run_command_line({words!r}); print(*sys.modules, sep=chr(10), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=True, timeout=30, cwd=ROOT
    )
    assert HEAVY & set(done.stderr.splitlines()) <= allowed
