"""Requirement 10: one conductor a track, whatever happens to its lock, its bus, and itself."""

from __future__ import annotations

import os
import signal
import socket

from tests.integration.tools import Project, Running


def gated(project: Project) -> Running:
    """A run of `a` (gated) and of `b` behind it, while `a` runs."""
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    run = project.start_run()
    project.wait_started("a")
    return run


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


def test_requirement_10_a_bus_that_is_exchanged_under_a_run_is_not_written(project: Project) -> None:
    run = gated(project)
    project.bus.rename(project.root / "moved")
    project.bus.mkdir(0o700)
    os.utime(project.bus)
    project.open_gate("a")
    run.finish().expect(5)
    assert list(project.bus.iterdir()) == []
