"""Verbs meet a bus in which anything may stand in the place of anything: an answer, or an error that leads on."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bus import layout
from bus._fs import FileSystem
from conductor.cli.examine.folders import MEANS
from conductor.cli.main import run_command_line

if TYPE_CHECKING:
    from conftest import Story

PLAN = "  nodes:\n    - {id: a, name: one, run: [true]}\n    - {id: b, name: two, run: [true]}\n"

FILES = (
    *(layout.FORMAT, layout.GITIGNORE, layout.LOCK, layout.HOLDER, layout.JOURNAL, layout.DOUBT, layout.CUT),
    *(layout.RESERVE, layout.LOCKS_VIEW, layout.WORKERS_VIEW),
)
FOLDERS = tuple(folder for folder in layout.FOLDERS if "/" not in folder)
NEEDED = frozenset({layout.FORMAT, layout.JOURNAL, layout.PLAN})
"""Without these nobody can say how a track stands. All else is not missed by whoever looks on."""

LOOKING = (["status", "TRACK", "--json"], ["status", "TRACK"], ["why", "TRACK", "a"], ["logs", "TRACK", "a"])
CARING = (["events", "TRACK"], ["run", "TRACK", "--dry-run"], ["doctor", "TRACK", "--verify"])
ACTING = (["stop", "TRACK"], ["reset", "TRACK", "--dry-run"], ["reset", "TRACK"], ["doctor", "TRACK", "--repair"])


def fifo(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def folder(path: Path, outside: Path) -> None:
    path.mkdir()


def nothing(path: Path, outside: Path) -> None:
    """It was removed."""


VERBS: dict[Callable[[Path, Path], None], Sequence[list[str]]] = {
    fifo: (*LOOKING, *CARING),
    link: (*LOOKING, *CARING),
    folder: (*LOOKING, *ACTING),
    nothing: (*LOOKING, *ACTING),
}


@pytest.mark.parametrize("make", VERBS)
@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_requirement_27_each_verb_on_an_odd_bus_ends_with_an_answer_or_an_error_that_leads_on(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, make: Callable[[Path, Path], None]
) -> None:
    story.start(PLAN)
    story.end("a")
    story.end("b")
    story.die()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("of somebody")
    path = story.track / ".message-bus" / name
    if path.exists():
        path.rename(tmp_path / "saved")
    make(path, outside)
    for words in VERBS[make]:
        code = run_command_line([str(story.track) if word == "TRACK" else word for word in words])
        shown = capsys.readouterr()
        assert code in (0, 5), (words, shown.err)
        assert "Traceback" not in shown.err + shown.out
        assert "of somebody" not in shown.out
        if code == 5 and words[0] != "doctor":
            assert "hint: " in shown.err or json.loads(shown.out)["error"]["hint"], (words, shown.err)
        if words in LOOKING and name not in NEEDED:
            assert code == 0, (words, shown.err)
    assert [entry.name for entry in outside.iterdir()] == ["secret"]


def test_status_names_the_folders_that_it_could_not_look_into(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    """They may be removed while nobody runs, and by whom runs are made again only at the next look."""
    story.start(PLAN)
    story.end("a")
    for name in (layout.INBOX, layout.QUARANTINE):
        (story.track / ".message-bus" / name).rmdir()
    (story.track / ".message-bus" / layout.INBOX).touch()
    assert run_command_line(["status", str(story.track), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing_folders"] == [layout.INBOX, layout.QUARANTINE]
    assert run_command_line(["status", str(story.track)]) == 0
    assert "The bus lacks inbox/, quarantine/, or it cannot be opened: what was in it is not shown" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("name", [layout.PLAN, layout.BLOBS])
def test_a_folder_of_the_state_itself_that_is_gone_leads_to_the_repair(
    story: Story, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A run would make the folder again, and what was in it is missing all the same."""
    story.start(PLAN)
    story.progress("a", 50, "x" * 100_000)
    story.die()
    (story.track / ".message-bus" / name).rename(story.track / "away")
    assert run_command_line(["events" if name == layout.BLOBS else "status", str(story.track)]) == 5
    assert "--repair" in capsys.readouterr().err


def test_doctor_names_what_is_a_folder_or_a_file_where_it_should_be_the_other(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    bus = story.track / ".message-bus"
    (bus / layout.GITIGNORE).unlink()
    (bus / layout.GITIGNORE).mkdir()
    (bus / layout.HEARTBEATS).rmdir()
    (bus / layout.HEARTBEATS).touch()
    run_command_line(["doctor", str(story.track), "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    found = {one["code"]: one["details"] for one in findings}
    assert [one.partition(":")[0] for one in found["folders"]] == ["heartbeats/ has something else in its place"]
    assert found["odd_files"] == [
        ".gitignore: a folder in the place of a file",
        "heartbeats: a file in the place of a folder",
    ]


def test_an_error_names_the_file_of_the_bus_as_it_can_be_opened_from_here(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(PLAN)
    story.end("a")
    story.die()
    journal = story.track / ".message-bus" / "queue.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"RUN_STARTED", b"RUN_STOLEN", 1))
    monkeypatch.chdir(story.track.parent)
    assert run_command_line(["status", "track"]) == 5
    assert capsys.readouterr().err.startswith(
        "error: track/.message-bus/queue.jsonl:1: line 1 of the journal is damaged"
    )
    assert run_command_line(["status", "track", "--bus-dir", "track/.message-bus"]) == 5
    assert capsys.readouterr().err.startswith("error: track/.message-bus/queue.jsonl:1: ")


def test_doctor_says_each_thing_once(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    story.end("a")
    story.die()
    journal = story.track / ".message-bus" / "queue.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"WORKER_DISPATCHED", b"WORKER_DISMISSED!", 1))
    run_command_line(["doctor", str(story.track)])
    assert capsys.readouterr().out.count("line 2 of the journal is damaged") == 1
    assert run_command_line(["doctor", str(story.track), "--repair"]) == 0
    page = capsys.readouterr().out
    assert page.count("was moved to quarantine") == 1
    assert "\nno problem, 2 notes:\nnote " in page


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("folder", layout.FOLDERS)
def test_doctor_names_each_folder_that_is_missing_or_replaced_and_what_that_means(
    story: Story, capsys: pytest.CaptureFixture[str], folder: str, replaced: bool
) -> None:
    story.close()
    bus = story.track / ".message-bus"
    shutil.rmtree(bus / folder)
    if replaced:
        (bus / folder).write_text("")
    capsys.readouterr()
    run_command_line(["doctor", str(story.track), "--json"])
    (found,) = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["code"] == "folders"]
    assert found["level"] == "note"
    how = "has something else in its place" if replaced else "is missing"
    assert f"{folder}/ {how}: {MEANS[folder]}" in found["details"]
    assert found["hint"].startswith("put back what was removed, if you have it")


def test_a_folder_that_may_not_be_opened_is_a_problem_for_doctor_and_nobody_else_needs_it(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(PLAN)
    story.end("a")
    story.die()
    shut = {layout.INBOX, layout.CONTROL, layout.QUARANTINE}
    real = FileSystem.open_directory

    def refuse(self: FileSystem, name: str, *, at: int | None = None) -> int:
        if name in shut:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(self, name, at=at)

    monkeypatch.setattr(FileSystem, "open_directory", refuse)
    track = str(story.track)
    assert run_command_line(["status", track]) == 0
    assert "lacks inbox/, control/, quarantine/, or it cannot be opened" in capsys.readouterr().out
    assert run_command_line(["why", track, "a"]) == 0
    assert run_command_line(["doctor", track]) == 5
    assert capsys.readouterr().out.count("the folder inbox cannot be opened: Permission denied") >= 1
    shut.add(str(story.track / ".message-bus"))
    assert run_command_line(["status", track]) == 5
    said = capsys.readouterr().err
    assert "the bus cannot be opened: Permission denied" in said
    assert "with mode 0700" in said
