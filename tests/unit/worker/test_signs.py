"""Signs of life: ages of output, processor time and files, from differences alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bus import process
from bus.process import HAVE_PROC, ProcessInfo
from bus.wire import AttemptId, TaskId, WorkerSpec
from worker import signs, tree
from worker.ages import CPU_SHARE, Ages, Seen
from worker.signs import Signs, files_of
from worker.tree import processor_time
from worker.words import Beat

SPEC = WorkerSpec("/bus", AttemptId("1.1~1-0a1b2c3d"), 3, TaskId("1.1"), 1, "0a1b2c3d", ("true",), "/")


def test_an_age_counts_from_the_last_change_and_from_the_beginning_before_the_first() -> None:
    ages = Ages()
    assert ages.take(Seen(0, 0.0, 7), 10.0) == {
        "output": {"bytes": 0, "age": 10.0},
        "cpu": {"seconds": 0.0, "age": 10.0},
        "files": {"age": 10.0},
    }
    assert ages.take(Seen(5, 3.0, 8), 20.0) == {
        "output": {"bytes": 5, "age": 0.0},
        "cpu": {"seconds": 3.0, "age": 0.0},
        "files": {"age": 0.0},
    }
    assert ages.take(Seen(5, 3.0, 8), 25.0) == {
        "output": {"bytes": 5, "age": 5.0},
        "cpu": {"seconds": 3.0, "age": 5.0},
        "files": {"age": 5.0},
    }


def test_what_cannot_be_seen_is_left_out() -> None:
    assert set(Ages().take(Seen(0, None, None), 1.0)) == {"output"}


def test_a_tree_that_only_waits_for_its_timers_is_idle() -> None:
    ages = Ages()
    ages.take(Seen(0, 1.0, None), 10.0)
    assert ages.take(Seen(0, 1.0 + CPU_SHARE * 29, None), 40.0)["cpu"]["age"] == 30.0
    assert ages.take(Seen(0, 1.1 + CPU_SHARE * 29, None), 70.0)["cpu"]["age"] == 0.0


def test_processor_time_that_went_with_its_process_is_no_sign_and_hides_none() -> None:
    ages = Ages()
    ages.take(Seen(0, 100.0, None), 10.0)
    assert ages.take(Seen(0, 2.0, None), 20.0)["cpu"]["age"] == 10.0
    assert ages.take(Seen(0, 3.0, None), 30.0)["cpu"]["age"] == 0.0


def test_the_processor_time_of_a_tree_is_that_of_the_living_and_of_whom_they_reaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        ProcessInfo(pid, "p", "S", parent, 1, 1, 1, ticks) for pid, parent, ticks in [(2, 1, 50), (3, 2, 25), (9, 8, 7)]
    ]
    monkeypatch.setattr(tree, "HAVE_CHILDREN", False)
    monkeypatch.setattr(tree, "all_processes", lambda: found)
    assert processor_time(1) == pytest.approx(75 / os.sysconf("SC_CLK_TCK"))


@pytest.mark.skipif(not process.HAVE_CHILDREN, reason="needs a kernel that lists children")
def test_a_tree_is_found_by_its_lists_of_children_also_those_of_other_threads() -> None:
    """The child is one of a thread that is not the first."""
    script = "import subprocess as s, threading as t; t.Thread(target=lambda: s.run(['cat'])).start()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as parent:
        names: list[str] = []
        while "cat" not in names:
            names = [info.name for info in process.family(os.getpid())]
        assert next(process.family(os.getpid())).pid == parent.pid
        parent.communicate(b"")
    assert list(process.family(parent.pid)) == []


@pytest.mark.parametrize("pattern", ["src", "src/a.py", "src/*.py", "**/a.py"])
def test_a_file_that_is_written_made_or_removed_is_another_state(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    one = Signs(replace(SPEC, cwd=str(tmp_path), files=[pattern]))
    states = [one._state_of_files()]
    assert states[0] == one._state_of_files()
    (tmp_path / "src" / "a.py").write_text("12")
    states.append(one._state_of_files())
    (tmp_path / "src" / "a.py").unlink()
    states.append(one._state_of_files())
    assert len(set(states)) == 3


def test_a_folder_of_any_size_costs_a_bounded_look(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    assert len(list(files_of(str(tmp_path), ["."], 10))) <= 10


def test_the_evidence_of_a_beat_names_phase_limit_and_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs, "_cpu", lambda: None)
    one = Signs(SPEC)
    assert one.evidence(Beat("command", 4.0, 6.0, stands=False), 0) == {
        "phase": "command",
        "clock": 4.0,
        "output": {"bytes": 0, "age": 4.0},
        "left": 6.0,
    }
    assert one.evidence(Beat("verify", 5.0, None, stands=True), 0)["stands"] is True


def test_the_evidence_of_a_beat_names_the_ladder_and_who_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs, "_cpu", lambda: 1.0)
    one = Signs(SPEC)
    child = subprocess.Popen(["sleep", "60"])
    try:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert "suspended" not in one.evidence(Beat("command", 4.0, 6.0, stands=False), 0), (
            "it used some processor time"
        )
        found = one.evidence(Beat("ending", 5.0, 0.0, stands=False, ladder=("timeout", "TERM", 3.0)), 0)
    finally:
        child.kill()
        child.wait()
    assert found["ladder"] == {"by": "timeout", "signal": "TERM", "kill_in": 3.0}
    assert found.get("suspended") == ([{"pid": child.pid, "name": "sleep"}] if HAVE_PROC else None)
