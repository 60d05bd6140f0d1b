"""A worker whose disk is full keeps its result, says so, and writes it once there is room; files under any umask."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from bus.wire import WorkerSpec
from conductor.runtime.launch.local import LocalLauncher
from tests.integration.tools import wait_for
from tests.integration.worker.conftest import Bench

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit")


def limit(bench: Bench, spec: WorkerSpec, size: int) -> None:
    """Let no file of the worker grow beyond `size` bytes (RLIMIT_FSIZE)."""
    worker = bench.wait_command(spec)["session"]
    _, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (size, hard))


@pytest.mark.parametrize("room", [0, 100], ids=["nothing fits", "a short write"])
def test_requirement_32_a_worker_keeps_its_result_until_there_is_room(bench: Bench, room: int) -> None:
    spec = bench.launch(("sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 7"))
    limit(bench, spec, room)
    proc = bench.host.read_proc(spec.attempt)
    assert proc is not None
    assert not bench.launcher.waits(spec.attempt, proc)
    (bench.work / "go").touch()
    wait_for(lambda: bench.launcher.waits(spec.attempt, proc), "the worker to say that it waits")
    assert not (bench.folder(spec) / "exit.json").exists()
    assert bench.host.is_live(spec.attempt)
    assert not list((bench.bus / "tmp").iterdir()), "what did not fit is undone"
    limit(bench, spec, resource.RLIM_INFINITY)
    assert bench.wait(spec).command == {"code": 7, "signal": None}
    assert len(bench.host.scan().messages) == 1


@pytest.fixture
def without_rights(bench: Bench) -> Iterator[Bench]:
    """A bench whose user lets nobody do anything with new files, not even the user."""
    bench.launcher.close()
    before = os.umask(0o777)
    try:
        bench.launcher = LocalLauncher(str(bench.bus))
        os.umask(before)
        yield bench
    finally:
        os.umask(before)


def test_the_umask_is_the_commands_and_not_the_workers(without_rights: Bench) -> None:
    bench = without_rights
    spec = bench.shell("umask; echo trouble >&2; : >made")
    assert bench.wait(spec).command == {"code": 0, "signal": None}
    assert bench.read(spec, "log") == "0777\n"
    modes = {path.name: path.stat().st_mode & 0o777 for path in bench.folder(spec).iterdir() if path.name != "live"}
    assert modes == dict.fromkeys(("proc.json", "exit.json", "log", "log.err"), 0o600)
    assert (bench.work / "made").stat().st_mode & 0o777 == 0
