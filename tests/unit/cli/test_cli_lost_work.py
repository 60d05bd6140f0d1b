"""A journal that lost records: the repair names the tasks that are done a second time, whatever part was lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conductor.cli.main import run_command_line

if TYPE_CHECKING:
    from conftest import Story

PLAN = """  nodes:
    - {id: a, name: one, run: [true]}
    - {id: b/c, name: two, run: [true], depends_on: [a]}
    - {id: d, name: three, run: [false]}
    - {id: e, name: four, run: [true], depends_on: [b/c]}
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run_command_line(list(arguments)) == code
    return capsys.readouterr().out


def repair(capsys: pytest.CaptureFixture[str], track: Path) -> dict[str, dict[str, Any]]:
    """What `doctor --repair --json` finds, by code."""
    data = json.loads(call(capsys, "doctor", str(track), "--repair", "--json"))
    return {found["code"]: found for found in data["findings"]}


@pytest.fixture
def over(story: Story) -> Path:
    """A track on which a and b/c are done, d failed, and e did not begin; nothing runs."""
    story.start(PLAN)
    for task, code in (("a", 0), ("d", 1), ("b/c", 0)):
        story.end(task, code)
    story.close()
    return story.track


def lose(bus: Path, how: str) -> None:
    journal = bus / "queue.jsonl"
    if how == "emptied":
        journal.write_bytes(b"")
    elif how == "missing":
        journal.unlink()
    else:
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join([lines[0][:20] + b"?" + lines[0][21:], *lines[1:]]))


@pytest.mark.parametrize("left", ["events", "attempts", "both"])
@pytest.mark.parametrize("how", ["emptied", "missing", "first record damaged"])
def test_a_repair_names_the_tasks_that_are_done_again(
    over: Path, capsys: pytest.CaptureFixture[str], how: str, left: str
) -> None:
    """Only what was done: what failed is tried again by any run."""
    bus = over / ".message-bus"
    if left == "events":
        shutil.rmtree(bus / "attempts")
    elif left == "attempts":
        shutil.rmtree(bus / "events")
    if (how, left) == ("emptied", "events"):
        pytest.skip("nothing tells then that the journal was not always empty")
    lose(bus, how)
    found = repair(capsys, over)["done_again"]
    assert found["level"] == "note"
    assert found["text"] == "2 tasks were done, and the journal does not tell of it any more: a run does them again"
    assert found["details"] == ["a", "b/c"]
    assert "tick" in found["hint"]
    assert "done_again" in repair(capsys, over), "as long as no run has begun, it can be asked again"
    page = call(capsys, "doctor", str(over), "--repair")
    assert "           a\n           b/c\n" in page


def test_work_of_the_round_that_goes_on_is_found_again_and_not_named(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(PLAN)
    story.end("a")
    story.close()
    journal = story.track / ".message-bus" / "queue.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], lines[1][:20] + b"?" + lines[1][21:], *lines[2:]]))
    found = repair(capsys, story.track)
    assert found["found_again"]["details"] == ["a"]
    assert "done_again" not in found
    assert "alive" not in json.dumps(found), "none lives"


def test_work_that_no_folder_tells_of_is_done_again_although_its_round_goes_on(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(PLAN)
    story.end("a")
    story.close()
    bus = story.track / ".message-bus"
    lose_second(bus)
    shutil.rmtree(bus / "attempts")
    assert repair(capsys, story.track)["done_again"]["details"] == ["a"]


def lose_second(bus: Path) -> None:
    lines = (bus / "queue.jsonl").read_bytes().splitlines(keepends=True)
    (bus / "queue.jsonl").write_bytes(b"".join([lines[0], lines[1][:20] + b"?" + lines[1][21:], *lines[2:]]))


def test_where_nothing_was_lost_nothing_is_named(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "done_again" not in repair(capsys, over)
    call(capsys, "reset", str(over))
    assert "done_again" not in repair(capsys, over)


def test_who_looks_is_told_that_the_journal_was_lost(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`never run` would be wrong: the bus was used."""
    lose(over / ".message-bus", "emptied")
    repair(capsys, over)
    page = call(capsys, "status", str(over))
    assert page.startswith("the journal before was lost, and no run has begun since: ")
    assert "Which tasks are done again: conductor doctor" in page
    data = json.loads(call(capsys, "status", str(over), "--json"))
    assert (data["run"]["state"], data["run"]["journal_lost"], data["run"]["reset_at"]) == ("never_run", True, None)
    assert "the journal before was lost" in call(capsys, "why", str(over), "a")
    findings = json.loads(call(capsys, "doctor", str(over), "--json"))["findings"]
    assert [one["text"] for one in findings if one["code"] == "run"] == [
        "the journal before was lost, and no run has begun since"
    ]


def test_who_looks_is_told_that_everything_was_set_back(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "reset", str(over))
    page = call(capsys, "status", str(over))
    assert page.startswith("set back at 20")
    assert ": 4 pending\n" in page
    data = json.loads(call(capsys, "status", str(over), "--json"))
    assert (data["run"]["state"], data["run"]["journal_lost"]) == ("never_run", False)
    assert data["run"]["reset_at"].startswith("20")
    why = call(capsys, "why", str(over), "a")
    assert why.startswith("everything was set back at 20")
    assert "never run" not in why
    assert "conductor events" in why
    findings = json.loads(call(capsys, "doctor", str(over), "--json"))["findings"]
    (run,) = [one["text"] for one in findings if one["code"] == "run"]
    assert run.startswith("set back at 20")
    assert run.endswith(" records")


def test_a_deleted_segment_is_not_said_of_the_journal_that_is_rightly_empty(
    over: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (over / ".message-bus" / "queue.jsonl").write_bytes(b"")
    data = json.loads(call(capsys, "status", str(over), "--json", code=5))["error"]
    assert data["path"].endswith("/segments")
    assert "all records are missing" in data["message"]
    assert "segments/ and queue.jsonl hold none" in data["message"]
    assert data["hint"].startswith("put back what was removed, if you have it")
