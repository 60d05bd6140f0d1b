from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.host import FileHost, open_host
from bus.wire import Stamp, TaskId
from conductor.cli import events
from conductor.cli.main import run_command_line


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FileHost]:
    host = open_host(tmp_path / ".message-bus", durability="process")
    t = Stamp(0.0, 0.0, "boot")
    host.stage("WORKER_DISPATCHED", {"number": 1, "nonce": "0" * 8}, t, task=TaskId("1"))
    host.stage("WORKER_DISPATCHED", {"number": 1, "nonce": "1" * 8}, t, task=TaskId("2"))
    host.stage("TASK_COMPLETE", {"task_id": "1", "unblocks": ["3"]}, t, task=TaskId("1"))
    host.stage("NOTE", {"text": "\x9b2J\u202e"}, t)
    host.commit()
    yield host
    host.close()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_one_line_a_record(host: FileHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["events", str(tmp_path)]) == 0
    shown = [line.split(maxsplit=3) for line in lines(capsys)]
    assert [(seq, kind, rest) for seq, _, kind, rest in shown] == [
        ("1", "WORKER_DISPATCHED", "1         attempt 1 started"),
        ("2", "WORKER_DISPATCHED", "2         attempt 1 started"),
        ("3", "TASK_COMPLETE", "1         done, unblocks 3"),
        ("4", "NOTE", "-         \\x9b2J\\u202e"),
    ]


@pytest.mark.parametrize(
    ("arguments", "seqs"),
    [
        (["--type", "TASK_COMPLETE"], [3]),
        (["--type", "TASK_COMPLETE", "--type", "NOTE"], [3, 4]),
        (["--task", "1"], [1, 3]),
        (["--task", "1", "--type", "NOTE"], []),
        (["--since", "2"], [3, 4]),
    ],
)
def test_what_is_asked_for(
    host: FileHost, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], seqs: list[int]
) -> None:
    assert run_command_line(["events", str(tmp_path), "--json", *arguments]) == 0
    assert [json.loads(line)["seq"] for line in lines(capsys)] == seqs


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--type", "NONSENSE"], "types: NOTE, TASK_COMPLETE, WORKER_DISPATCHED"),
        (["--task", "z\x9b"], "tasks: 1, 2"),
        (["--task", "1", "--type", "NOTE"], "types: NOTE, TASK_COMPLETE, WORKER_DISPATCHED; tasks: 1, 2"),
        (["--type", "NOTE", "--since", "4"], "types: none"),
    ],
)
def test_where_nothing_matches_is_said_what_there_is(
    host: FileHost, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run_command_line(["events", str(tmp_path), *arguments]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"nothing matches. There are these {said}\n")
    assert run_command_line(["events", str(tmp_path), "--type", "NOTE"]) == 0
    assert not capsys.readouterr().err


def test_json_is_the_journal(host: FileHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["events", str(tmp_path), "--json"]) == 0
    journal = (tmp_path / ".message-bus" / "queue.jsonl").read_text().splitlines()
    shown = lines(capsys)
    assert shown[:3] == journal[:3]
    assert json.loads(shown[3]) == json.loads(journal[3])


def test_following_shows_what_comes(
    host: FileHost, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(seconds: float) -> None:
        if host.stage("NOTE", {}, Stamp(0.0, 0.0, "boot")).seq > 6:
            raise KeyboardInterrupt
        host.commit()

    monkeypatch.setattr(events, "pause", pause)
    assert run_command_line(["events", str(tmp_path), "-f", "--json", "--since", "3"]) == 130
    assert [json.loads(line)["seq"] for line in lines(capsys)] == [4, 5, 6]


def test_a_track_never_run_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["events", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"there are no events: there is no bus at {tmp_path}/.message-bus ")
    assert captured.err.endswith(f". Start it: conductor run {tmp_path}\n")
