"""A scripted worker for each state of an attempt's life: named rightly, handled as configured, nobody else touched."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bus.hand import open_hand
from bus.wire import AttemptId, Message
from conductor.testing import ending
from tests.integration.recovery import identity
from tests.integration.tools import Node, Project, Running, alive, wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

FREEZER = Path("/sys/fs/cgroup/freezer")
"""Where a process can be put that no KILL ends for now, as this machine lets us: it stands still in the kernel."""

LONG = pytest.mark.skipif("CONDUCTOR_TEST_LONG" not in os.environ, reason="half a minute: CONDUCTOR_TEST_LONG=1")


def lives(project: Project, task: str) -> list[str]:
    """What an attempt of the task was found to be, in order."""
    return [record["payload"]["life"] for record in project.recorded("ATTEMPT_LIFE", task)]


def silent(project: Project, id: str, **keys: object) -> Node:
    """A task that does nothing at all until a line comes through a pipe of its name."""
    os.mkfifo(project.dir / id)
    return project.shell(id, f"read line <{id}", **keys)


def let_go(project: Project, id: str) -> None:
    """Write that line."""
    fd = os.open(project.dir / id, os.O_WRONLY)
    os.write(fd, b"go\n")
    os.close(fd)


CONFIG = 'heartbeat = "0.2s"\nterminate_grace = "0.3s"\nretry_delay = "0.01s"\n'


def start(project: Project, *nodes: Node, stale_after: str = "2s", flags: Sequence[str] = ()) -> Running:
    """Start a run of these tasks, whose workers beat often."""
    project.config(f'{CONFIG}stale_after = "{stale_after}"\n')
    project.plan(nodes)
    run = project.start_run(*flags)
    project.wait_recorded("WORKER_DISPATCHED")
    return run


def test_requirement_22_who_is_quiet_is_named_and_only_acted_on_where_the_task_says_so(project: Project) -> None:
    """Beside them: workers that print, compute or write their file all the time, within the same limit."""
    until = "until [ -e go ]; do {}; done"
    often = {"stale_after": "2s"}
    run = start(
        project,
        silent(project, "shown"),
        project.shell("hung", "[ -e once ] && exit; touch once; sleep 600", **often),
        project.shell("prints", until.format("echo .; sleep 0.3"), **often),
        project.shell("computes", until.format(":"), **often),
        project.shell("writes", until.format("echo . >>page; sleep 0.3"), files=["page"], **often),
    )
    project.wait_recorded("ATTEMPT_LIFE", "shown")
    project.wait_recorded("TASK_COMPLETE", "hung")
    assert lives(project, "shown") == ["quiet"]
    assert project.statuses()["shown"] == "running"
    assert [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED")] == ["hung", None]
    assert project.recorded("ATTEMPT_ENDED", "hung")[0]["payload"]["counted"]
    (project.dir / "go").touch()
    let_go(project, "shown")
    run.finish().expect(0)
    assert {record["task"] for record in project.recorded("ATTEMPT_LIFE")} == {"shown", "hung"}
    assert len(project.recorded("WORKER_DISPATCHED")) == 6, "nobody else was touched"


def test_requirement_22_a_message_is_a_sign_of_life(project: Project) -> None:
    run = start(project, silent(project, "a"))
    project.wait_recorded("ATTEMPT_LIFE", "a")
    attempt = AttemptId(project.recorded("WORKER_DISPATCHED", "a")[0]["attempt"])
    hand = open_hand(project.bus, attempt)
    hand.publish(Message(os.urandom(16).hex(), "NOTE", attempt, "", {"text": "still here"}))
    hand.close()
    project.wait_recorded("ATTEMPT_LIFE", "a", times=2)
    assert lives(project, "a") == ["quiet", "working"]
    let_go(project, "a")
    run.finish().expect(0)


def test_a_stuck_worker_is_named_and_one_that_finished_and_does_not_end_is_ended_with_its_result_kept(
    project: Project,
) -> None:
    run = start(project, silent(project, "stuck"), silent(project, "finished"), stale_after="10m")
    who = {task: identity(project, task) for task in ("stuck", "finished")}
    for one in who.values():
        os.kill(one.worker, signal.SIGSTOP)
    let_go(project, "finished")
    wait_for(lambda: not alive(who["finished"].command), "the end of a command")
    # What its worker would have written, had it stood still a moment later.
    hand = open_hand(project.bus, AttemptId(who["finished"].attempt))
    hand.finish(ending("ok"))
    hand.close()
    project.wait_recorded("ATTEMPT_LIFE", "stuck")
    project.wait_recorded("TASK_COMPLETE", "finished")
    assert lives(project, "finished") == ["finished"]
    assert not alive(who["finished"].worker)
    assert lives(project, "stuck") == ["stuck"]
    assert alive(who["stuck"].worker)
    os.kill(who["stuck"].worker, signal.SIGCONT)
    project.wait_recorded("ATTEMPT_LIFE", "stuck", times=2)
    assert lives(project, "stuck") == ["stuck", "working"]
    let_go(project, "stuck")
    run.finish().expect(0)
    assert len(project.recorded("WORKER_DISPATCHED")) == 2


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Callable[[int, bool], None]]:
    """Freeze a process, or let it go on. Skips where we may not."""
    folder = FREEZER / f"conductor-test-{os.getpid()}-{tmp_path.name}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("needs a freezer (cgroup v1) that we may use")

    def set(pid: int, on: bool) -> None:
        (folder / "cgroup.procs").write_text(str(pid))
        (folder / "freezer.state").write_text("FROZEN" if on else "THAWED")
        if on:
            wait_for(lambda: (folder / "freezer.state").read_text() == "FROZEN\n", "the freezing")

    yield set
    (folder / "freezer.state").write_text("THAWED")
    wait_for(lambda: not (folder / "cgroup.procs").read_text(), "the end of who was frozen")
    folder.rmdir()


@LONG
def test_requirement_18_what_no_kill_ends_is_named_unkillable_keeps_its_slot_and_ends_the_run(
    project: Project, frozen: Callable[[int, bool], None]
) -> None:
    run = start(project, silent(project, "a"), project.shell("b", "true", after=["a"]))
    who = identity(project, "a")
    frozen(who.command, True)
    run.send(signal.SIGTERM)
    life = project.wait_recorded("ATTEMPT_LIFE", "a")["payload"]
    assert life["life"] == "unkillable"
    assert f"pid {who.command} (sh), state D, user {os.getuid()}" in life["detail"]
    run.finish().expect(6)
    assert [task["status"] for task in project.status()["tasks"]] == ["failed", "blocked"]
    again = project.run().expect(4)
    assert f"pid {who.command} (sh), state D" in again.err, "no second attempt beside it"
    frozen(who.command, False)
    wait_for(lambda: not alive(who.command), "the end of what was frozen")
    assert project.call("why", str(project.track), "a").code == 0
    os.unlink(project.dir / "a")
    (project.dir / "a").write_text("go\n")
    project.run().expect(0)


def test_requirement_11_a_worker_that_waits_for_its_files_is_starting_and_named_with_who_has_them(
    project: Project,
) -> None:
    run = start(
        project,
        silent(project, "a", files=["page"]),
        silent(project, "b", files=["./page"]),
        stale_after="10m",
        flags=("--on-conflict", "lock"),
    )
    project.wait_recorded("ATTEMPT_LIFE")
    (life,) = project.recorded("ATTEMPT_LIFE")
    first, last = ("b", "a") if life["task"] == "a" else ("a", "b")
    assert life["payload"]["life"] == "starting"
    (wait,) = project.recorded("WAIT_BEGAN")
    assert (wait["task"], wait["payload"]["what"]) == (last, ["page"])
    let_go(project, first)
    project.wait_recorded("ATTEMPT_LIFE", last, times=2)
    assert lives(project, last) == ["starting", "working"]
    let_go(project, last)
    run.finish().expect(0)


def test_requirement_21_no_time_runs_while_a_person_is_asked(project: Project) -> None:
    """Neither the time limit nor the time without a sign of life: the answer comes long after both."""
    ask = "answer=$(conductor bus ask 'Which?'); echo said $answer"
    run = start(project, project.shell("a", ask, timeout="1s", stale_after="1s"))
    asked = project.wait_recorded("QUESTION", "a")["payload"]
    wait_for(lambda: _stood_for(project, 2.0), "two seconds and more")
    project.call("answer", str(project.track), asked["id"], "this one").expect(0)
    run.finish().expect(0)
    assert project.printed("a") == "said this one\n"
    assert not project.recorded("ATTEMPT_LIFE")


def _stood_for(project: Project, seconds: float) -> bool:
    """Tell whether the worker itself has counted so much time since the last output."""
    (beat,) = [json.loads(path.read_text()) for path in project.bus.glob("heartbeats/*")] or [{}]
    return bool(beat.get("stands")) and beat["output"]["age"] > seconds
