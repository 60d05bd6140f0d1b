from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus import layout
from bus.host import FileHost, open_host
from bus.wire import AttemptId, Message, Stamp, TaskId
from conductor.cli.main import run_command_line

ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileHost]:
    """A bus with one attempt; the environment is that of its worker."""
    bus = tmp_path / "bus"
    host = open_host(bus, durability="process")
    os.close(host.create_attempt(ATTEMPT))
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(bus))
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", ATTEMPT)
    yield host
    host.close()


def handed_in(host: FileHost) -> list[Message]:
    scan = host.scan()
    assert not scan.quarantined
    return [incoming.message for incoming in scan.messages]


@pytest.mark.parametrize(
    ("arguments", "type", "payload"),
    [
        (["progress", "40"], "PROGRESS", {"pct": 40.0, "text": ""}),
        (["progress", "99.5", "almost"], "PROGRESS", {"pct": 99.5, "text": "almost"}),
        (["complete"], "REPORT", {"verb": "complete", "commit": None, "files": []}),
        (
            ["complete", "--commit", "abc", "--file", "a", "b", "--file", "c"],
            "REPORT",
            {"verb": "complete", "commit": "abc", "files": ["a", "c", "b"]},
        ),
        (["fail", "it broke\nbadly"], "REPORT", {"verb": "fail", "message": "it broke\nbadly"}),
        (["post", "MY_TYPE", '{"a": [1, "ü"]}'], "MY_TYPE", {"a": [1, "ü"]}),
        (["post", "USAGE", '{"cost_usd": 0.5}'], "USAGE", {"cost_usd": 0.5}),
        (["post", "NOTE", '{"text": "hello"}'], "NOTE", {"text": "hello"}),
    ],
)
def test_each_verb_hands_in_its_message(
    host: FileHost, arguments: list[str], type: str, payload: dict[str, Any]
) -> None:
    assert run_command_line(["bus", *arguments]) == 0
    (message,) = handed_in(host)
    assert (message.type, message.attempt, message.payload) == (type, ATTEMPT, payload)


def test_progress_is_left_as_the_status_of_the_worker(host: FileHost, tmp_path: Path) -> None:
    for text in ("begun", "x" * 100_000):
        assert run_command_line(["bus", "progress", "40", text]) == 0
    last = max(handed_in(host), key=lambda message: len(message.payload["text"]))
    assert host.read_worker_status(ATTEMPT) == {
        "progress_pct": 40.0,
        "text": "x" * 1000,
        "timestamp": last.timestamp,
    }
    assert list((tmp_path / "bus" / layout.TMP).iterdir()) == []


def test_the_last_report_is_left_for_the_worker(host: FileHost, tmp_path: Path) -> None:
    assert run_command_line(["bus", "fail", "first"]) == 0
    assert run_command_line(["bus", "complete", "--commit", "abc"]) == 0
    kept = tmp_path / "bus" / layout.attempt_dir(ATTEMPT) / "report.json"
    assert json.loads(kept.read_text()) == {"verb": "complete", "commit": "abc", "files": []}
    assert list((tmp_path / "bus" / layout.TMP).iterdir()) == []


def test_a_stopped_attempt_is_told(host: FileHost, capsys: pytest.CaptureFixture[str]) -> None:
    host.revoke(ATTEMPT, "timeout")
    assert run_command_line(["bus", "progress", "10"]) == 76
    assert capsys.readouterr().err == "this attempt is being stopped: timeout\n"
    assert run_command_line(["bus", "complete"]) == 76
    assert {message.type for message in handed_in(host)} == {"PROGRESS", "REPORT"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["progress", "101"],
        ["progress", "nan"],
        ["progress", "half"],
        ["complete", "x"],
        ["fail"],
        ["post", "RESULT", "{}"],
        ["post", "TASK_COMPLETE", "{}"],
        ["post", "lower", "{}"],
        ["post", "A B", "{}"],
        ["post", "X", "[1]"],
        ["post", "X", "{"],
        ["post", "X", '{"a": NaN}'],
        ["post", "X", '{"a": 1, "a": 2}'],
        ["post", "X", '{"a": ' + "[" * 40 + "]" * 40 + "}"],
        ["post", "X", '{"a": ' + "[" * 100_000],
        ["post", "X", '{"a": "\\ud800"}'],
        ["post", "X", json.dumps({"a": "x" * (1 << 20)})],
        [],
        ["prog"],
    ],
)
def test_req26_bad_input_is_usage_and_hands_in_nothing(
    host: FileHost, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run_command_line(["bus", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert "internal" not in captured.err
    assert handed_in(host) == []


@pytest.mark.parametrize("name", ["CONDUCTOR_BUS_DIR", "CONDUCTOR_ATTEMPT"])
def test_outside_a_worker_is_usage(
    host: FileHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.delenv(name)
    assert run_command_line(["bus", "progress", "1"]) == 2
    assert "not inside a worker" in capsys.readouterr().err


def test_a_strange_attempt_is_usage(host: FileHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", "../../x")
    assert run_command_line(["bus", "progress", "1"]) == 2


def test_a_bus_that_is_gone_is_5(host: FileHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(tmp_path / "none"))
    assert run_command_line(["bus", "progress", "1"]) == 5
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(tmp_path / "bus"))
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", AttemptId("9~1-00000000"))
    assert run_command_line(["bus", "complete"]) == 5


def test_read_shows_the_journal(host: FileHost, capsys: pytest.CaptureFixture[str]) -> None:
    t = Stamp(0.0, 0.0, "boot")
    host.stage("NOTE", {"text": "one"}, t)
    host.stage("STOP", {"reason": "timeout"}, t, task=TaskId("1.1"), attempt=ATTEMPT)
    host.stage("NOTE", {"text": "two"}, t)
    host.commit()
    assert run_command_line(["bus", "read", "--type", "NOTE", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["payload"]["text"] for record in records] == ["one", "two"]
    first = records[0]["seq"]
    assert run_command_line(["bus", "read", "--since", str(first)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].split()[2:] == ["STOP", "1.1", "being", "stopped:", "timeout"]
