"""Deadlocks of real workers: each is named at once, explained while it lasts, resolved by one victim, and the run
completes. Who waits for a person is not in one."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.integration.tools import Node, Project, wait_for

STAY = """
stay() { touch "$gates/stopped-$CONDUCTOR_TASK_ID"; while [ ! -e "$gates/looked" ]; do sleep 0.02; done; exit 1; }
trap stay TERM
meet() { touch "$gates/met-$CONDUCTOR_TASK_ID"; for one; do
  while [ ! -e "$gates/met-$one" ]; do sleep 0.02; done; done; }
"""
"""For a worker's shell: a stop is answered only after a test has looked; `meet` waits until others are as far."""


@pytest.fixture
def stage(project: Project) -> Project:
    project.config('retry_delay = "0.1s"\n')
    return project


def worker(project: Project, id: str, script: str, **keys: Any) -> Node:
    """A task that runs a script under `set -e`."""
    return project.shell(id, f"set -e\ngates={project.gates}\n{STAY}\n{script}", **keys)


def why(project: Project, task: str) -> str:
    return project.call("why", str(project.track), task).expect(0).out


def resolve(project: Project, *options: str) -> dict[str, Any]:
    """Run, look on while the deadlock lasts, and see it resolved; return the payload of DEADLOCK_DETECTED."""
    run = project.start_run("--quiet", *options)
    found = project.wait_recorded("DEADLOCK_DETECTED")
    victim = found["task"]
    wait_for((project.gates / f"stopped-{victim}").exists, "the victim to be told to stop")
    assert not project.records("DEADLOCK_RESOLVED")
    for member in found["payload"]["members"][:3]:
        text = why(project, member["task"])
        assert "deadlock" in text.lower(), text
        assert found["payload"]["victim"] in text or victim in text, text
    (project.gates / "looked").touch()
    run.finish().expect(0)
    check_end(project, found)
    payload = found["payload"]
    assert isinstance(payload, dict)
    return payload


def check_end(project: Project, found: dict[str, Any]) -> None:
    """The edge that closed the circle was recorded together with its name; the victim's attempt cost no retry."""
    closing = [record for record in project.records("WAIT_BEGAN") if record["seq"] < found["seq"]][-1]
    assert closing["t"] == found["t"], "named in the moment in which its last edge was seen"
    assert {task["status"] for task in project.status()["tasks"]} == {"done"}
    (resolved,) = project.records("DEADLOCK_RESOLVED")
    assert resolved["payload"]["id"] == found["payload"]["id"]
    stops = project.records("STOP")
    assert [(stop["attempt"], stop["payload"]["reason"]) for stop in stops] == [
        (found["payload"]["victim"], "deadlock_victim")
    ]
    ends = [end["payload"] for end in project.records("ATTEMPT_ENDED") if end["attempt"] == found["payload"]["victim"]]
    assert [(end["error_class"], end["counted"]) for end in ends] == [("deadlock_victim", False)]
    assert list((project.bus / "locks").glob("*.grant")) == list((project.bus / "waits").glob("*.json")) == []


def members(payload: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """What each of the tasks waits for: (kind, what)."""
    return {
        member["task"]: [(edge["kind"], edge["what"]) for edge in member["waits_for"]] for member in payload["members"]
    }


def test_requirement_12_two_workers_that_lock_two_files_the_other_way_round(stage: Project) -> None:
    stage.plan(
        [
            worker(stage, "1", "conductor bus lock a; meet 2; conductor bus lock b"),
            worker(stage, "2", "conductor bus lock b; meet 1; conductor bus lock a"),
        ]
    )
    found = resolve(stage)
    assert members(found) == {"1": [("lock", "b")], "2": [("lock", "a")]}
    youngest = stage.records("WORKER_DISPATCHED")[1]["attempt"]
    assert (found["victim"], found["rule"]) == (youngest, "youngest")


def test_requirement_12_three_workers_in_a_circle_of_three_files(stage: Project) -> None:
    stage.plan(
        [
            worker(stage, "1", "conductor bus lock a; meet 2 3; conductor bus lock b"),
            worker(stage, "2", "conductor bus lock b; meet 1 3; conductor bus lock c"),
            worker(stage, "3", "conductor bus lock c; meet 1 2; conductor bus lock a"),
        ]
    )
    found = resolve(stage, "--deadlock-victim", "oldest")
    assert members(found) == {"1": [("lock", "b")], "2": [("lock", "c")], "3": [("lock", "a")]}
    oldest = stage.records("WORKER_DISPATCHED")[0]["attempt"]
    assert (found["victim"], found["rule"]) == (oldest, "oldest")


def test_requirement_12_a_lock_and_a_wait_for_the_task_that_waits_for_it(stage: Project) -> None:
    stage.plan(
        [
            worker(stage, "1", "conductor bus lock a; meet 2; conductor bus wait 2"),
            worker(stage, "2", "meet 1; conductor bus lock a"),
        ]
    )
    found = resolve(stage)
    assert members(found) == {"1": [("task", "2")], "2": [("lock", "a")]}
    assert found["victim"].startswith("1~"), "to stop the other one would help nobody: its task would not be done"


def test_requirement_12_a_pool_full_of_workers_that_wait_for_a_task_without_a_slot(stage: Project) -> None:
    waiters = [worker(stage, str(n), "conductor bus wait last") for n in range(1, 6)]
    stage.plan([*waiters, worker(stage, "last", "conductor bus progress 100")])
    found = resolve(stage)
    assert members(found) == {str(n): [("task", "last"), ("pool", "last")] for n in range(1, 6)}
    order = [record["task"] for record in stage.records("WORKER_DISPATCHED")]
    assert order[5] == "last", "what is waited for goes before the victim and all others"


def test_requirement_12_who_waits_for_an_answer_is_in_no_deadlock_however_many_wait_for_its_lock(
    stage: Project,
) -> None:
    stage.plan(
        [
            worker(stage, "1", "conductor bus lock a; meet; conductor bus ask 'red or blue?' > $gates/answer"),
            worker(stage, "2", "meet 1; conductor bus lock a"),
        ]
    )
    run = stage.start_run("--quiet", "--max-workers", "2")
    wait_for(lambda: len(stage.records("WAIT_BEGAN")) > 1, "both to wait")
    (question,) = (record["payload"]["wait"] for record in stage.recorded("WAIT_BEGAN", "1"))
    first, second = why(stage, "1"), why(stage, "2")
    assert "red or blue?" in first
    assert question in first
    assert "a" in second
    assert "1" in second
    assert stage.statuses() == {"1": "waiting", "2": "waiting"}
    assert stage.records("STOP", "DEADLOCK_DETECTED") == []
    stage.call("answer", str(stage.track), question, "the red one").expect(0)
    run.finish().expect(0)
    assert (stage.gates / "answer").read_text(encoding="utf-8").strip() == "the red one"
    assert stage.records("STOP", "DEADLOCK_DETECTED") == []


@pytest.mark.parametrize("end", ["a failure", "SIGINT"])
def test_a_wait_for_what_an_ending_run_does_not_start_is_no_deadlock_and_ends_by_itself(
    stage: Project, end: str
) -> None:
    """Ctrl-C once lets running tasks end: the one that waits hears the news, and does what it wants with that."""
    stage.plan(
        [
            stage.task("f", gated=True),
            stage.task("g", after=["f"]),
            worker(stage, "i", "conductor bus wait g 2>&1 || echo lonely"),
            stage.task("x", gated=True, retries=0),
        ]
    )
    run = stage.start_run("--quiet", *(["--fail-fast"] if end == "a failure" else []))
    stage.wait_recorded("WAIT_BEGAN", "i")
    stage.wait_started("f", "x")
    if end == "SIGINT":
        run.send(signal.SIGINT)
    else:
        stage.open_gate("x", code=1)
    stage.wait_recorded("TASK_COMPLETE", "i")
    stage.open_gate("f", "x")
    run.finish()
    assert "lonely" in stage.printed("i")
    assert "task g will not be started: the run is ending" in stage.printed("i")
    assert not stage.records("DEADLOCK_DETECTED")
    assert stage.statuses()["i"] == "done"
