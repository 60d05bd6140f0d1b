"""The local launcher: orders and answers, dead workers and what they leave, a dead warm process."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bus.process import Realm
from bus.wire import AttemptId, dumps, to_json
from conductor.runtime.launch import survivors
from conductor.runtime.launch.base import ITS_WORKER, NO_TRACE, LaunchError, Trace
from conductor.runtime.launch.local import LocalLauncher
from conductor.runtime.launch.warm import Answer
from tests.integration.tools import alive, kill, processes_with, wait_for
from tests.integration.worker.conftest import Bench
from worker.runner import Origin
from worker.tree import Bonds
from worker.warm import fork_worker

ESCAPEE = str(Path(__file__).parents[1] / "escapee.py")
HOPPER = str(Path(__file__).parents[1] / "hopper.py")


def children_of(pid: int) -> list[int]:
    """Direct children, zombies included."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text() if entry.name.isdigit() else ""
        except OSError:
            continue
        if stat and int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(int(entry.name))
    return found


def die(bench: Bench, attempt: AttemptId, worker: int) -> None:
    """Kill a worker and wait until the launcher has noticed."""
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: bench.life(attempt) == "ended", "the worker's end")


def test_requirement_18_no_zombie_after_many_tasks(bench: Bench) -> None:
    warm = bench.launcher.warm_pid
    open_ = []
    for _ in range(300):
        open_.append(bench.launch(("true",)))
        if len(open_) == 5:
            for spec in open_:
                assert bench.wait(spec).command == {"code": 0, "signal": None}
            open_.clear()
    wait_for(lambda: not children_of(warm), "the warm process to have no children")
    assert len(os.listdir(f"/proc/{warm}/fd")) == 4


def test_what_forks_has_one_thread_and_so_has_the_worker(bench: Bench) -> None:
    """A fork copies the locks that other threads hold, and no thread of the child will ever open them."""
    specs = [bench.launch(("sleep", "69")) for _ in range(3)]
    workers = [bench.wait_command(spec)["session"] for spec in specs]
    for pid in (bench.launcher.warm_pid, *workers):
        assert os.listdir(f"/proc/{pid}/task") == [str(pid)]
    for spec in specs:
        bench.launcher.terminate(spec.attempt)
        bench.wait(spec)


def test_requirement_18_what_a_killed_worker_left_is_ended_and_proved_empty(bench: Bench) -> None:
    spec = bench.launch((sys.executable, "-S", ESCAPEE, "pids"))
    path = bench.work / "pids"
    wait_for(lambda: path.exists() and len(path.read_text().split()) == 4, "four pids")
    command = bench.wait_command(spec)
    die(bench, spec.attempt, command["session"])
    pids = [int(line) for line in path.read_text().split()]
    assert all(map(alive, pids))
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, Trace(command)), "an empty tree")
    assert not any(map(alive, pids))
    assert bench.host.read_exit(spec.attempt) is None


def test_a_survivor_without_the_nonce_is_found_by_its_session(bench: Bench) -> None:
    spec = bench.launch(("env", "-i", "/bin/sleep", "64"))
    command = bench.wait_command(spec)
    die(bench, spec.attempt, command["session"])
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, Trace(command)), "an empty tree")
    assert not alive(command["pid"])


def test_a_worker_that_hangs_is_ended_with_its_tree(bench: Bench) -> None:
    spec = bench.launch(("sleep", "65"))
    command = bench.wait_command(spec)
    wait_for(lambda: bench.life(spec.attempt) == "running", "the answer")
    os.kill(command["session"], signal.SIGSTOP)
    assert not bench.launcher.kill_tree(spec.attempt, Trace(command))
    wait_for(
        lambda: bench.life(spec.attempt) == "ended" and bench.launcher.kill_tree(spec.attempt, Trace(command)),
        "emptiness",
    )
    assert not alive(command["pid"])


def test_a_session_number_that_belongs_to_somebody_else_is_not_touched(bench: Bench) -> None:
    spec = bench.launch(("true",))
    bench.wait(spec)
    bystander = subprocess.Popen(["sleep", "66"], start_new_session=True)
    try:
        stale = {"pid": bystander.pid, "start_ticks": 1, "session": bystander.pid}
        assert bench.launcher.kill_tree(spec.attempt, Trace(stale))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_another_launcher_finds_a_worker_again_by_its_claim(bench: Bench) -> None:
    spec = bench.launch(("sleep", "67"))
    bench.wait_command(spec)
    proc = bench.host.read_proc(spec.attempt)
    assert proc is not None
    bench.launcher.close()
    bench.launcher = LocalLauncher(str(bench.bus))
    assert bench.life(spec.attempt) == "lost"
    assert bench.launcher.reattach(spec.attempt, proc)
    assert bench.life(spec.attempt) == "running"
    bench.launcher.terminate(spec.attempt)
    assert bench.wait(spec).ended_by == "stop"
    assert not bench.launcher.reattach(spec.attempt, proc)


def test_a_claim_of_another_boot_or_another_start_is_nobody(bench: Bench) -> None:
    spec = bench.launch(("sleep", "68"))
    bench.wait_command(spec)
    proc = bench.host.read_proc(spec.attempt)
    assert proc is not None
    assert not bench.launcher.reattach(spec.attempt, replace(proc, boot="another"))
    assert not bench.launcher.reattach(spec.attempt, replace(proc, start_ticks=proc.start_ticks + 1))
    bench.launcher.terminate(spec.attempt)
    assert bench.wait(spec).ended_by == "stop"


def test_a_warm_process_that_dies_does_not_lose_the_run(bench: Bench) -> None:
    spec = bench.launch(("sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"))
    bench.wait_command(spec)
    wait_for(lambda: bench.life(spec.attempt) == "running", "the answer")
    os.kill(bench.launcher.warm_pid, signal.SIGKILL)
    wait_for(lambda: not alive(bench.launcher.warm_pid), "the end of the warm process")
    assert bench.life(spec.attempt) == "running"
    assert bench.run(("true",)).command == {"code": 0, "signal": None}
    (bench.work / "go").touch()
    assert bench.wait(spec).command == {"code": 0, "signal": None}


def test_a_warm_process_that_cannot_be_started_is_an_error_of_the_launch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.kill(bench.launcher.warm_pid, signal.SIGKILL)
    wait_for(lambda: not alive(bench.launcher.warm_pid), "the end of the warm process")
    bench.launcher.poll([])
    spec = bench.spec(("true",))
    live = bench.host.create_attempt(spec.attempt)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(LaunchError):
        bench.launcher.launch(spec, live)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(live)


def test_workers_live_on_when_the_conductor_goes(bench: Bench) -> None:
    spec = bench.launch(("sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"))
    worker = bench.wait_command(spec)["session"]
    bench.launcher.close()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        os.kill(worker, number)
    (bench.work / "go").touch()
    record = wait_for(lambda: bench.host.read_exit(spec.attempt), "the result")
    assert record is not None
    assert record.command == {"code": 0, "signal": None}


def test_orders_larger_than_the_socket_arrive_whole(bench: Bench) -> None:
    names = ("p" * 1000,) * 3000
    specs = [bench.launch(("sh", "-c", "exit 5"), never_kill=names) for _ in range(3)]
    assert [bench.wait(spec).command for spec in specs] == [{"code": 5, "signal": None}] * 3


def test_the_launcher_says_what_it_does_not_know(bench: Bench) -> None:
    spec = bench.spec(("true",))
    assert bench.life(spec.attempt) == "lost"
    bench.launcher.terminate(spec.attempt)
    assert bench.launcher.capacity() > 0
    assert bench.launcher.kill_tree(spec.attempt, NO_TRACE)


def test_a_fork_that_fails_is_an_answer_and_frees_the_lock(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    spec = bench.spec(("true",))
    live = bench.host.create_attempt(spec.attempt)
    monkeypatch.setattr(os, "fork", no_room)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        order = dumps(to_json(spec)).encode()
        answer, pidfd = fork_worker(order, live, theirs, Origin(Realm("boot", ""), {}), Bonds())
    assert answer == {"attempt": spec.attempt, "error": "fork: Resource temporarily unavailable", "shortage": True}
    assert pidfd == -1
    assert not bench.host.is_live(spec.attempt)
    os.close(bench.host.lock_attempt(spec.attempt))  # so it may be launched again


def test_an_order_that_got_no_worker_has_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = bench.launch(("sleep", "60"))
    refused = bench.spec(("true",))
    monkeypatch.setattr(bench.launcher._warm, "send", lambda spec, live: None)
    bench.send(refused, bench.host.create_attempt(refused.attempt))
    assert bench.life(refused.attempt) == "pending"
    monkeypatch.setattr(bench.launcher._warm, "answers", lambda: [Answer(refused.attempt, 0, -1, "fork: no room")])
    assert bench.life(refused.attempt) == "ended"
    monkeypatch.undo()
    assert bench.launcher.kill_tree(refused.attempt, NO_TRACE)
    assert bench.launcher.failure(refused.attempt) == "fork: no room"
    assert not bench.launcher.may_have_run(refused.attempt)
    bench.launcher.terminate(spec.attempt)
    bench.wait(spec)


def test_a_warm_process_that_hangs_does_not_hold_up_the_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.runtime.launch.warm.LAST_WAIT", 0.05)
    pid = bench.launcher.warm_pid
    os.kill(pid, signal.SIGSTOP)
    bench.launcher.close()
    assert not alive(pid)
    bench.launcher = LocalLauncher(str(bench.bus))


def test_a_worker_that_lingers_is_ended_alone(bench: Bench) -> None:
    """It has written its result: what its command left on purpose lives on, also where the worker is known by its lock
    alone."""
    leave = "setsid sleep 75 >/dev/null 2>&1 & echo $! >daemon; echo >up"
    spec = bench.shell(f"{leave}; while [ ! -e go ]; do sleep 0.02; done", leftovers="keep")
    command = bench.wait_command(spec)
    bench.wait_file("up")
    daemon = bench.pid("daemon")
    other = LocalLauncher(str(bench.bus))
    try:
        wait_for(lambda: other.kill_tree(spec.attempt, ITS_WORKER), "the worker's end")
        assert not alive(command["session"])
        assert alive(command["pid"])
        assert alive(daemon)
        assert not other.kill_tree(spec.attempt, Trace(command)), "that only the worker is gone proves nothing"
        wait_for(lambda: other.kill_tree(spec.attempt, Trace(command)), "an empty tree")
        assert not alive(daemon)
    finally:
        other.close()


@pytest.mark.parametrize("policy", ["kill", "keep", "never_kill"])
def test_requirement_18_an_orphan_without_any_mark_is_ended_with_the_attempt_of_its_dead_worker(
    bench: Bench, policy: str
) -> None:
    """It has neither session nor nonce of the attempt; that of a worker that lives is that worker's own."""
    other = bench.shell("env -i setsid sleep 78 & echo $! >other; wait")
    fields: dict[str, Any] = {"keep": {"leftovers": "keep"}, "never_kill": {"never_kill": ("sleep",)}}.get(policy, {})
    spec = bench.shell("env -i setsid sleep 79 & echo $! >orphan; wait", **fields)
    orphan, of_living = bench.pid("orphan"), bench.pid("other")
    for pid in (orphan, of_living):
        wait_for(lambda pid=pid: Path(f"/proc/{pid}/environ").read_bytes() == b"", "its exec")  # type: ignore[misc]
    worker = bench.wait_command(spec)["session"]
    kill(worker)
    wait_for(lambda: bench.life(spec.attempt) == "ended", "the worker's end")
    trace = Trace(bench.host.read_command(spec.attempt), frozenset(fields.get("never_kill", ())))
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, trace), "an empty tree")
    assert alive(orphan) == (policy != "kill")
    assert alive(of_living)
    kill(orphan)
    bench.launcher.terminate(other.attempt)
    bench.wait(other)
    assert not alive(of_living)


def test_a_process_with_the_nonce_of_another_attempt_is_not_taken_for_its_session(bench: Bench) -> None:
    spec = bench.launch(("sh", "-c", "CONDUCTOR_NONCE=ffffffff sleep 76 & echo $! >other; env -i sleep 77 & wait"))
    command = bench.wait_command(spec)
    stranger = bench.pid("other")
    wait_for(lambda: b"ffffffff" in Path(f"/proc/{stranger}/environ").read_bytes(), "the exec")
    die(bench, spec.attempt, command["session"])
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, Trace(command)), "an empty tree")
    assert alive(stranger)
    os.kill(stranger, signal.SIGKILL)


def test_requirement_18_a_process_of_another_user_is_left_and_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We may not signal it, so the attempt is not empty, and people are told what is in the way."""
    spec = bench.shell("sleep 62 & wait")
    command = bench.wait_command(spec)

    def refused(pid: int, ticks: int, number: int) -> bool:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    die(bench, spec.attempt, command["session"])
    with monkeypatch.context() as patch:
        patch.setattr(survivors, "send_signal", refused)
        assert not bench.launcher.kill_tree(spec.attempt, Trace(command))
        assert not bench.launcher.kill_tree(spec.attempt, Trace(command))
        assert f"pid {command['pid']} (sh), state S, user {os.getuid()}" in bench.launcher.remains(spec.attempt)
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, Trace(command)), "an empty tree")
    assert bench.launcher.remains(spec.attempt) == ""
    bench.open.remove(spec.attempt)


@pytest.mark.parametrize("options", [(), ("--new-sessions",)])
def test_requirement_18_who_is_another_process_every_moment_does_not_outlive_its_dead_worker(
    bench: Bench, options: tuple[str, ...]
) -> None:
    spec = bench.launch((sys.executable, "-I", "-S", HOPPER, *options), leftovers="kill")
    command = bench.wait_command(spec)
    bench.wait_file("up")
    die(bench, spec.attempt, command["session"])
    wait_for(lambda: bench.launcher.kill_tree(spec.attempt, Trace(command)), "an empty tree")
    assert not any("hopper" in line for line in processes_with([spec.nonce.encode()]).values())
    bench.open.remove(spec.attempt)
