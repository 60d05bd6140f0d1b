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


def why(project: Project, task: str) -> str:
    """What `why` says of a task, before it tells what happened."""
    return project.call("why", str(project.track), task).expect(0).out.partition("What happened")[0]


def shown(project: Project, task: str) -> str:
    """The line of a task in `status`."""
    lines = project.call("status", str(project.track)).expect(0).out.splitlines()
    return next(line for line in lines if f" {task} " in line)


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
    assert "quiet" in shown(project, "shown")
    assert "It is quiet: no output, no processor time, no message for 2." in why(project, "shown")
    assert [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED")] == ["hung", None]
    assert project.recorded("ATTEMPT_ENDED", "hung")[0]["payload"]["counted"]
    say_something(project, "shown")
    project.wait_recorded("ATTEMPT_LIFE", "shown", times=2)
    assert lives(project, "shown")[:2] == ["quiet", "working"], "a message is a sign of life"
    (project.dir / "go").touch()
    let_go(project, "shown")
    run.finish().expect(0)
    assert {record["task"] for record in project.recorded("ATTEMPT_LIFE")} == {"shown", "hung"}
    assert len(project.recorded("WORKER_DISPATCHED")) == 6, "nobody else was touched"


def test_requirement_22_who_is_stuck_or_finished_is_named_and_only_who_finished_is_ended(
    project: Project,
) -> None:
    """Stuck: its worker stands still. Finished: its result is there, and its worker does not end. Who waits for the
    file that its worker locks before it begins is neither."""
    nodes = [silent(project, id) for id in ("stuck", "finished")]
    nodes += [silent(project, id, files=[f"./{page}"]) for id, page in (("one", "page"), ("two", "x/../page"))]
    run = start(project, *nodes, stale_after="10m", flags=("--on-conflict", "lock"))
    who = {task: identity(project, task) for task in ("stuck", "finished")}
    for one in who.values():
        os.kill(one.worker, signal.SIGSTOP)
    let_go(project, "finished")
    wait_for(lambda: not alive(who["finished"].command), "the end of a command")
    hand_in_for(project, who["finished"].attempt)
    first, last = lock_in_turn(project)
    project.wait_recorded("ATTEMPT_LIFE", "stuck")
    assert "stuck: " in shown(project, "stuck")
    assert "is stuck: its worker gave no sign of life for" in why(project, "stuck")
    project.wait_recorded("TASK_COMPLETE", "finished")
    assert not alive(who["finished"].worker)
    assert alive(who["stuck"].worker)
    os.kill(who["stuck"].worker, signal.SIGCONT)
    project.wait_recorded("ATTEMPT_LIFE", "stuck", times=2)
    for id in ("stuck", first, last):
        let_go(project, id)
    run.finish().expect(0)
    found = {id: lives(project, id) for id in ("stuck", "finished", first, last)}
    assert found == {"stuck": ["stuck", "working"], "finished": ["finished"], first: [], last: []}
    assert len(project.recorded("WORKER_DISPATCHED")) == 4


def hand_in_for(project: Project, attempt: str) -> None:
    """Write what its worker would have written, had it stood still a moment later."""
    hand = open_hand(project.bus, AttemptId(attempt))
    hand.finish(ending("ok"))
    hand.close()


def lock_in_turn(project: Project) -> tuple[str, str]:
    """Return who of `one` and `two` has the file, and who is told to wait for it."""
    (wait,) = wait_for(lambda: project.recorded("WAIT_BEGAN"), "a wait")
    first, last = ("two", "one") if wait["task"] == "one" else ("one", "two")
    assert wait["payload"]["what"] == ["page"]
    assert f"Waits for the lock of page, after {first}." in why(project, last)
    (status,) = (task for task in project.status()["tasks"] if task["id"] == last)
    assert status["status"] == "waiting"
    assert [(wait["kind"], wait["what"], wait["holder"]) for wait in status["waits_for"]] == [("lock", "page", first)]
    return first, last


def say_something(project: Project, task: str) -> None:
    """Hand in a message for an attempt, as any process of it can."""
    attempt = AttemptId(project.recorded("WORKER_DISPATCHED", task)[0]["attempt"])
    hand = open_hand(project.bus, attempt)
    hand.publish(Message(os.urandom(16).hex(), "NOTE", attempt, "", {"text": "still here"}))
    hand.close()


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
    assert "cannot be ended" in why(project, "a")
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


def test_requirement_21_no_time_runs_while_a_person_is_asked(project: Project) -> None:
    """Neither the time limit nor the time without a sign of life: the answer comes long after both."""
    ask = "answer=$(conductor bus ask 'Which?'); echo said $answer"
    run = start(project, project.shell("a", ask, timeout="1s", stale_after="1s"))
    asked = project.wait_recorded("QUESTION", "a")["payload"]
    wait_for(lambda: _stood_for(project, 2.0), "two seconds and more")
    assert project.statuses()["a"] == "waiting"
    assert 'Waits for an answer to "Which?"' in why(project, "a")
    project.call("answer", str(project.track), asked["id"], "this one").expect(0)
    run.finish().expect(0)
    assert project.printed("a") == "said this one\n"
    assert not project.recorded("ATTEMPT_LIFE")


def _stood_for(project: Project, seconds: float) -> bool:
    """Tell whether the worker itself has counted so much time since the last output."""
    (beat,) = [json.loads(path.read_text()) for path in project.bus.glob("heartbeats/*")] or [{}]
    return bool(beat.get("stands")) and beat["output"]["age"] > seconds
