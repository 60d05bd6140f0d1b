"""The examples that the README shows do what it says, from an untouched copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.tools import REPO, Finished, Project


@pytest.fixture
def example(project: Project, request: pytest.FixtureRequest) -> Path:
    """A copy of an example without what runs left in it."""
    unwanted = shutil.ignore_patterns("out", ".message-bus", "settings.ini")
    name = str(request.param)
    copy = project.dir / name
    shutil.copytree(REPO / "examples" / name, copy, ignore=unwanted)
    project.track, project.bus = copy, copy / ".message-bus"
    return copy


@pytest.mark.parametrize("example", ["quickstart"], indirect=True)
def test_quickstart_leaves_its_report_and_has_nothing_to_do_the_second_time(project: Project, example: Path) -> None:
    first = project.run().expect(0)
    report = (example / "out" / "report.txt").read_text(encoding="utf-8")
    for heading in ("The commonest words", "The commonest letters", "The longest words"):
        assert report.splitlines().count(heading) == 1
    assert set(project.statuses().values()) == {"done"}
    assert "8" in first.out
    stamps = {path: path.stat().st_mtime_ns for path in (example / "out").iterdir()}
    again = project.run().expect(0)
    assert "nothing to do" in (again.out + again.err).lower()
    assert {path: path.stat().st_mtime_ns for path in (example / "out").iterdir()} == stamps
    assert len(project.recorded("TASK_COMPLETE")) == 8


@pytest.mark.parametrize("example", ["failing"], indirect=True)
def test_failing_blocks_what_leans_on_the_failure_and_finishes_once_mended(project: Project, example: Path) -> None:
    first = project.run().expect(1)
    status = project.status()
    assert {task["id"]: task["status"] for task in status["tasks"]} == {
        "1.1": "done",
        "1.2": "failed",
        "2.1": "blocked",
        "2.2": "done",
        "3.1": "blocked",
    }
    by_id = {task["id"]: task for task in status["tasks"]}
    assert by_id["2.1"]["blocked_by"] == ["1.2"]
    assert by_id["3.1"]["blocked_by"] == ["1.2"]
    assert by_id["1.2"]["attempts"] == 2
    assert by_id["1.2"]["error"]["class"] == "exit"
    assert status["run"]["state"] == "failed"
    assert "settings.ini" in first.out + first.err
    assert "1.2" in why(project, "2.1").out
    assert "1.2" in why(project, "3.1").out
    assert "settings.ini" in why(project, "1.2").out
    written = (example / "out" / "greeting.txt").stat().st_mtime_ns

    (example / "settings.ini").write_text("colour = green\n", encoding="utf-8")
    project.run().expect(0)
    assert set(project.statuses().values()) == {"done"}
    assert (example / "out" / "greeting.txt").stat().st_mtime_ns == written
    dispatched = [record["task"] for record in project.recorded("WORKER_DISPATCHED")]
    assert {task: dispatched.count(task) for task in by_id} == {"1.1": 1, "1.2": 3, "2.1": 1, "2.2": 1, "3.1": 1}
    assert sorted(record["task"] for record in project.recorded("TASK_COMPLETE")) == sorted(by_id)
    assert len(project.recorded("RUN_STARTED")) == 2

    before = len(project.records())
    third = project.run().expect(0)
    assert "nothing to do" in (third.out + third.err).lower()
    assert not [record for record in project.records()[before:] if record["type"] == "WORKER_DISPATCHED"]


@pytest.mark.parametrize("example", ["together"], indirect=True)
def test_together_resolves_its_deadlock_and_waits_for_people(project: Project, example: Path) -> None:
    run = project.start_run()
    question = project.wait_recorded("QUESTION", "1.3")["payload"]
    project.call("answer", str(project.track), question["id"], "A year in numbers").expect(0)
    project.wait_recorded("APPROVAL_ASKED", "2")
    assert not project.recorded("WORKER_DISPATCHED", "2")
    project.call("approve", str(project.track), "2").expect(0)
    run.finish().expect(0)
    lines = (example / "out" / "report.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "A year in numbers"
    assert sorted(lines[1:]) == ["invoices", "invoices", "payments", "payments"]
    assert [record["payload"]["rule"] for record in project.recorded("DEADLOCK_DETECTED")] == ["youngest"]


def why(project: Project, task: str) -> Finished:
    return project.call("why", str(project.track), task).expect(0)
