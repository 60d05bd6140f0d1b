"""A worker whose machine runs short of descriptors, at any moment: it waits, says so, and keeps what was achieved."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Callable

import pytest

from bus import process
from bus.process import WAITS_FOR_FILES, WAITS_TO_LOOK, look
from bus.wire import WorkerSpec
from conductor.runtime.launch.base import NO_TRACE
from tests.integration.test_disks_full import limited
from tests.integration.tools import alive, wait_for
from tests.integration.worker.conftest import Bench
from worker import tree

pytestmark = pytest.mark.skipif(
    not hasattr(resource, "prlimit") or not process.HAVE_PROC, reason="needs prlimit and /proc"
)

LEAVES = "while [ ! -e go ]; do sleep 0.02; done; (setsid sleep 74 &); echo x >>ledger; exit 7"


def name_of(pid: int) -> str:
    found = look(pid)
    return found.name if found else ""


def test_requirement_32_finished_work_is_kept_while_a_worker_cannot_look_at_its_tree(bench: Bench) -> None:
    spec = bench.shell(LEAVES)
    worker = bench.wait_command(spec)["session"]
    with limited(worker, resource.RLIMIT_NOFILE, 3):
        (bench.work / "go").touch()
        wait_for(lambda: name_of(worker) == WAITS_TO_LOOK, "the worker to say that it waits")
        assert not (bench.folder(spec) / "exit.json").exists()
    result = bench.wait(spec)
    assert result.command == {"code": 7, "signal": None}
    assert [one["name"] for one in result.leftovers["killed"]] == ["sleep"]
    assert bench.read(spec, "worker.err") == ""


def test_requirement_32_a_stop_ends_a_command_whose_worker_cannot_look_at_its_tree(bench: Bench) -> None:
    spec = bench.launch(("sleep", "75"))
    command = bench.wait_command(spec)
    with limited(command["session"], resource.RLIMIT_NOFILE, 3):
        wait_for(lambda: bench.life(spec.attempt) == "running", "the answer")
        bench.launcher.terminate(spec.attempt)
        wait_for(lambda: not alive(command["pid"]), "the command's end")
    result = bench.wait(spec)
    assert (result.ended_by, result.command) == ("stop", {"code": None, "signal": signal.SIGTERM})


@pytest.mark.parametrize("left", range(5, 13))
def test_requirement_32_no_lack_of_descriptors_before_the_command_is_a_failure(bench: Bench, left: int) -> None:
    """Whichever step of a worker meets it first: it waits, or says that it was short, and ran nothing."""
    bench.run(("true",))  # it serves
    spec = bench.spec(("true",))
    with limited(bench.launcher.warm_pid, resource.RLIMIT_NOFILE, left):
        bench.send(spec, bench.host.create_attempt(spec.attempt))
        wait_for(lambda: is_settled(bench, spec), "what comes of it")
        assert bench.read(spec, "worker.err") == ""
        for worker in workers(bench):
            resource.prlimit(
                worker, resource.RLIMIT_NOFILE, (1024, resource.prlimit(worker, resource.RLIMIT_NOFILE)[1])
            )
    if bench.launcher.ran_short(spec.attempt):
        return
    result = bench.wait(spec)
    if result.started:
        assert result.command == {"code": 0, "signal": None}
    else:
        assert str(result.why).startswith("shortage: ")


def workers(bench: Bench) -> list[int]:
    return [info.pid for info in process.all_processes() if info.parent == bench.launcher.warm_pid and not info.dead]


def is_settled(bench: Bench, spec: WorkerSpec) -> bool:
    return bench.life(spec.attempt) == "ended" or any(name_of(pid) == WAITS_FOR_FILES for pid in workers(bench))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ended_before_its_claim_ran_nothing(bench: Bench, how: signal.Signals) -> None:
    bench.run(("true",))
    spec = bench.spec(("true",))
    with limited(bench.launcher.warm_pid, resource.RLIMIT_NOFILE, 5):
        bench.send(spec, bench.host.create_attempt(spec.attempt))
        wait_for(lambda: is_settled(bench, spec), "the worker to wait")
        for worker in workers(bench):
            os.kill(worker, how)
        wait_for(lambda: bench.life(spec.attempt) == "ended", "its end")
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, NO_TRACE), "an empty tree")
    assert not bench.launcher.may_have_run(spec.attempt)


def test_a_worker_whose_command_deleted_its_claim_may_have_run(bench: Bench) -> None:
    spec = bench.launch(("sleep", "76"))
    command = bench.wait_command(spec)
    wait_for(lambda: bench.life(spec.attempt) == "running", "the answer")
    (bench.folder(spec) / "proc.json").unlink()
    os.kill(command["session"], signal.SIGKILL)
    wait_for(lambda: bench.life(spec.attempt) == "ended", "its end")
    assert bench.launcher.may_have_run(spec.attempt)
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, NO_TRACE), "an empty tree")


def test_without_descriptors_nothing_is_proved_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where they are used up between the listing of /proc and the look at a process."""
    child = subprocess.Popen(["sleep", "77"])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    listed = os.listdir

    def then_short(place: str) -> list[str]:
        names = listed(place)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        return names

    looks: list[Callable[[], object]] = [
        lambda: tree.look_at_tree(os.getpid(), child.pid),
        lambda: look(child.pid),
        lambda: process.send_signal(child.pid, 1, signal.SIGTERM),
        process.boot_id,
    ]
    try:
        assert [info.pid for info in tree.look_at_tree(os.getpid(), child.pid)] == [child.pid]
        monkeypatch.setattr(os, "listdir", then_short)
        for one in looks:
            with pytest.raises(OSError, match="Too many open files"):
                one()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        child.kill()
        child.wait()
