"""Requirement 10: one conductor a track, whatever happens to its lock, its bus, and itself."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.tools import Project, Running, wait_for


def gated(project: Project) -> Running:
    """A run of `a` (gated) and of `b` behind it, while `a` runs."""
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    run = project.start_run()
    project.wait_started("a")
    return run


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def check_each_done_once(project: Project) -> None:
    assert project.statuses() == {"a": "done", "b": "done"}
    assert project.starts() == ["a", "b"]
    assert [record["task"] for record in project.recorded("TASK_COMPLETE")] == ["a", "b"]


def test_requirement_10_a_second_run_says_who_holds_the_track_and_how_to_look(project: Project) -> None:
    run = gated(project)
    second = project.run("--json").expect(4)
    assert second.error["code"] == "held_by_other"
    for word in (f"pid {run.pid}", f"on {socket.gethostname()}", "since 20"):
        assert word in second.error["message"]
    assert "look on with `conductor status" in second.error["hint"]
    assert "end it with `conductor stop" in second.error["hint"]
    project.open_gate("a")
    run.finish().expect(0)
    check_each_done_once(project)


@pytest.mark.parametrize(
    "harm", [Path.unlink, lambda path: path.write_text("{}"), _fifo], ids=["gone", "empty", "FIFO"]
)
def test_requirement_10_a_conductor_whose_words_are_gone_is_found_by_its_lock(
    project: Project, harm: Callable[[Path], object]
) -> None:
    """What anybody can remove decides nothing: the lock is held, so the verbs reach who holds it."""
    run = gated(project)
    harm(project.bus / "conductor.json")
    assert project.status()["run"]["conductor"]["pid"] == run.pid
    assert f"pid {run.pid}" in project.run().expect(4).err
    project.call("stop", str(project.track)).expect(0)
    run.finish().expect(130)
    assert project.statuses()["a"] == "ready"


def test_requirement_10_a_second_bus_makes_no_second_run_of_a_track(project: Project, tmp_path: Path) -> None:
    run = gated(project)
    elsewhere = tmp_path / "elsewhere"
    second = project.run("--bus-dir", str(elsewhere), "--json").expect(4)
    assert second.error["code"] == "held_by_other"
    assert f"(pid {run.pid}), with the bus {project.bus}" in second.error["message"]
    assert f"--bus-dir {project.bus}" in second.error["hint"]
    assert not elsewhere.exists()
    project.open_gate("a")
    run.finish().expect(0)
    check_each_done_once(project)


def test_requirement_10_a_track_that_some_other_program_locks_is_free(project: Project) -> None:
    """`flock TRACK conductor run TRACK` is how schedulers keep two runs apart."""
    project.plan([project.task("a")])
    folder = os.open(project.track, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    project.run().expect(0)
    os.close(folder)
    assert project.starts() == ["a"]


@pytest.mark.slow
def test_requirement_10_of_twenty_starts_at_once_one_wins(project: Project) -> None:
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    starts = [project.start_run() for _ in range(20)]
    wait_for(lambda: sum(run.process.poll() is not None for run in starts) == 19, "the end of 19", patience=120.0)
    (winner,) = [run for run in starts if run.process.poll() is None]
    for run in starts:
        if run is not winner:
            said = run.finish().expect(4).err
            assert f"(pid {winner.pid} on {socket.gethostname()} since " in said
    project.open_gate("a")
    winner.finish().expect(0)
    check_each_done_once(project)
    assert len(project.recorded("RUN_STARTED")) == 1
    assert not list((project.bus / "quarantine").iterdir())
    assert project.call("doctor", str(project.track), "--verify").code == 0


def test_requirement_10_a_conductor_that_wakes_up_after_it_was_replaced_stops(project: Project) -> None:
    """Suspended, its lock file deleted, another one started: what it still does changes nothing."""
    first = gated(project)
    first.send(signal.SIGSTOP)
    doctor = project.call("doctor", str(project.track), "--json").expect(0).data
    (holder,) = [found for found in doctor["findings"] if found["code"] == "holder_suspended"]
    assert f"kill -CONT {first.pid}" in holder["hint"]
    (project.bus / "conductor.lock").unlink()
    second = project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    project.open_gate("a")
    second.finish().expect(0)
    before = (project.bus / "queue.jsonl").read_bytes()
    first.send(signal.SIGCONT)
    said = first.finish().expect(5).err
    assert "another conductor" in said or "moved, removed or replaced" in said
    assert (project.bus / "queue.jsonl").read_bytes() == before
    check_each_done_once(project)
    assert len(project.recorded("RUN_ENDED")) == 1
    assert project.call("doctor", str(project.track), "--verify").code == 0


def test_requirement_10_a_conductor_that_wakes_up_beside_another_leaves_its_workers(project: Project) -> None:
    first = gated(project)
    first.send(signal.SIGSTOP)
    (project.bus / "conductor.lock").unlink()
    second = project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    first.send(signal.SIGCONT)
    first.send(signal.SIGTERM)  # a stop that comes to the wrong one is nobody's
    first.finish().expect(5)
    project.open_gate("a")
    second.finish().expect(0)
    check_each_done_once(project)


def test_requirement_10_a_bus_that_is_moved_under_a_run_ends_it_and_goes_on_elsewhere(project: Project) -> None:
    run = gated(project)
    moved = project.root / "moved"
    project.bus.rename(moved)
    project.open_gate("a")
    said = run.finish().expect(5).err
    assert f"{project.bus}: the bus was moved, removed or replaced while in use" in said
    assert "hint: " in said
    assert "--bus-dir" in said
    project.run("--bus-dir", str(moved)).expect(0)
    project.bus = moved
    assert project.starts() == ["a", "b"]
    status = project.call("status", str(project.track), "--bus-dir", str(moved), "--json").expect(0).data
    assert [task["status"] for task in status["tasks"]] == ["done", "done"]


def test_requirement_10_a_bus_that_is_removed_under_a_run_ends_it_and_its_workers(project: Project) -> None:
    run = gated(project)
    shutil.rmtree(project.bus)
    said = run.finish().expect(5).err
    assert "the bus was " in said
    assert "removed" in said
    assert "hint: " in said
    wait_for(lambda: not project.processes(), "the end of its workers")
    project.open_gate("a")
    project.run().expect(0)
    assert project.statuses() == {"a": "done", "b": "done"}


def test_requirement_10_a_bus_that_is_exchanged_under_a_run_is_not_written(project: Project) -> None:
    run = gated(project)
    project.bus.rename(project.root / "moved")
    project.bus.mkdir(0o700)
    os.utime(project.bus)
    project.open_gate("a")
    run.finish().expect(5)
    assert list(project.bus.iterdir()) == []
