"""The warm process and its conductor, where this machine runs short of something: an order may be given again, the
attempt keeps its name and its lock, and nobody is taken for dead."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from bus.process import Realm
from bus.wire import WorkerSpec, dumps, to_json
from conductor.runtime.launch.base import LaunchError, MachineShort
from tests.integration.test_disks_full import limited
from tests.integration.tools import alive, wait_for
from tests.integration.worker.conftest import Bench
from worker.runner import Origin
from worker.spawn import spawn
from worker.tree import Bonds
from worker.warm import fork_worker


def refusing(number: int) -> Callable[..., Any]:
    def refuse(*args: object, **kwargs: object) -> object:
        raise OSError(number, os.strerror(number))

    return refuse


def launched_again(bench: Bench, spec: WorkerSpec) -> None:
    bench.send(spec, bench.host.lock_attempt(spec.attempt))
    assert bench.wait(spec).command == {"code": 0, "signal": None}


def test_an_order_whose_lock_found_no_descriptor_may_be_given_again(bench: Bench) -> None:
    bench.run(("true",))  # it serves
    with limited(bench.launcher.warm_pid, resource.RLIMIT_NOFILE, 3):
        spec = bench.launch(("true",))
        wait_for(lambda: bench.life(spec.attempt) == "ended", "the answer")
    assert bench.launcher.failure(spec.attempt) == "fork: Too many open files"
    assert bench.launcher.ran_short(spec.attempt)
    assert not bench.launcher.may_have_run(spec.attempt)
    launched_again(bench, spec)
    assert not bench.launcher.ran_short(spec.attempt)


def test_a_warm_process_that_cannot_be_started_again_now_is_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = bench.launcher.warm_pid
    os.kill(warm, signal.SIGKILL)
    wait_for(lambda: not alive(warm), "its end")
    bench.launcher.poll([])
    spec = bench.spec(("true",))
    live = bench.host.create_attempt(spec.attempt)
    monkeypatch.setattr(os, "posix_spawn", refusing(errno.EAGAIN))
    for _ in range(2):
        with pytest.raises(MachineShort, match="Resource temporarily unavailable"):
            bench.launcher.launch(spec, live)
        live = bench.host.lock_attempt(spec.attempt)
    os.close(live)
    monkeypatch.undo()
    launched_again(bench, spec)


def test_an_order_that_finds_no_room_in_the_socket_does_not_cost_the_warm_process(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm, spec = bench.launcher.warm_pid, bench.spec(("true",))
    monkeypatch.setattr(socket, "send_fds", refusing(errno.ETOOMANYREFS))
    with pytest.raises(MachineShort):
        bench.launcher.launch(spec, bench.host.create_attempt(spec.attempt))
    monkeypatch.setattr(socket, "send_fds", refusing(errno.EPIPE))
    with pytest.raises(LaunchError) as caught:
        bench.launcher.launch(spec, bench.host.lock_attempt(spec.attempt))
    assert not isinstance(caught.value, MachineShort)
    monkeypatch.undo()
    assert bench.launcher.warm_pid == warm
    launched_again(bench, spec)


def test_a_worker_without_a_pidfd_is_no_failed_fork(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives: an answer that says no worker was made would have the attempt launched a second time."""
    spec = bench.spec(("true",))
    child = subprocess.Popen(["sleep", "60"])
    try:
        monkeypatch.setattr(os, "fork", lambda: child.pid)
        monkeypatch.setattr(os, "pidfd_open", refusing(errno.EMFILE), raising=False)
        live = bench.host.create_attempt(spec.attempt)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            order = dumps(to_json(spec)).encode()
            answer, pidfd = fork_worker(order, live, theirs, Origin(Realm("boot", ""), {}), Bonds())
    finally:
        child.kill()
        child.wait()
    assert (answer, pidfd) == ({"attempt": spec.attempt, "pid": child.pid, "pidfd": False}, -1)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_a_shortage_is_no_fault_of_the_command(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_spawn", refusing(number))
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        spawn(("true",), {"PATH": "/usr/bin:/bin"}, 1, 2)
    assert caught.value.errno == number
