"""Output and words of any length: what is shown of them has a measure, and costs no more than that."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bus.wire import Stamp, TaskId
from conductor.cli import log_json, logs
from conductor.cli.main import run_command_line
from conductor.cli.rows import rows_of
from conductor.cli.screen_plain import PlainScreen
from conductor.cli.track import resolve
from tests.unit.cli.conftest import Story
from tests.unit.cli.test_cli_looking import NODES, call, worked_off


def test_a_log_of_any_size_costs_no_more_than_what_is_shown_of_it(
    story: Story, track: Path, capfdbinary: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command can make it a sparse file of a terabyte: it would fill the memory, and never end."""
    monkeypatch.setattr(log_json, "MOST", 30)
    monkeypatch.setattr(logs, "MOST", 30)
    worked_off(story)
    attempt = story.attempt("5")
    story.write_log("5", "log", b"0123456789")
    log = track / ".message-bus" / "attempts" / attempt[-8] / attempt / "log"
    os.truncate(log, 1 << 40)
    assert run_command_line(["logs", str(track), "5", "--json"]) == 0
    found = json.loads(capfdbinary.readouterr().out)["stdout"]
    assert found == {"head": "0123456789", "tail": "\0" * 20, "not_kept": 0, "left_out": (1 << 40) - 30}
    assert run_command_line(["logs", str(track), "5"]) == 0
    out, err = capfdbinary.readouterr()
    assert out == b"0123456789" + bytes(20)
    assert err.decode() == f"[… {(1 << 40) - 30} bytes are left out here, and are in {log.parent}/ …]\n"


def test_logs_json_is_sound_wherever_a_character_is_cut(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_off(story)
    text = 'é\u202e"\\\0€😀' * 50
    monkeypatch.setattr(
        "bus.reader.Pieces.read", lambda _, name, start, end: (bytes([byte]) for byte in text.encode()[start:end])
    )
    story.write_log("5", "log", text.encode())
    assert json.loads(call(capsys, "logs", str(track), "5", "--json"))["stdout"]["head"] == text


def test_the_newest_log_is_found_without_the_whole_journal(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_off(story)
    monkeypatch.setattr("bus.reader.FileReader.records", lambda *_: pytest.fail("the whole journal was read"))
    assert run_command_line(["logs", str(track), "1"]) == 0
    assert capsys.readouterr().out == "line 1\n"


def test_logs_are_found_behind_a_reset(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked_off(story)
    story.die()
    assert run_command_line(["reset", str(track)]) == 0
    capsys.readouterr()
    assert run_command_line(["logs", str(track), "1"]) == 0
    assert capsys.readouterr().out == "line 1\n"


LOUD = "x" * 900_000
"""As much as a message may hold."""


@pytest.fixture
def loud(story: Story) -> Story:
    """Everything that others choose the words of is as long as it may be."""
    story.start(f'  nodes: [{{id: "1", name: "{LOUD}"}}, {{id: "2", name: two, depends_on: ["1"]}}]')
    story.progress("1", 40, LOUD)
    now = Stamp(0.0, 0.0, "boot")
    story.host.stage("NOTE", {"text": LOUD}, now, task=TaskId("1"), attempt=story.attempt("1"))
    story.host.stage("SOMETHING", {"said": LOUD}, now, task=TaskId("1"), attempt=story.attempt("1"))
    story.host.stage("CONTROL", {"verb": "steer", "target": "1", "text": LOUD, "who": "me"}, now, task=TaskId("1"))
    story.host.commit()
    bus = story.track / ".message-bus"
    (bus / "quarantine" / "00000001-thing").touch()
    (bus / "quarantine" / "00000001-thing.why").write_text(json.dumps({"reason": LOUD}))
    holder = json.loads((bus / "conductor.json").read_text())
    (bus / "conductor.json").write_text(json.dumps({**holder, "host": LOUD[:1000], "paused": LOUD}))
    return story


@pytest.mark.parametrize("verb", [["status"], ["why", "1"], ["why", "2"], ["events"], ["doctor"], ["plan"], ["reset"]])
def test_no_words_of_others_are_longer_than_people_read(
    loud: Story, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    run_command_line([verb[0], str(loud.track), *verb[1:]])
    captured = capsys.readouterr()
    assert max(map(len, (captured.out + captured.err).splitlines())) < 3000


def test_a_run_says_no_more_of_what_others_say_than_people_read(
    loud: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = PlainScreen(sys.stdout, resolve(str(track)), loud.host, quiet=False)
    screen.note(LOUD)
    screen.update(loud.view, [*loud.records, *loud.host.records()], 0.0)
    assert max(map(len, capsys.readouterr().out.splitlines())) < 3000
    rows = rows_of(loud.view(), 0.0)
    assert max(len(row.name) + len(row.note) for row in rows) < 3000


def test_scripts_are_given_all_that_was_said(loud: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["status"], ["why", "1"], ["events"]):
        assert LOUD in call(capsys, verb[0], str(track), *verb[1:], "--json")


def test_why_shows_the_newest_of_many_records_and_where_all_are(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES)
    for number in range(100):
        story.progress("1", number, f"step {number}")
    text = call(capsys, "why", str(track), "1")
    records = len(story.records) - 2  # the start of the run, and that of task 5
    assert f"  … {records - 40} records before these: `conductor events {track} --task 1`\n" in text
    assert text.count("PROGRESS") == 40
    assert "step 99" in text
    assert len(json.loads(call(capsys, "why", str(track), "1", "--json"))["records"]) == records
