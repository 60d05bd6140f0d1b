"""A bus inside a repository, a bus elsewhere, a bus that was moved, deleted, or made by an older program."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.integration.tools import Project, Running

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(project: Project, *arguments: str) -> str:
    """Call git in the project, as somebody without any settings."""
    environment = {
        **project.environment(),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    done = subprocess.run(["git", *arguments], cwd=project.dir, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def gated_in_git(project: Project) -> Running:
    """A repository with a run of `a` (gated) and `b` behind it, while `a` runs."""
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "plan")
    (project.dir / "work").write_text("of a\n")
    run = project.start_run()
    project.wait_started("a")
    return run


def test_git_leaves_the_bus_alone(project: Project) -> None:
    """Whatever a task, or somebody beside it, does to the tree while a run lasts."""
    run = gated_in_git(project)
    before = sorted(path.name for path in project.bus.iterdir())
    for what in ("add -A", "stash -u", "clean -fd", "clean -ffd", "checkout -q -f HEAD", "reset -q --hard"):
        (project.dir / "work").write_text("of a\n")
        assert ".message-bus" not in git(project, "status", "--porcelain", "-uall")
        git(project, *what.split())
        assert ".message-bus" not in git(project, "ls-files")
        assert sorted(path.name for path in project.bus.iterdir()) == before, what
    project.open_gate("a")
    run.finish().expect(0)
    assert project.statuses() == {"a": "done", "b": "done"}
    assert project.starts() == ["a", "b"]


def test_git_clean_with_x_takes_the_bus_and_says_so(project: Project) -> None:
    """Between two runs: the track begins anew. (Under a run it is a bus that was removed: requirement 10.)"""
    run = gated_in_git(project)
    project.open_gate("a")
    run.finish().expect(0)
    git(project, "clean", "-fdxq")
    assert not project.bus.exists()
    assert project.status()["run"]["state"] == "never_run"
    project.run().expect(0)
    assert project.starts() == ["a", "b", "a", "b"]


def test_a_bus_elsewhere_with_every_verb(project: Project) -> None:
    project.plan([project.shell("a", "conductor bus progress 50 half && echo said"), project.task("b", after=["a"])])
    elsewhere = project.root / "elsewhere" / "bus"
    elsewhere.parent.mkdir()
    here = ("--bus-dir", str(elsewhere))
    track = str(project.track)
    assert project.call("status", track, *here, "--json").expect(0).data["run"]["state"] == "never_run"
    assert project.call("doctor", track, *here).expect(0)
    project.run(*here).expect(0)
    status = project.call("status", track, *here, "--json").expect(0).data
    assert [task["status"] for task in status["tasks"]] == ["done", "done"]
    assert project.call("logs", track, "a", *here).expect(0).out == "said\n"
    assert "done" in project.call("why", track, "a", *here).expect(0).out
    events = project.call("events", track, *here, "--json", "--type", "PROGRESS").expect(0).lines
    assert [event["payload"]["pct"] for event in events] == [50]
    assert project.call("stop", track, *here, "--json").expect(0).data["state"] == "not_running"
    project.call("doctor", track, "--verify", *here).expect(0)
    assert project.run("--dry-run", *here).expect(0).out.startswith("would run 0 tasks")
    assert project.call("reset", track, *here, "--json").expect(0).data["tasks"] == ["a", "b"]
    project.run(*here).expect(0)
    assert not project.bus.exists()
    assert project.starts("b") == ["b", "b"]


def test_a_bus_that_was_moved_between_two_runs_is_the_same_bus(project: Project) -> None:
    project.plan([project.task("a"), project.shell("b", "test -e allowed", after=["a"], retries=0)])
    project.run().expect(1)
    moved = project.root / "moved"
    project.bus.rename(moved)
    (project.dir / "allowed").touch()
    project.run("--bus-dir", str(moved)).expect(0)
    assert project.starts() == ["a"]
    assert not project.bus.exists()
    project.call("doctor", str(project.track), "--verify", "--bus-dir", str(moved)).expect(0)


def test_a_bus_that_was_deleted_between_two_runs_begins_anew(project: Project) -> None:
    project.plan([project.task("a")])
    project.run().expect(0)
    shutil.rmtree(project.bus)
    assert project.call("doctor", str(project.track)).expect(0).out.count("there is no bus at") == 1
    project.run().expect(0)
    assert project.starts() == ["a", "a"]
    assert [record["payload"]["number"] for record in project.recorded("WORKER_DISPATCHED")] == [1]


def test_the_bus_of_an_older_program_is_kept_and_not_trusted(project: Project) -> None:
    project.plan([project.task("a")])
    events = project.bus / "events"
    events.mkdir(parents=True)
    (events / "TASK_COMPLETE_a.event").write_text("{}")
    old = {"id": "1", "type": "TASK_COMPLETE", "source": "worker", "timestamp": "x", "payload": {"task_id": "a"}}
    (project.bus / "queue.jsonl").write_text(json.dumps(old) + "\n")
    (project.bus / "locks.json").write_text("{}")
    found = project.call("doctor", str(project.track)).expect(0)
    assert "bus_older" in found.out
    project.bus.chmod(0o700)
    assert (
        project.call("status", str(project.track), "--json").expect(5).error["hint"]
        == f"start `conductor run {project.track}`"
    )
    run = project.run().expect(0)
    assert "the bus of an older program was moved to legacy-1/ and is not read" in run.out
    assert project.starts() == ["a"]
    assert json.loads((project.bus / "legacy-1" / "queue.jsonl").read_text()) == old
    assert "legacy-1" in project.call("doctor", str(project.track)).expect(0).out
