"""What stands in where a system has no /proc and no pidfds (macOS): the process group of the step."""

from __future__ import annotations

import os
import signal

import pytest

from bus import process
from bus.process import send_signal, start_ticks
from conductor.runtime.launch.base import NO_TRACE, Trace
from conductor.runtime.launch.local import LocalLauncher
from conductor.runtime.launch.own_bus import OwnBus
from conductor.runtime.launch.survivors import Survivors
from tests.integration.tools import wait_for
from tests.integration.worker.conftest import Bench
from worker import tree
from worker.spawn import spawn


@pytest.fixture
def sleeper() -> int:
    """A process in its own group; the test ends and reaps it."""
    return spawn(("sleep", "69"), {"PATH": "/usr/bin:/bin"}, 1, 2)


def test_without_proc_the_group_is_the_tree(sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "HAVE_PROC", False)
    (found,) = tree.look_at_tree(os.getpid(), sleeper)
    assert found.group == sleeper
    tree.signal_processes([found], signal.SIGKILL)
    os.waitpid(sleeper, 0)
    assert tree.look_at_tree(os.getpid(), sleeper) == []
    tree.signal_processes([found], signal.SIGKILL)


def test_without_pidfds_the_start_is_still_compared(sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HAVE_PIDFD", False)
    ticks = start_ticks(sleeper)
    assert not send_signal(sleeper, ticks + 1, signal.SIGKILL)
    assert send_signal(sleeper, ticks, signal.SIGKILL)
    assert os.waitpid(sleeper, 0)[1] == signal.SIGKILL
    assert not send_signal(sleeper, ticks, signal.SIGKILL)


def test_without_proc_survivors_are_ended_by_their_group(sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.runtime.launch.survivors.HAVE_PROC", False)
    survivors, attempt = Survivors(OwnBus("/nowhere")), "1.1~1-0a1b2c3d"
    assert survivors.end(attempt, NO_TRACE)  # type: ignore[arg-type]
    assert not survivors.end(attempt, Trace({"pid": sleeper}))  # type: ignore[arg-type]
    os.waitpid(sleeper, 0)
    assert survivors.end(attempt, Trace({"pid": sleeper}))  # type: ignore[arg-type]


def test_without_pidfds_a_launcher_watches_by_pid_and_start(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = bench.launch(("sleep", "70"))
    bench.wait_command(spec)
    proc = bench.host.read_proc(spec.attempt)
    monkeypatch.setattr("conductor.runtime.launch.local.HAVE_PIDFD", False)
    other = LocalLauncher(str(bench.bus))
    try:
        assert other.reattach(spec.attempt, proc)
        assert other.poll([spec.attempt]) == {spec.attempt: "running"}
        other.terminate(spec.attempt)
        wait_for(lambda: other.poll([spec.attempt])[spec.attempt] == "ended", "the end")
    finally:
        other.close()
    assert bench.wait(spec).ended_by == "stop"
