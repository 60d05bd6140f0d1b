"""What the next attempt is told of the one before (requirement 19: a retry knows why it is one)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus import layout
from bus.host import FileHost, open_host
from bus.wire import AttemptId, TaskId
from conductor.core.events import AttemptEnded
from conductor.core.state import Task
from conductor.core.task import TaskSpec
from conductor.runtime.command import prompt_text, task_json
from conductor.runtime.retries import TAIL, before, tail

ATTEMPT = AttemptId("1~2-0a1b2c3d")
SPEC = TaskSpec(TaskId("1"), "Say hello", 0)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FileHost]:
    opened = open_host(tmp_path / "bus", durability="process")
    os.close(opened.create_attempt(ATTEMPT))
    yield opened
    opened.close()


@pytest.fixture
def folder(host: FileHost, tmp_path: Path) -> Path:
    return tmp_path / "bus" / layout.attempt_dir(ATTEMPT)


def task(error_class: str | None = "exit", message: str = "exit 3") -> Task:
    ended = AttemptEnded(SPEC.id, ATTEMPT, 2, error_class, message, True, True, {"code": 3, "signal": None}, {})
    return Task(SPEC, open=0, last=ended)


def test_a_prompt_of_a_retry_says_how_the_attempt_before_ended_and_what_it_printed(
    host: FileHost, folder: Path
) -> None:
    (folder / "log").write_bytes(b"building\r\n\x1b[31mred\x1b[0m\n")
    (folder / "log.err").write_bytes(b"ends a fence:\n```\nundefined name\n\n")
    found = before(task(), host)
    assert found is not None
    text = prompt_text(SPEC, found)
    assert text.startswith("# Task 1: Say hello\n\n## The attempt before this one\n")
    assert "Attempt 2 of this task ended without success (exit): exit 3\n" in text
    assert "The end of its stdout:\n\n```\nbuilding\nred\n```\n" in text
    assert "The end of its stderr:\n\n````\nends a fence:\n```\nundefined name\n````\n" in text
    assert json.loads(task_json(SPEC, ATTEMPT, 3, found))["previous"] == {
        "attempt": ATTEMPT,
        "attempt_number": 2,
        "error": {"class": "exit", "message": "exit 3"},
        "output": {"stdout": "building\nred", "stderr": "ends a fence:\n```\nundefined name"},
        "texts": [],
    }


def test_what_people_said_to_an_attempt_is_said_to_the_next(host: FileHost) -> None:
    host.deliver(ATTEMPT, layout.steer_name(1), b"use the old driver")
    host.deliver(ATTEMPT, layout.answer_name("0a1b2c3d"), b"an answer that nobody took")
    found = before(task(), host)
    assert found is not None
    assert found.texts == ("use the old driver",)
    assert "Somebody who looked on said to it:\n\n```\nuse the old driver\n```\n" in prompt_text(SPEC, found)


def test_a_first_attempt_and_one_after_a_success_are_told_nothing(host: FileHost) -> None:
    assert before(Task(SPEC, open=0), host) is None
    assert before(task(error_class=None), host) is None
    assert json.loads(task_json(SPEC, ATTEMPT, 3))["previous"] is None


def test_the_tail_is_that_of_the_newest_pieces(host: FileHost, folder: Path) -> None:
    (folder / "log").write_bytes(b"first" * 2000)
    (folder / "log.2").write_bytes(b"b" * 3000)
    (folder / "log.10").write_bytes(b"newest")
    (folder / "log.err").write_bytes(b"other")
    (folder / "log.10.x").write_bytes(b"odd")
    pieces = host.open_pieces(ATTEMPT)
    assert pieces is not None
    assert tail(pieces, "log", 10) == b"bbbbnewest"
    assert tail(pieces, "log", 3010) == b"irst" + b"b" * 3000 + b"newest"
    assert tail(pieces, "nothing", 10) == b""
    pieces.close()


def test_a_long_output_begins_with_a_whole_line(host: FileHost, folder: Path) -> None:
    (folder / "log").write_bytes(b"".join(b"line %d\n" % number for number in range(5000)))
    found = before(task(), host)
    assert found is not None
    lines = found.output["stdout"].splitlines()
    assert lines[-1] == "line 4999"
    assert all(line.startswith("line ") for line in lines)
    assert TAIL - 20 < len(found.output["stdout"]) <= TAIL


@pytest.mark.parametrize("hurt", ["link", "gone"])
def test_what_cannot_be_read_is_left_out_and_nothing_fails(host: FileHost, folder: Path, hurt: str) -> None:
    if hurt == "link":
        (folder / "log").symlink_to("/etc/passwd")
    else:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    found = before(task(), host)
    assert found is not None
    assert found.output == {}
    assert "end of its" not in prompt_text(SPEC, found)
