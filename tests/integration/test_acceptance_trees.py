"""A stop ends everything that a command left in the world, however it hides; bystanders are untouched."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.tools import Node, Project, alive, kill, wait_for

ESCAPEE = Path(__file__).with_name("escapee.py")

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@pytest.fixture
def escapee(project: Project) -> Node:
    """A task whose command forks, leaves its session, ignores TERM and closes its descriptors."""
    project.config('terminate_grace = "0.3s"\n')
    return {"id": "e", "name": "Stay", "retries": 0, "run": [sys.executable, "-I", "-S", str(ESCAPEE), "pids"]}


def pids(project: Project) -> list[int]:
    path = project.dir / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def wait_spread(project: Project) -> list[int]:
    return wait_for(lambda: len(pids(project)) == 4 and pids(project), "four processes")


def test_requirement_18_a_command_that_hides_is_gone_after_its_time_limit(project: Project, escapee: Node) -> None:
    project.plan([{**escapee, "timeout": "1s"}, project.task("after", after=["e"]), project.task("beside")])
    project.run().expect(1)
    assert len(pids(project)) == 4
    assert not [pid for pid in pids(project) if alive(pid)]
    tasks = {task["id"]: task for task in project.status()["tasks"]}
    assert tasks["e"]["error"]["class"] == "timeout"
    assert tasks["after"]["status"] == "blocked"
    assert tasks["beside"]["status"] == "done"


def test_requirement_18_a_command_that_hides_is_gone_after_two_interrupts(project: Project, escapee: Node) -> None:
    bystander = subprocess.Popen([*escapee["run"][:-1], str(project.root / "bystander"), "--leave"], env={})
    assert bystander.wait(30) == 0
    strangers = [int(line) for line in (project.root / "bystander").read_text().split()][:4]
    strangers = [pid for pid in strangers if alive(pid)]
    try:
        project.plan([escapee])
        run = project.start_run()
        mine = wait_spread(project)
        run.send(signal.SIGINT)
        project.wait_recorded("CONTROL")
        run.send(signal.SIGINT)
        run.finish().expect(130)
        assert not [pid for pid in mine if alive(pid)]
        assert [pid for pid in strangers if alive(pid)] == strangers
        (end,) = project.recorded("ATTEMPT_ENDED")
        assert end["payload"]["error_class"] == "stopped"
        assert not end["payload"]["counted"]
    finally:
        for pid in strangers:
            kill(pid)


def test_a_time_limit_holds_while_no_conductor_lives(project: Project, escapee: Node) -> None:
    project.plan([{**escapee, "timeout": "1s"}])
    run = project.start_run()
    mine = wait_spread(project)
    run.send(signal.SIGKILL)
    run.finish()
    wait_for(lambda: not [pid for pid in mine if alive(pid)], "the end of the command")
    wait_for(lambda: not project.processes(), "the end of the worker")
    project.run().expect(1)
    assert project.status()["tasks"][0]["error"]["class"] == "timeout"
    assert len(project.recorded("WORKER_DISPATCHED")) == 1


def test_requirement_18_what_a_command_leaves_behind_is_ended_and_named(project: Project, escapee: Node) -> None:
    project.plan([{**escapee, "run": [*escapee["run"], "--leave"]}])
    project.run().expect(0)
    assert len(pids(project)) == 4
    assert not [pid for pid in pids(project) if alive(pid)]
    assert project.statuses() == {"e": "done"}
    (record,) = project.recorded("RESULT")
    assert {process["pid"] for process in record["payload"]["leftovers"]["killed"]} <= set(pids(project))
    assert len(record["payload"]["leftovers"]["killed"]) == 3


def test_requirement_18_what_a_task_is_allowed_to_leave_lives_on(project: Project, escapee: Node) -> None:
    project.plan([{**escapee, "run": [*escapee["run"], "--leave"], "leftovers": "keep"}])
    try:
        project.run().expect(0)
        assert len([pid for pid in pids(project) if alive(pid)]) == 3
        (record,) = project.recorded("RESULT")
        assert len(record["payload"]["leftovers"]["kept"]) == 3
    finally:
        for pid in pids(project):
            kill(pid)


def test_requirement_18_leftovers_fail_the_task_that_must_not_have_any(project: Project, escapee: Node) -> None:
    project.plan([{**escapee, "run": [*escapee["run"], "--leave"], "leftovers": "fail"}])
    project.run().expect(1)
    assert project.statuses() == {"e": "failed"}
    assert not [pid for pid in pids(project) if alive(pid)]


def test_requirement_18_a_killed_worker_is_lost_and_its_command_is_gone_before_the_next_attempt(
    project: Project, escapee: Node
) -> None:
    project.config('terminate_grace = "0.3s"\nretry_delay = "0.01s"\n')
    script = (
        f"[ -e pids ] || exec {' '.join(escapee['run'])}; for p in $(cat pids); do kill -0 $p && exit 9; done; true"
    )
    project.plan([project.shell("e", script, retries=1)])
    run = project.start_run()
    mine = wait_spread(project)
    worker = project.bus.glob("attempts/*/*/proc.json")
    kill(int(json.loads(next(worker).read_text().splitlines()[0])["pid"]))
    run.finish().expect(0)
    assert not [pid for pid in mine if alive(pid)]
    assert [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED")] == ["lost", None]
