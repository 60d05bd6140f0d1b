"""A lack of descriptors: refused before any work, or lived through; never a crash, never a run that cannot be left."""

from __future__ import annotations

import resource
import select
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from bus.wire import WorkerSpec
from conductor.runtime import descriptors
from tests.integration.test_disks_full import limited, said, two, wait_said
from tests.integration.tools import START, Project, wait_for
from tests.integration.worker.conftest import Bench


@pytest.mark.parametrize(("limit", "workers"), [(24, 1), (descriptors.BASE + descriptors.PER_WORKER * 40 - 1, 40)])
def test_too_few_descriptors_are_refused_before_any_work(project: Project, limit: int, workers: int) -> None:
    project.plan([project.task(str(number)) for number in range(workers)])
    program = ("sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", sys.executable, "-E", "-P", str(START))
    error = project.run("--max-workers", str(workers), program=program).expect(2).err
    assert f"only {limit} files may be open at once" in error
    assert "hint: raise it in the shell that starts the run: `ulimit -n" in error
    assert not project.bus.exists()


def test_a_low_limit_is_raised_for_the_run_and_commands_get_theirs_back(project: Project) -> None:
    two(project)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = ("sh", "-c", 'ulimit -Sn 30; exec "$@"', "sh", sys.executable, "-E", "-P", str(START))
    running = project.start_run("--no-watch", program=program)
    project.wait_started("1")
    command = next(pid for pid, line in project.processes().items() if "recorder.py" in line)
    assert resource.prlimit(command, resource.RLIMIT_NOFILE) == (30, hard)
    assert resource.prlimit(running.pid, resource.RLIMIT_NOFILE)[0] == min(hard, descriptors.AMPLE)
    project.open_gate("1")
    running.finish().expect(0)


def test_requirement_20_a_run_without_descriptors_can_be_left_with_term(project: Project) -> None:
    two(project)
    running = project.start_run("--no-watch")
    project.wait_started("1")
    with limited(running.pid, resource.RLIMIT_NOFILE, 3):
        (project.bus / "control" / "00000001-noted").touch()
        wait_said(running, "Too many open files; trying again")
        running.send(signal.SIGTERM)
        running.finish().expect(143)
    assert "Traceback" not in said(running)


def test_a_worker_whose_pidfd_could_not_be_received_is_settled_by_its_lock(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    specs = [bench.shell("exit 3") for _ in range(3)]
    poller = select.poll()
    poller.register(bench.launcher.wake_fds()[0], select.POLLIN)
    assert poller.poll(5000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        first = bench.life(specs[0].attempt)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert first == "lost"
    assert bench.launcher.may_have_run(specs[0].attempt)
    for spec in specs:
        wait_for(partial(has_ended, bench, spec), "the worker's end")
        assert bench.host.read_exit(spec.attempt) is not None
    bench.launcher.close()
    bench.host.close()


def has_ended(bench: Bench, spec: WorkerSpec) -> bool:
    """Tell whether nobody holds the attempt's lock any more."""
    return bench.life(spec.attempt) != "pending" and not bench.host.is_live(spec.attempt)
