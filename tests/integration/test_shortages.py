"""A machine that lacks processes or descriptors in the midst of a run (requirement 32): the run waits and says so,
no task pays for it, and it goes on by itself.

The kernel exempts root from the limit on processes, so there the run belongs to a user that has no other process: what
is left of the limit can then be counted exactly.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.process import WAITS_TO_VERIFY, ProcessInfo, all_processes
from tests.integration.test_disks_full import check_ledger, limited, said, two, wait_said
from tests.integration.tools import START, Project, Running, wait_for

NOBODY = str(50_000 + os.getpid() % 10_000)
"""A user of this test process alone."""
RUN = (sys.executable, "-E", "-P", str(START))
LACKING = "Resource temporarily unavailable"


def as_user() -> tuple[str, ...]:
    """What starts a program for a user whom limits bind. It may read and write what the test made, as root."""
    if os.geteuid() != 0:
        return ()
    rights = "+dac_override,+dac_read_search"
    user = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps", rights)
    user = (*user, "--ambient-caps", rights)
    if shutil.which("setpriv") is None or subprocess.run([*user, "true"], check=False).returncode != 0:
        pytest.skip("this root may not become another user")
    return user


def program() -> tuple[str, ...]:
    return (*as_user(), *RUN)


def limit_processes(pid: int, limit: int) -> None:
    """Set the limit of a process, for what it starts; below 0 the highest that it may have."""
    code = (
        f"import resource; _, hard = resource.prlimit({pid}, resource.RLIMIT_NPROC); "
        f"resource.prlimit({pid}, resource.RLIMIT_NPROC, (hard if {limit} < 0 else {limit}, hard))"
    )
    subprocess.run([*as_user(), sys.executable, "-c", code], check=True)


def warm_process(running: Running) -> ProcessInfo:
    return next(info for info in all_processes() if info.parent == running.pid)


@contextmanager
def short_of_processes(running: Running, left: int) -> Iterator[None]:
    """Let the run have so many processes more than those it has between two tasks."""
    own = len(os.listdir(f"/proc/{running.pid}/task")) + 1
    warm = warm_process(running).pid
    limit_processes(warm, own + left if os.geteuid() == 0 else 1)
    yield
    limit_processes(warm, -1)


def paused(project: Project) -> str | None:
    """What `status` reads."""
    said: str | None = json.loads((project.bus / "conductor.json").read_bytes()).get("paused")
    return said


def check_costs_nothing(project: Project) -> None:
    assert project.records("LAUNCH_FAILED", "RETRY_SCHEDULED", "TASK_FAILED") == []
    check_ledger(project, project.bus)


def test_requirement_32_a_run_waits_for_processes_and_the_attempt_with_it(project: Project) -> None:
    two(project)
    running = project.start_run("--retries", "0", "--no-watch", program=program())
    project.wait_started("1")
    with short_of_processes(running, 0):
        project.open_gate("1")
        wait_said(running, f"paused: no worker can be started (fork: {LACKING})")
        assert paused(project) == f"no worker can be started (fork: {LACKING})"
    running.finish().expect(0)
    wait_said(running, "resumed: workers can be started again")
    assert said(running).count("paused: ") == 1
    assert len(project.recorded("WORKER_DISPATCHED", "2")) == 1
    check_costs_nothing(project)


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of this user come and go, so they cannot be counted")
def test_requirement_32_a_worker_without_room_for_its_command_uses_no_attempt(project: Project) -> None:
    two(project)
    running = project.start_run("--retries", "0", "--restart-intensity", "1/1h", "--no-watch", program=program())
    project.wait_started("1")
    with short_of_processes(running, 1):
        project.open_gate("1")
        wait_said(running, f": {LACKING})")
        project.wait_recorded("ATTEMPT_ENDED", "2")
        [ended, *_] = project.recorded("ATTEMPT_ENDED", "2")
        assert (ended["payload"]["error_class"], ended["payload"]["counted"]) == ("shortage", False)
    running.finish().expect(0)
    wait_said(running, "resumed: workers can be started again")
    assert project.starts() == ["1", "2"]
    assert project.records("LAUNCH_FAILED", "RETRY_SCHEDULED", "TASK_FAILED") == []


def test_requirement_32_work_that_is_done_waits_for_processes_to_be_verified(project: Project, tmp_path: Path) -> None:
    """The command takes all processes from its own worker, which has to start `verify` next."""
    take = (
        "import os, resource\nworker = os.getppid()\n"
        "resource.prlimit(worker, resource.RLIMIT_NPROC, (1, resource.prlimit(worker, resource.RLIMIT_NPROC)[1]))\n"
    )
    proof = tmp_path / "verified"
    run = [sys.executable, "-c", take]
    project.plan([{"id": "1", "name": "one", "run": run, "verify": [f"touch {proof}"]}])
    running = project.start_run("--retries", "0", "--no-watch", program=program())
    worker = wait_for(
        lambda: next((info for info in all_processes() if info.name == WAITS_TO_VERIFY), None), "the worker to wait"
    )
    assert not proof.exists()
    limit_processes(worker.pid, -1)
    running.finish().expect(0)
    assert proof.exists()
    [ended] = project.recorded("ATTEMPT_ENDED", "1")
    assert ended["payload"]["evidence"]["verify"] is True


def test_requirement_32_a_run_without_descriptors_waits_and_launches_once_it_has_some(project: Project) -> None:
    two(project)
    running = project.start_run("--retries", "0", "--no-watch")
    project.wait_started("1")
    with limited(running.pid, resource.RLIMIT_NOFILE, 3):
        project.open_gate("1")
        wait_said(running, "Too many open files; trying again")
        assert project.starts() == ["1"]
    running.finish().expect(0)
    assert len(project.recorded("WORKER_DISPATCHED", "2")) == 1
    check_costs_nothing(project)
