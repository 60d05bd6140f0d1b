"""Verbs that look meet a bus in which anything may stand in the place of anything: an answer, or an error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bus import layout
from conductor.cli.main import run_command_line

if TYPE_CHECKING:
    from conftest import Story

PLAN = "  nodes:\n    - {id: a, name: one, run: [true]}\n    - {id: b, name: two, run: [true]}\n"

FILES = (layout.FORMAT, layout.LOCK, layout.HOLDER, layout.JOURNAL, layout.LOCKS_VIEW, layout.WORKERS_VIEW)
PLACES = (*FILES, *(folder for folder in layout.FOLDERS if "/" not in folder))


def fifo(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


@pytest.mark.parametrize("make", [fifo, link])
@pytest.mark.parametrize("name", PLACES)
def test_requirement_27_looking_at_an_odd_bus_ends_with_an_answer_or_an_error(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, make: object
) -> None:
    story.start(PLAN)
    story.end("a")
    story.die()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("of somebody")
    path = story.track / ".message-bus" / name
    if path.exists():
        path.rename(tmp_path / "saved")
    assert callable(make)
    make(path, outside)
    track = str(story.track)
    for arguments in (
        ["status", track, "--json"],
        ["logs", track, "a"],
        ["events", track],
        ["doctor", track, "--verify"],
        ["run", track, "--dry-run"],
    ):
        code = run_command_line(arguments)
        shown = capsys.readouterr()
        assert code in (0, 5), (arguments, shown.err)
        assert "Traceback" not in shown.err + shown.out
        assert "of somebody" not in shown.out
    assert [entry.name for entry in outside.iterdir()] == ["secret"]
