"""A worker that stands still is shown, with the way out; a process that only has its pid is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bus.hand import open_hand
from bus.process import HAVE_PROC, look, realm, start_ticks
from bus.wire import ProcRecord
from conductor.cli.main import run_command_line
from tests.integration.tools import wait_for

if TYPE_CHECKING:
    from conftest import Story

pytestmark = pytest.mark.skipif(not HAVE_PROC, reason="needs /proc")

PLAN = "  nodes:\n    - {id: a, name: one, run: [true]}\n"


@pytest.fixture
def asleep() -> Iterator[int]:
    """The pid of a process that is suspended."""
    process = subprocess.Popen(["sleep", "60"])
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: (found := look(process.pid)) is not None and found.suspended, "a process that stands still")
    yield process.pid
    process.kill()
    process.wait()


def claim(story: Story, pid: int, ticks: int, boot: str | None = None) -> None:
    """Let this process be the worker of the task."""
    here = realm()
    hand = open_hand(story.track / ".message-bus", story.attempt("a"))
    assert hand.claim(ProcRecord(boot or here.boot, pid, ticks, 1, here.namespace))
    hand.close()


def test_status_and_doctor_show_a_worker_that_is_suspended(
    story: Story, capsys: pytest.CaptureFixture[str], asleep: int
) -> None:
    story.start(PLAN)
    claim(story, asleep, start_ticks(asleep))
    run_command_line(["status", str(story.track)])
    shown = capsys.readouterr().out
    assert f"1 worker suspended (pid {asleep}, of {story.attempt('a')})" in shown
    assert f"kill -CONT {asleep}" in shown
    run_command_line(["status", str(story.track), "--json"])
    found = json.loads(capsys.readouterr().out)["suspended_workers"]
    assert found == [{"attempt": story.attempt("a"), "pid": asleep}]
    run_command_line(["doctor", str(story.track)])
    assert "workers_suspended" in capsys.readouterr().out
    os.kill(asleep, signal.SIGCONT)
    wait_for(lambda: (found := look(asleep)) is not None and not found.suspended, "its waking")
    run_command_line(["status", str(story.track)])
    assert "suspended" not in capsys.readouterr().out


@pytest.mark.parametrize("what", ["start", "boot"])
def test_another_process_with_the_pid_of_a_worker_is_not_meant(
    story: Story, capsys: pytest.CaptureFixture[str], asleep: int, what: str
) -> None:
    story.start(PLAN)
    claim(story, asleep, start_ticks(asleep) + (what == "start"), "another" if what == "boot" else None)
    run_command_line(["status", str(story.track)])
    assert "suspended" not in capsys.readouterr().out
