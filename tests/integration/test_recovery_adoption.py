"""A conductor that is killed, and the next one: living workers are adopted, finished ones are believed, dead ones lost.

Real processes throughout. What only depends on the order of looking is tested in `tests/unit/runtime`.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.integration.recovery import all_of, crash, gated, identity, quarantined
from tests.integration.tools import Project, alive, kill, wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

FIVE = ("a", "b", "c", "d", "e")
LONG = pytest.mark.skipif("CONDUCTOR_TEST_LONG" not in os.environ, reason="half a minute: CONDUCTOR_TEST_LONG=1")


@pytest.mark.parametrize("seconds", [0.0, 1.0, pytest.param(30.0, marks=LONG)])
def test_requirement_14_five_busy_workers_are_adopted(project: Project, seconds: float) -> None:
    project.plan([gated(project, task) for task in FIVE])
    crash(project, *FIVE)
    threading.Event().wait(seconds)
    before = {task: identity(project, task) for task in FIVE}
    again = project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", times=5)
    assert {task: identity(project, task) for task in FIVE} == before
    project.open_gate(*FIVE)
    again.finish().expect(0)
    assert sorted(record["task"] for record in project.recorded("WORKER_DISPATCHED")) == sorted(FIVE)
    for task in FIVE:
        assert project.printed(task) == f"{task} begins\n{task} ends\n", "the same log files go on"
    assert not quarantined(project)


def test_requirement_14_results_written_while_no_conductor_lived_are_believed(project: Project) -> None:
    project.plan([gated(project, task) for task in FIVE])
    crash(project, *FIVE)
    project.open_gate(*FIVE)
    wait_for(lambda: not project.processes() and len(list(project.bus.glob("attempts/*/*/exit.json"))) == 5, "the ends")
    project.run().expect(0)
    assert len(project.recorded("WORKER_DISPATCHED")) == 5
    assert not project.recorded("ATTEMPT_ADOPTED")
    assert set(project.statuses().values()) == {"done"}
    assert not list((project.bus / "inbox").iterdir())
    assert not quarantined(project)


def test_requirement_14_a_worker_that_is_suspended_is_adopted_and_not_lost(project: Project) -> None:
    """Its lock is held, so it is alive, whatever it does; the result that it writes later is believed."""
    project.plan([gated(project, "a"), project.shell("b", "true")])
    crash(project, "a")
    worker = identity(project, "a").worker
    os.kill(worker, signal.SIGSTOP)
    try:
        again = project.start_run()
        project.wait_recorded("ATTEMPT_ADOPTED", "a")
        project.open_gate("a")
        wait_for(lambda: not alive(identity(project, "a").command), "the end of the command", patience=5.0)
        assert not project.recorded("ATTEMPT_ENDED", "a")
    finally:
        os.kill(worker, signal.SIGCONT)
    again.finish().expect(0)
    assert len(project.recorded("WORKER_DISPATCHED", "a")) == 1


def test_requirement_14_an_order_that_a_suspended_warm_process_never_read_is_no_worker(project: Project) -> None:
    """It would hold the lock of the attempt for ever, and no conductor could tell that from a worker that lives."""
    project.plan([gated(project, "a"), gated(project, "b"), project.task("c", after=["b"])])
    run = project.start_run()
    for task in ("a", "b"):
        wait_for((project.dir / f"{task}.up").exists, f"the start of {task}")
    worker = identity(project, "a").worker
    [warm] = [int(pid) for pid in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
    os.kill(warm, signal.SIGSTOP)
    project.open_gate("b")
    attempt = project.wait_recorded("WORKER_DISPATCHED", "c")["attempt"]
    wait_for(lambda: list(project.bus.glob(f"attempts/*/{attempt}/live")), "the order")
    run.send(signal.SIGKILL)
    run.finish()
    wait_for(lambda: not alive(warm), "the end of the warm process", patience=5.0)
    assert alive(worker)
    again = project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    project.wait_recorded("TASK_COMPLETE", "c")
    project.open_gate("a")
    again.finish().expect(0)
    assert [record["task"] for record in project.recorded("ATTEMPT_ADOPTED")] == ["a"]
    assert project.starts() == ["c"]


@pytest.mark.parametrize("own_session", [False, True], ids=["in its session", "in its own session"])
def test_requirement_14_what_a_dead_worker_left_is_ended_before_it_is_lost_and_tried_again(
    project: Project, own_session: bool
) -> None:
    project.config('retry_delay = "0.01s"\n')
    stay = f"{'setsid ' if own_session else ''}sleep 600 & echo $! >pid; echo >up; wait"
    state = "state=$(cut -d' ' -f3 /proc/$(cat pid)/stat 2>/dev/null); [ ${state:-Z} = Z ] || exit 9"
    project.plan([project.shell("a", f"[ -e up ] && {{ {state}; exit; }}; {stay}", retries=1)])
    run = project.start_run()
    wait_for((project.dir / "up").exists, "the command")
    run.send(signal.SIGKILL)
    run.finish()
    kill(identity(project, "a").worker)
    left = int((project.dir / "pid").read_text())
    assert alive(left)
    project.run().expect(0)
    assert not alive(left)
    assert [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED")] == ["lost", None]


def test_a_stop_that_was_begun_goes_on_after_a_restart(project: Project) -> None:
    """STOP is journaled, then the conductor dies, and the worker with it: the next one ends the tree. A command that
    was told to stop is not taken up again as if nothing had been said."""
    project.config('terminate_grace = "1h"\n')
    project.plan([project.task("a", "--stubborn", gated=True)])
    run = project.start_run()
    project.wait_started("a")
    command = project.notes()[0]["pid"]
    run.send(signal.SIGTERM)
    project.wait_recorded("STOP", "a")
    run.send(signal.SIGKILL)
    run.finish()
    kill(identity(project, "a").worker)
    assert alive(command)
    again = project.start_run()
    ended = project.wait_recorded("ATTEMPT_ENDED", "a")["payload"]
    assert (ended["error_class"], ended["counted"]) == ("stopped", False)
    assert not alive(command)
    project.open_gate("a")
    again.finish().expect(0)
    assert len(project.recorded("WORKER_DISPATCHED", "a")) == 2


@pytest.mark.parametrize("policy", ["keep", "never_kill"])
def test_a_daemon_that_was_left_on_purpose_is_no_loss(project: Project, policy: str) -> None:
    """The result came while no conductor lived; accepting it must not end what the task may leave behind."""
    if policy == "never_kill":
        project.config('never_kill = ["sleep"]\n')
    leave = "setsid sleep 600 >/dev/null 2>&1 & echo $! >daemon"
    node = project.shell("a", f"{leave}; echo a begins; {all_of(project, 'a')}")
    project.plan([{**node, **({"leftovers": "keep"} if policy == "keep" else {})}])
    crash(project, "a")
    project.open_gate("a")
    wait_for(lambda: list(project.bus.glob("attempts/*/*/exit.json")), "the result")
    daemon = int((project.dir / "daemon").read_text())
    try:
        project.run().expect(0)
        assert alive(daemon)
        assert [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED")] == [None]
    finally:
        kill(daemon)


@pytest.mark.parametrize("policy", ["keep", "never_kill", "kill"])
def test_what_may_be_left_behind_is_spared_also_where_the_worker_died(project: Project, policy: str) -> None:
    """The command has ended and left a daemon, a verify command runs, the worker is killed: the attempt is lost, the
    verify command is ended, the daemon lives where policy says so. A program of never_kill is spared in any case."""
    project.config('retry_delay = "0.01s"\n' + ('never_kill = ["sleep"]\n' if policy == "never_kill" else ""))
    leave = "[ -e up ] || { setsid sleep 600 >/dev/null 2>&1 & echo $! >daemon; }"
    check = ["sh", "-c", "[ -e up ] && exit 0; echo >up; exec tail -f /dev/null"]
    node = project.shell("a", leave, retries=1, verify=[check])
    project.plan([{**node, **({"leftovers": "keep"} if policy == "keep" else {})}])
    daemon = 0
    try:
        if policy == "kill":  # nothing is left then: the worker itself sweeps before it verifies
            project.config('retry_delay = "0.01s"\nterminate_grace = "1h"\n')
            stubborn = "trap '' TERM; echo >up; while :; do sleep 600; done"
            node["run"] = [
                "sh",
                "-c",
                f'[ -e up ] || {{ setsid sh -c "{stubborn}" >/dev/null 2>&1 & echo $! >daemon; }}',
            ]
            project.plan([node])
        run = project.start_run()
        wait_for((project.dir / "up").exists, "the moment")
        daemon = int((project.dir / "daemon").read_text())
        kill(identity(project, "a").worker)
        run.finish().expect(0)
        assert alive(daemon) == (policy != "kill")
        assert [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED")] == ["lost", None]
        assert not [line for line in project.processes().values() if line.startswith("tail")]
    finally:
        if daemon:
            kill(daemon)


def test_requirement_16_a_worker_killed_between_its_commands_end_and_the_result_is_lost(project: Project) -> None:
    """The command ended with exit code 0, and nobody can vouch for it any more: lost, never done."""
    project.config('retry_delay = "0.01s"\nterminate_grace = "1h"\n')
    stay = "trap '' TERM; echo >up; while :; do sleep 600; done"
    project.plan([project.shell("a", f'[ -e up ] && exit 3; (sh -c "{stay}" &); exit 0', retries=1)])
    run = project.start_run()
    wait_for((project.dir / "up").exists, "what the command left")
    wait_for(lambda: not alive(identity(project, "a").command), "the command's end")
    kill(identity(project, "a").worker)
    run.finish().expect(1)
    assert [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED")] == ["lost", "exit"]
    assert project.statuses() == {"a": "failed"}


def test_requirement_16_code_and_signal_are_both_kept(project: Project) -> None:
    project.plan([project.shell("code", "exit 7", retries=0), project.shell("signal", "kill -9 $$", retries=0)])
    project.run().expect(1)
    exits = {record["task"]: record["payload"]["exit"] for record in project.recorded("ATTEMPT_ENDED")}
    assert exits == {"code": {"code": 7, "signal": None}, "signal": {"code": None, "signal": 9}}
