"""A short kill storm, with everything that `scripts/storm` proves; and a long run in which nothing may grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.tools import REPO, Project, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and subreapers")


@pytest.mark.slow
def test_requirement_14_a_storm_of_kills_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    """Conductors, workers, commands and whole sessions are killed at random until all tasks are done. The storm itself
    checks: each task done once, each result counted once, no attempt begun twice, no two attempts of a task at a time,
    no process and no file left, each conductor within its descriptors."""
    storm = [sys.executable, str(REPO / "scripts" / "storms" / "main.py"), "--tasks", "30", "--seconds", "6"]
    found = subprocess.run(
        [*storm, "--seed", "11", "--json", "--keep", str(tmp_path / "storm")], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
    figures = json.loads(found.stdout)
    assert figures["faults"] == []
    assert figures["kills"]["conductor"] >= 2
    assert figures["idle"] < figures["lives"], "no conductor got anything done"


def descriptors(pid: int) -> int:
    """How many a process has open; 0 once it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def children(pid: int) -> list[int]:
    """Children of a process, dead or alive."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@pytest.mark.slow
def test_requirement_18_a_thousand_tasks_leave_no_descriptor_and_no_zombie(project: Project) -> None:
    project.plan([{"id": f"t{number}", "name": "nothing", "run": ["true"]} for number in range(1000)])
    run = project.start_run("--durability", "process")
    (warm,) = wait_for(lambda: children(run.pid), "the warm process")
    samples = []

    def over() -> bool:
        samples.append((descriptors(run.pid), descriptors(warm), len(children(run.pid)), len(children(warm))))
        return run.process.poll() is not None

    wait_for(over, "the end of the run", patience=120.0)
    run.finish().expect(0)
    of_conductor, of_warm, own, workers = (max(column) for column in zip(*samples, strict=True))
    assert len(samples) > 10
    assert of_conductor < 64
    assert of_warm <= 8
    assert own == 1, "the conductor has no child but the warm process"
    assert workers <= 10, "five that work, and as many that are being reaped"
