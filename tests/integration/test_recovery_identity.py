"""Who a process is: after a reboot, in another pid namespace, or under a pid that was used again, nobody is signalled.

A reboot is simulated by a claim that names another boot. The processes that such a test leaves alive are what must not
be touched: were the boot really another one, they would be somebody else's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.recovery import (
    change_claim,
    claim,
    crash,
    gated,
    identity,
    lines_of,
    quarantined,
)
from tests.integration.tools import START, Project, alive, kill, wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


def can_unshare() -> bool:
    """Whether a pid namespace can be made here."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode == 0


NAMESPACES = pytest.mark.skipif(not can_unshare(), reason="needs the right to make a pid namespace (root)")


def ended(project: Project, task: str) -> list[tuple[str | None, bool]]:
    """Class, and whether it counts, of each verdict."""
    return [
        (record["payload"]["error_class"], record["payload"]["counted"])
        for record in project.recorded("ATTEMPT_ENDED", task)
    ]


def test_requirement_23_after_a_reboot_nothing_is_adopted_and_nothing_signalled(project: Project) -> None:
    project.plan([gated(project, "a", retries=0)])
    crash(project, "a")
    before = identity(project, "a")
    kill(before.worker)
    wait_for(lambda: not alive(before.worker), "the worker's end")  # a stopped child of a dying parent gets a HUP
    change_claim(project, "a", boot="00000000-0000-0000-0000-000000000000")
    os.kill(before.command, signal.SIGSTOP)
    try:
        project.open_gate("a")
        project.run().expect(0)
        assert alive(before.command), "who has the pid of an earlier boot is left alone"
    finally:
        kill(before.command)
    assert ended(project, "a") == [("reboot", False), (None, False)]
    assert not project.recorded("ATTEMPT_ADOPTED")


def test_requirement_23_a_result_from_before_the_reboot_is_believed(project: Project) -> None:
    project.plan([gated(project, "a")])
    crash(project, "a")
    project.open_gate("a")
    wait_for(lambda: not project.processes(), "the worker's end")
    change_claim(project, "a", boot="00000000-0000-0000-0000-000000000000")
    project.run().expect(0)
    assert ended(project, "a") == [(None, False)]
    assert len(project.recorded("WORKER_DISPATCHED")) == 1


def test_a_worker_of_another_machine_is_adopted_by_its_lock_and_stopped_by_its_file(project: Project) -> None:
    """The lock is held, so it lives; its pids mean nothing here, so it gets no signal and stops by `revoked`."""
    project.plan([gated(project, "a")])
    crash(project, "a")
    change_claim(project, "a", boot="00000000-0000-0000-0000-000000000000")
    again = project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    again.send(signal.SIGTERM)
    again.finish().expect(143)
    assert ended(project, "a") == [("stopped", False)]
    (exit_file,) = project.bus.glob("attempts/*/*/exit.json")
    assert json.loads(exit_file.read_text())["stop_reason"] == "stopped"


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with a run."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("worker_lives", [False, True])
def test_requirement_15_a_pid_that_was_used_again_is_never_signalled(
    project: Project, bystander: subprocess.Popen[bytes], worker_lives: bool
) -> None:
    """A claim that names a living stranger: by the wrong start, or, forged, by the right one. It does not hold the
    attempt's lock, so it is not the worker."""
    project.plan([gated(project, "a", retries=1)])
    project.config('retry_delay = "0.01s"\n')
    crash(project, "a")
    before = identity(project, "a")
    ticks = Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2].split()[19]
    change_claim(project, "a", pid=bystander.pid, start_ticks=int(ticks) if worker_lives else 1)
    head, command = lines_of(claim(project, "a"))
    stranger = {**json.loads(command), "pid": bystander.pid, "session": bystander.pid, "start_ticks": 1}
    claim(project, "a").write_text(f"{head}\n{json.dumps(stranger)}\n")
    if not worker_lives:
        kill(before.worker)
    again = project.start_run()
    if worker_lives:
        project.wait_recorded("ATTEMPT_ADOPTED", "a")
        again.send(signal.SIGTERM)
        again.finish().expect(143)
        assert ended(project, "a") == [("stopped", False)]
    else:
        assert project.wait_recorded("ATTEMPT_ENDED", "a")["payload"]["error_class"] == "lost"
        project.open_gate("a")
        again.finish().expect(0)
    assert bystander.poll() is None
    assert not alive(before.command)


def test_a_claim_that_is_none_ends_no_conductor(project: Project) -> None:
    """Whatever runs in the attempt can write there. The worker is found by the lock that it holds."""
    project.plan([gated(project, "a")])
    crash(project, "a")
    change_claim(project, "a", pid=1 << 40)
    again = project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    project.open_gate("a")
    again.finish().expect(0)
    assert len(project.recorded("WORKER_DISPATCHED")) == 1


class Container:
    """A pid namespace of its own, whose first process starts a conductor and lives on after it."""

    def __init__(self, project: Project) -> None:
        script = '"$@" & wait $!; exec sleep 600'
        conductor = [sys.executable, "-E", "-P", str(START), "run", str(project.track)]
        self.process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh", *conductor],
            env=project.environment(),
            cwd=project.dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._project = project

    def kill_conductor(self) -> None:
        """Kill the conductor, by the pid that it has out here."""
        line = f"{START} run {self._project.track}"
        programs = self._project.processes().items()
        (pid,) = [pid for pid, args in programs if args.startswith(sys.executable) and args.endswith(line)]
        kill(pid)
        wait_for(lambda: not alive(pid), "the conductor's end")

    def end(self) -> None:
        """End it with everything in it."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def container(project: Project) -> Iterator[Container]:
    """A container with a run whose task `a` is at work and whose conductor is dead."""
    project.plan([gated(project, "a", retries=0)])
    made = Container(project)
    try:
        wait_for((project.dir / "a.up").exists, "the start of a")
        identity(project, "a")
        made.kill_conductor()
        yield made
    finally:
        made.end()


@NAMESPACES
def test_a_worker_in_another_container_is_adopted_by_its_lock(project: Project, container: Container) -> None:
    again = project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    project.open_gate("a")
    again.finish().expect(0)
    assert ended(project, "a") == [(None, False)]
    assert len(project.recorded("WORKER_DISPATCHED")) == 1
    assert not quarantined(project)


@NAMESPACES
def test_a_worker_in_another_container_is_stopped_by_its_file(project: Project, container: Container) -> None:
    project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    project.call("stop", str(project.track)).expect(0)
    project.wait_recorded("RUN_ENDED")
    assert ended(project, "a") == [("stopped", False)]


@NAMESPACES
def test_requirement_23_a_container_that_is_gone_is_like_a_reboot(project: Project, container: Container) -> None:
    numbers = identity(project, "a")
    assert numbers.worker < 100, "pids of the container, which mean others out here"
    container.end()
    project.open_gate("a")
    project.run().expect(0)
    assert ended(project, "a") == [("reboot", False), (None, False)]


@NAMESPACES
def test_a_run_goes_on_inside_a_container_and_leaves_the_pids_out_there_alone(project: Project) -> None:
    """The other way round: what was recorded out here cannot be seen in there at all, and its lock still tells."""
    project.plan([gated(project, "a", retries=0)])
    crash(project, "a")
    inside = Container(project)
    try:
        project.wait_recorded("ATTEMPT_ADOPTED", "a")
        project.open_gate("a")
        project.wait_recorded("RUN_ENDED")
        assert ended(project, "a") == [(None, False)]
    finally:
        inside.end()


@NAMESPACES
def test_a_proc_of_another_namespace_is_not_believed(project: Project, bystander: subprocess.Popen[bytes]) -> None:
    """In a pid namespace without a /proc of its own every number in /proc is somebody else's: it is done without."""
    project.plan([project.shell("a", "sleep 600 & exit 3", retries=0), project.task("b")])
    inside = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-E", "-P", str(START)]
    project.call("run", str(project.track), program=inside).expect(1)
    assert ended(project, "a") == [("exit", True)]
    assert ended(project, "b") == [(None, False)]
    assert not [line for line in project.processes().values() if line.startswith("sleep")]
    assert bystander.poll() is None
