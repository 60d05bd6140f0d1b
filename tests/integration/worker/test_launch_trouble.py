"""A warm process that hangs or dies, attempts whose folder is gone: the launcher stays bounded, never two workers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from bus.layout import LIVE, attempt_dir
from bus.wire import AttemptId
from conductor.runtime.launch import local, warm
from conductor.runtime.launch.base import NO_TRACE, LaunchError, Trace
from conductor.runtime.launch.local import LocalLauncher
from conductor.runtime.launch.own_bus import OwnBus
from conductor.runtime.launch.survivors import find, worker_of
from tests.integration.tools import alive, wait_for
from tests.integration.worker.conftest import Bench
from worker.core import PERIOD


@pytest.fixture
def suspended(bench: Bench) -> Iterator[int]:
    """The pid of the bench's warm process, suspended."""
    pid = bench.launcher.warm_pid
    os.kill(pid, signal.SIGSTOP)
    yield pid
    assert not alive(pid), "a warm process that hangs was not ended"


def lost(bench: Bench, attempt: AttemptId) -> bool:
    """Whether the launcher has given the attempt up."""
    return bench.life(attempt) == "lost"


def test_a_warm_process_that_hangs_is_given_up_and_the_next_order_gets_another(
    bench: Bench, suspended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [bench.launch(("true",)) for _ in range(2)]
    bench.launcher.terminate(specs[0].attempt)
    assert {bench.life(spec.attempt) for spec in specs} == {"pending"}
    monkeypatch.setattr(local, "ANSWER_LIMIT", 0.05)
    for spec in specs:
        wait_for(lambda spec=spec: lost(bench, spec.attempt), "the attempt to be given up")  # type: ignore[misc]
        error = bench.launcher.failure(spec.attempt)
        assert error == "the warm process did not answer within 0.05 s and was ended"
        assert not bench.launcher.may_have_run(spec.attempt)
        assert not bench.host.is_live(spec.attempt)
        assert bench.launcher.kill_tree(spec.attempt, NO_TRACE)
    monkeypatch.undo()
    assert bench.run(("true",)).command == {"code": 0, "signal": None}


def test_an_order_without_an_answer_can_be_ended_at_once(bench: Bench, suspended: int) -> None:
    spec = bench.launch(("true",))
    bench.launcher.terminate(spec.attempt)
    assert bench.launcher.kill_tree(spec.attempt, NO_TRACE)
    assert bench.life(spec.attempt) == "lost"
    assert "had not answered" in str(bench.launcher.failure(spec.attempt))


def test_a_warm_process_that_dies_before_it_answers_gives_its_orders_up(bench: Bench, suspended: int) -> None:
    spec = bench.launch(("true",))
    os.kill(suspended, signal.SIGKILL)
    wait_for(lambda: lost(bench, spec.attempt), "the attempt to be given up")
    assert bench.launcher.failure(spec.attempt) == "the warm process ended before it answered"


def test_a_full_socket_of_a_warm_process_that_hangs_is_an_error_of_the_launch(
    bench: Bench, suspended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "FULL_WAIT", 0.05)
    spec = bench.spec(("true",), never_kill=("p" * 1000,) * 3000)
    with pytest.raises(LaunchError, match="does not take orders"):
        bench.launcher.launch(spec, bench.host.create_attempt(spec.attempt))
    assert bench.run(("true",)).command == {"code": 0, "signal": None}
    assert not bench.host.is_live(spec.attempt)


@pytest.mark.parametrize("stopped_before", [False, True])
def test_a_worker_that_was_forked_but_not_answered_is_found_by_its_lock(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, stopped_before: bool
) -> None:
    monkeypatch.setattr(bench.launcher._warm, "answers", list)
    spec = bench.launch(("sleep", "69"))
    worker = bench.wait_command(spec)["session"]
    assert bench.life(spec.attempt) == "pending"
    if stopped_before:
        bench.launcher.terminate(spec.attempt)
    monkeypatch.setattr(local, "ANSWER_LIMIT", 0.0)
    assert bench.life(spec.attempt) in ("running", "ended")
    assert (bench.launcher.failure(spec.attempt), bench.launcher.may_have_run(spec.attempt)) == (None, True)
    if not stopped_before:
        found = worker_of(OwnBus(str(bench.bus)), spec.attempt)
        assert found is not None
        assert found.pid == worker
        bench.launcher.terminate(spec.attempt)
    assert bench.wait(spec).ended_by == "stop"
    assert worker_of(OwnBus(str(bench.bus)), spec.attempt) is None


@pytest.mark.parametrize("deletes", [False, True])
def test_a_worker_that_was_forked_and_died_without_an_answer_may_have_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, deletes: bool
) -> None:
    monkeypatch.setattr(bench.launcher._warm, "answers", list)
    spec = bench.launch(("sleep", "70"))
    command = bench.wait_command(spec)
    if deletes:
        shutil.rmtree(bench.folder(spec))
    os.kill(command["session"], signal.SIGKILL)
    wait_for(lambda: not alive(command["session"]), "the worker's end")
    monkeypatch.setattr(local, "ANSWER_LIMIT", 0.0)
    assert bench.life(spec.attempt) == "lost"
    assert (bench.launcher.failure(spec.attempt), bench.launcher.may_have_run(spec.attempt)) == (None, True)
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, NO_TRACE), "an empty tree")
    assert not alive(command["pid"])


def test_an_attempt_that_had_a_worker_may_have_run(bench: Bench) -> None:
    spec = bench.launch(("sleep", "71"))
    assert not bench.launcher.may_have_run(bench.spec(("true",)).attempt)
    command = bench.wait_command(spec)
    wait_for(lambda: bench.life(spec.attempt) == "running", "the answer")
    os.kill(command["session"], signal.SIGKILL)
    wait_for(lambda: bench.life(spec.attempt) == "ended", "the worker's end")
    assert bench.launcher.may_have_run(spec.attempt)
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, NO_TRACE), "an empty tree")


def test_a_worker_whose_folder_was_deleted_is_found_again_by_another_launcher(bench: Bench) -> None:
    spec = bench.launch(("sleep", "72"))
    command = bench.wait_command(spec)
    shutil.rmtree(bench.folder(spec))
    bench.launcher.close()
    bench.launcher = LocalLauncher(str(bench.bus))
    assert bench.launcher.reattach(spec.attempt, None)
    assert bench.life(spec.attempt) == "running"
    bench.launcher.terminate(spec.attempt)
    wait_for(lambda: bench.life(spec.attempt) == "ended", "the worker's end")
    assert bench.launcher.may_have_run(spec.attempt)
    assert not alive(command["pid"])
    assert not bench.launcher.reattach(spec.attempt, None)


def test_a_living_worker_that_nobody_watches_is_ended_before_the_attempt_is_called_empty(bench: Bench) -> None:
    spec = bench.launch(("sleep", "73"))
    command = bench.wait_command(spec)
    os.kill(command["session"], signal.SIGSTOP)
    bench.launcher.close()
    bench.launcher = LocalLauncher(str(bench.bus))
    assert not bench.launcher.kill_tree(spec.attempt, NO_TRACE)
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, NO_TRACE), "an empty tree")
    assert not alive(command["session"])
    assert not alive(command["pid"])
    assert bench.launcher.may_have_run(spec.attempt)


PROBE = "import fcntl, signal; fcntl.flock(0, fcntl.LOCK_SH); print(flush=True); signal.pause()"


def test_who_only_probes_the_lock_is_not_taken_for_the_worker(bench: Bench) -> None:
    spec = bench.launch(("true",))
    bench.wait(spec)
    with (bench.folder(spec) / LIVE).open() as live:
        bystander = subprocess.Popen([sys.executable, "-c", PROBE], stdin=live, stdout=subprocess.PIPE)
    with bystander:
        assert bystander.stdout is not None
        assert bystander.stdout.readline() == b"\n"
        assert bench.host.is_live(spec.attempt) is False
        assert bench.launcher.kill_tree(spec.attempt, NO_TRACE)
        assert bystander.poll() is None
        bystander.kill()


def test_a_copy_of_the_bus_leaves_the_originals_processes_alone(bench: Bench) -> None:
    spec = bench.launch(("sh", "-c", "sleep 61 & sleep 62"), env={"CONDUCTOR_BUS_DIR": str(bench.bus)})
    command = bench.wait_command(spec)
    copy = bench.bus.with_name("copy")
    shutil.copytree(bench.bus, copy, symlinks=True)
    other = LocalLauncher(str(copy))
    try:
        assert worker_of(OwnBus(str(copy)), spec.attempt) is None
        assert other.kill_tree(spec.attempt, Trace(bench.host.read_command(spec.attempt))), (
            "nothing of it is the copy's"
        )
        assert alive(command["pid"])
        assert bench.life(spec.attempt) == "running"
    finally:
        other.close()
    bench.launcher.terminate(spec.attempt)
    bench.wait(spec)


def test_a_bus_that_was_moved_still_finds_its_processes(bench: Bench) -> None:
    spec = bench.launch(("sleep", "63"))
    bench.wait_command(spec)
    command = bench.host.read_command(spec.attempt)
    moved = bench.bus.rename(bench.bus.with_name("moved"))
    try:
        own = OwnBus(str(moved))
        assert worker_of(own, spec.attempt) is not None
        assert list(find(own, spec.attempt, Trace(command)))
    finally:
        moved.rename(bench.bus)
    bench.launcher.terminate(spec.attempt)
    bench.wait(spec)


def test_a_bus_that_is_deleted_ends_its_workers_by_themselves(bench: Bench) -> None:
    """Nobody could ever read the result, and a later run would start the same task beside it."""
    spec = bench.launch(("sleep", "64"))
    command = bench.wait_command(spec)
    bench.launcher.close()
    shutil.rmtree(bench.bus)
    wait_for(lambda: not alive(command["pid"]) and not alive(command["session"]), "the end of command and worker")
    bench.launcher = LocalLauncher(str(bench.bus))


def test_a_bus_that_is_moved_keeps_its_workers(bench: Bench) -> None:
    spec = bench.launch(("sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"))
    bench.wait_command(spec)
    moved = bench.bus.rename(bench.bus.with_name("moved"))
    record = moved / attempt_dir(spec.attempt) / "exit.json"
    try:
        threading.Event().wait(2 * PERIOD)
        assert not record.exists()
        (bench.work / "go").touch()
        wait_for(record.exists, "the result")
        assert '"code":0' in record.read_text()
    finally:
        moved.rename(bench.bus)
    bench.wait(spec)
