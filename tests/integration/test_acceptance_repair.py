"""A journal that is damaged before its end, from the refusal to the end of the run."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from tests.integration.tools import Project, alive, wait_for


def test_a_damaged_journal_is_refused_repaired_and_gone_on_with(project: Project) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"]), project.shell("c", "exit 1", retries=0)])
    project.run().expect(1)
    assert sorted(project.starts()) == ["a", "b"]
    journal = project.bus / "queue.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], lines[4][:20] + b"?" + lines[4][21:], *lines[5:]]))
    for verb in ("run", "status"):
        error = project.call(verb, str(project.track), "--json").expect(5).error
        assert (error["code"], error["line"]) == ("bus_corrupt", 5)
        assert f"conductor doctor {project.track} --repair" in error["hint"]
    assert journal.read_bytes().count(b"?") == 1
    said = project.call("doctor", str(project.track), "--repair").expect(0).out
    assert "quarantine/" in said
    assert "the journal can be read to its end" in said
    project.plan([project.task("a"), project.task("b", after=["a"]), project.shell("c", "exit 0", retries=0)])
    if project.run().code == 1:  # the round that was cut off ends as it had; the next one reads the plan again
        project.run().expect(0)
    assert project.statuses() == {"a": "done", "b": "done", "c": "done"}
    assert sorted(project.starts()) == ["a", "b"], "what was done was done again"
    project.call("doctor", str(project.track), "--verify").expect(0)


def break_line(project: Project, number: int) -> None:
    journal = project.bus / "queue.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1][:20] + b"?" + lines[number - 1][21:]
    journal.write_bytes(b"".join(lines))


def claim_of(project: Project, task: str) -> dict[str, Any]:
    """What the worker of the task's attempt that has no result says of itself."""
    folders = project.bus.glob(f"attempts/*/{task}~*")
    (claim,) = [path / "proc.json" for path in folders if not (path / "exit.json").exists()]
    found = json.loads(claim.read_text().splitlines()[0])
    assert isinstance(found, dict)
    return found


def end_worker(claim: dict[str, Any]) -> None:
    """As the hint says."""
    os.kill(claim["pid"], signal.SIGTERM)
    wait_for(lambda: not alive(claim["pid"]), "the end of the worker")


def orphaned(project: Project) -> dict[str, Any]:
    """A round that is over; a second one in which `b` lives when its conductor is killed. Returns b's claim."""
    project.plan([project.task("a"), project.task("b", after=["a"], gated=True)])
    first = project.start_run()
    project.wait_started("b")
    project.call("stop", str(project.track)).expect(0)
    first.finish()
    second = project.start_run()
    project.wait_started("b", times=2)
    second.send(signal.SIGKILL)
    second.finish()
    return claim_of(project, "b")


def test_no_run_begins_beside_an_attempt_whose_round_was_cut_off(project: Project) -> None:
    """The journal does not tell of it any more, so it would be started a second time. Its worker is named."""
    claim = orphaned(project)
    break_line(project, 1)
    said = project.call("doctor", str(project.track), "--repair").expect(0).out
    assert "1 task was done, and the journal does not tell of it any more: a run does it again\n           a\n" in said
    assert "still alive: b~" in said
    assert f"`kill {claim['pid']}`" in said
    for _ in range(2):
        error = project.run("--json").expect(5).error
        assert error["code"] == "bus_corrupt"
        assert "still alive: b~" in error["message"]
        assert f"`kill {claim['pid']}`" in error["hint"]
    assert project.starts("b") == ["b", "b"]
    end_worker(claim)
    project.open_gate("b")
    project.run().expect(0)
    assert project.starts("b") == ["b", "b", "b"]


def test_an_attempt_of_the_round_that_goes_on_is_found_again_after_a_cut(project: Project) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"], gated=True)])
    run = project.start_run()
    project.wait_started("b")
    run.send(signal.SIGKILL)
    run.finish()
    break_line(project, 2)
    assert "still alive" not in project.call("doctor", str(project.track), "--repair").expect(0).out
    project.open_gate("b")
    project.run().expect(0)
    assert sorted(project.starts()) == ["a", "b"]


def test_numbers_go_on_above_those_of_a_round_whose_beginning_was_cut_off(project: Project) -> None:
    """No two attempts of a task have one number, over the life of the bus, whatever the journal has lost."""
    project.plan([project.shell("a", "exit 1", retries=0), project.shell("b/c", "exit 1", retries=0)])
    for _ in range(2):
        project.run().expect(1)
    break_line(project, 1)
    project.call("doctor", str(project.track), "--repair").expect(0)
    for first in (3, 4):
        project.run().expect(1)
        begun = project.recorded("RUN_STARTED")[-1]
        assert begun["payload"]["taken"] == ({"a": 2, "b/c": 2} if first == 3 else {})
        for task in ("a", "b/c"):
            assert project.recorded("WORKER_DISPATCHED", task)[-1]["payload"]["number"] == first
        assert (project.bus / "journal.cut").exists() == (first == 3)
    numbers = sorted(path.name.partition("-")[0] for path in project.bus.glob("attempts/*/*"))
    assert len(numbers) == len(set(numbers)) == 8
    project.call("doctor", str(project.track), "--verify").expect(0)


def test_an_emptied_journal_is_damage_for_every_verb_and_starts_nothing(project: Project) -> None:
    claim = orphaned(project)
    (project.bus / "queue.jsonl").write_bytes(b"")
    for verb in ("run", "status", "stop", "reset", "why", "events"):
        more = ["b"] if verb == "why" else []
        error = project.call(verb, str(project.track), *more, "--json").expect(5).error
        assert error["code"] == "bus_corrupt", verb
        assert f"conductor doctor {project.track} --repair" in error["hint"], verb
    project.call("doctor", str(project.track)).expect(5)
    project.call("doctor", str(project.track), "--repair").expect(0)
    assert "still alive: b~" in project.run("--json").expect(5).error["message"]
    assert project.starts("b") == ["b", "b"]
    end_worker(claim)


def test_a_frozen_plan_that_is_gone_is_no_dead_end(project: Project) -> None:
    """Made again where the plan is as it was; otherwise its round is lost, and what lives is named."""
    project.plan([project.task("a", gated=True)])
    run = project.start_run()
    project.wait_started("a")
    run.send(signal.SIGKILL)
    run.finish()
    (plan,) = (project.bus / "plan").iterdir()
    body = plan.read_bytes()
    plan.unlink()
    error = project.call("stop", str(project.track), "--json").expect(5).error
    assert error["message"] == "the frozen plan is not there any more"
    assert "--repair" in error["hint"]
    project.call("doctor", str(project.track), "--repair").expect(0)
    assert plan.read_bytes() == body
    plan.unlink()
    project.plan([project.task("a", gated=True), project.task("b")])
    project.call("doctor", str(project.track), "--repair").expect(0)
    assert "still alive: a~" in project.run("--json").expect(5).error["message"]
    assert project.starts("a") == ["a"]
    end_worker(claim_of(project, "a"))
