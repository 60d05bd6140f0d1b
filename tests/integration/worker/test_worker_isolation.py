"""What a command is given, and what it must not get."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from bus.wire import AttemptId
from conductor.runtime.launch.base import Trace
from tests.integration.tools import wait_for
from tests.integration.worker.conftest import Bench

LOOK = """
import os, signal
names = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        names[int(fd)] = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        pass
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
print(sorted(n for n in names if n > 2), names[0], os.getpid() == os.getpgid(0), os.getsid(0) == os.getppid())
print(status["SigBlk"].strip(), status["SigIgn"].strip(), os.getcwd())
"""


def test_requirement_18_commands_start_with_default_signals_an_empty_mask_and_no_descriptors(bench: Bench) -> None:
    spec = bench.launch((sys.executable, "-S", "-E", "-c", LOOK))
    assert bench.wait(spec).command == {"code": 0, "signal": None}
    first, second = bench.read(spec, "log").splitlines()
    assert first == "[] /dev/null True True"
    blocked, ignored, cwd = second.split()
    assert int(blocked, 16) == 0
    # Python itself ignores PIPE and XFSZ, the C library its own two; whatever else is ignored would come from us.
    own = {signal.SIGPIPE, signal.SIGXFSZ}
    assert not [number for number in signal.valid_signals() - own if int(ignored, 16) >> (number - 1) & 1]
    assert cwd == str(bench.work.resolve())


def test_the_lock_is_never_inherited_by_the_command(bench: Bench) -> None:
    spec = bench.launch(("sleep", "60"))
    command = bench.wait_command(spec)
    fds = Path(f"/proc/{command['pid']}/fd")
    assert sorted(os.listdir(fds)) == ["0", "1", "2"]
    assert bench.host.is_live(spec.attempt)
    bench.launcher.terminate(spec.attempt)
    bench.wait(spec)
    assert not bench.host.is_live(spec.attempt)


def test_the_warm_process_and_the_conductor_keep_no_copy_of_the_lock(bench: Bench) -> None:
    spec = bench.launch(("sleep", "60"))
    session = bench.wait_command(spec)["session"]
    assert bench.life(spec.attempt) == "running"
    os.kill(session, signal.SIGKILL)
    bench_wait_dead(bench, spec.attempt)
    assert not bench.host.is_live(spec.attempt)
    wait_for(
        lambda: bench.launcher.kill_tree(spec.attempt, Trace(bench.host.read_command(spec.attempt))),
        "the command's end",
    )


def bench_wait_dead(bench: Bench, attempt: AttemptId) -> None:
    """Wait until the launcher says that the worker ended."""
    wait_for(lambda: bench.life(attempt) == "ended", "the worker's end")


def test_a_second_start_finds_the_attempt_claimed_and_runs_nothing(bench: Bench) -> None:
    spec = bench.launch(("sh", "-c", "echo once >> ran"))
    bench.wait(spec)
    live = os.open(bench.folder(spec) / "live", os.O_RDONLY)
    bench.send(spec, live)
    bench_wait_dead(bench, spec.attempt)
    assert bench.wait_file("ran") == "once\n"


def test_a_revoked_attempt_does_not_start(bench: Bench) -> None:
    spec = bench.spec(("sh", "-c", "echo once >> ran"))
    live = bench.host.create_attempt(spec.attempt)
    bench.host.revoke(spec.attempt, "cancelled")
    bench.send(spec, live)
    record = bench.wait(spec)
    assert (record.started, record.why) == (False, "revoked")
    assert not (bench.work / "ran").exists()


def test_an_attempt_of_an_older_conductor_does_not_start(bench: Bench) -> None:
    spec = bench.spec(("true",))
    live = bench.host.create_attempt(spec.attempt)
    (bench.bus / "epochs" / f"{spec.epoch + 1:08d}").touch()
    bench.send(spec, live)
    record = bench.wait(spec)
    assert (record.started, record.why) == (False, "stale_epoch")
