"""Stop, time limit and leftovers: the whole tree ends, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bus.wire import Ladder
from tests.integration.tools import alive, wait_for
from tests.integration.worker.conftest import Bench

ESCAPEE = str(Path(__file__).parents[1] / "escapee.py")
HOPPER = str(Path(__file__).parents[1] / "hopper.py")
DAEMON = "setsid sleep 61 & echo $! > daemon; "


def escapees(bench: Bench) -> list[int]:
    """The four pids that the escapee's processes noted."""
    path = bench.work / "pids"
    wait_for(lambda: path.exists() and len(path.read_text().split()) == 4, "four pids")
    return [int(line) for line in path.read_text().split()]


def test_requirement_18_a_time_limit_ends_an_escaping_tree(bench: Bench) -> None:
    spec = bench.launch((sys.executable, "-S", ESCAPEE, "pids"), timeout=0.5)
    pids = escapees(bench)
    record = bench.wait(spec)
    assert (record.ended_by, record.tree_empty) == ("timeout", True)
    assert record.command == {"code": None, "signal": 9}
    assert not any(map(alive, pids))


def test_requirement_18_a_stop_by_the_revoked_file_ends_an_escaping_tree(bench: Bench) -> None:
    spec = bench.launch((sys.executable, "-S", ESCAPEE, "pids"))
    pids = escapees(bench)
    bench.host.revoke(spec.attempt, "cancelled")
    record = bench.wait(spec)
    assert (record.ended_by, record.stop_reason, record.tree_empty) == ("stop", "cancelled", True)
    assert not any(map(alive, pids))


def test_a_term_without_a_revoked_file_is_a_stop(bench: Bench) -> None:
    spec = bench.launch(("sleep", "60"))
    bench.wait_command(spec)
    bench.launcher.terminate(spec.attempt)
    record = bench.wait(spec)
    assert (record.ended_by, record.stop_reason) == ("stop", "stopped")
    assert record.command == {"code": None, "signal": 15}


def test_a_term_that_comes_before_the_pid_is_known_is_not_lost(bench: Bench) -> None:
    spec = bench.spec(("sleep", "60"))
    live = bench.host.create_attempt(spec.attempt)
    bench.send(spec, live)
    bench.host.revoke(spec.attempt, "cancelled")
    bench.launcher.terminate(spec.attempt)
    record = bench.wait(spec)
    assert record.stop_reason == "cancelled" or record.why == "revoked"


def test_a_command_that_ends_well_on_term_is_still_stopped(bench: Bench) -> None:
    spec = bench.shell("trap 'exit 0' TERM; echo > ready; while :; do sleep 0.02; done")
    bench.wait_file("ready")
    bench.launcher.terminate(spec.attempt)
    record = bench.wait(spec)
    assert (record.ended_by, record.command) == ("stop", {"code": 0, "signal": None})


TRAPS = 'for s in INT TERM; do trap "echo $s >> told" $s; done; echo > ready; while :; do sleep 0.02; done'


def test_the_ladder_sends_int_term_and_kill_once_each(bench: Bench) -> None:
    spec = bench.shell(TRAPS, ladder=Ladder(0.3, 0.3))
    bench.wait_file("ready")
    bench.launcher.terminate(spec.attempt)
    assert bench.wait(spec).command == {"code": None, "signal": 9}
    assert bench.wait_file("told") == "INT\nTERM\n"


def test_a_command_that_was_suspended_is_ended(bench: Bench) -> None:
    spec = bench.shell("kill -STOP $$", timeout=0.2)
    record = bench.wait(spec)
    assert (record.ended_by, record.command) == ("timeout", {"code": None, "signal": 9})


def test_a_stop_during_verify_cuts_the_attempt_short(bench: Bench) -> None:
    spec = bench.launch(("true",), verify=(("sh", "-c", "echo > ready; sleep 60"),))
    bench.wait_file("ready")
    bench.launcher.terminate(spec.attempt)
    record = bench.wait(spec)
    assert (record.ended_by, record.command) == ("stop", {"code": 0, "signal": None})
    assert record.verify[0]["signal"] == 15


def test_leftovers_are_swept_and_listed(bench: Bench) -> None:
    record = bench.wait(bench.shell(DAEMON))
    assert record.command == {"code": 0, "signal": None}
    assert (record.ended_by, record.tree_empty) == ("self", True)
    assert [entry["name"] for entry in record.leftovers["killed"]] == ["sleep"]
    assert not alive(bench.pid("daemon"))


def test_requirement_18_leftovers_that_ignore_term_and_left_their_session_are_swept(bench: Bench) -> None:
    record = bench.run((sys.executable, "-S", ESCAPEE, "pids", "--leave"))
    assert record.tree_empty
    assert not any(map(alive, escapees(bench)))
    assert len(record.leftovers["killed"]) == 3


def test_leftovers_that_fail_the_attempt_are_marked(bench: Bench) -> None:
    record = bench.wait(bench.shell(DAEMON, leftovers="fail"))
    assert record.leftovers["failed"]
    assert not alive(bench.pid("daemon"))


@pytest.mark.parametrize("policy", [{"leftovers": "keep"}, {"never_kill": ("sleep",)}])
def test_leftovers_kept_by_policy_live_on_and_count_as_empty(bench: Bench, policy: dict[str, object]) -> None:
    record = bench.wait(bench.shell(DAEMON, **policy))
    daemon = bench.pid("daemon")
    try:
        assert [entry["pid"] for entry in record.leftovers["kept"]] == [daemon]
        assert record.tree_empty
        assert alive(daemon)
    finally:
        subprocess.run(["kill", "-KILL", str(daemon)], check=True)


def test_requirement_17_a_daemon_that_keeps_the_pipe_open_blocks_nobody(bench: Bench) -> None:
    record = bench.wait(bench.shell("sleep 62 & echo $! > daemon; echo done"))
    assert record.command == {"code": 0, "signal": None}
    assert record.log_bytes["stdout"] == 5
    assert not alive(bench.pid("daemon"))


def test_requirement_17_output_without_end_is_capped_on_disk_and_blocks_nobody(bench: Bench) -> None:
    spec = bench.shell("head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end", log_cap=100_000)
    record = bench.wait(spec)
    assert record.command == {"code": 0, "signal": None}
    assert record.log_bytes["stdout"] == 50_000_005
    assert record.tail.endswith("x\nend\n")
    logs = sorted(path.name for path in bench.folder(spec).glob("log*"))
    assert logs == ["log", "log.499", "log.500"]
    assert (bench.folder(spec) / "log").stat().st_size == 100_000
    assert bench.read(spec, "log.499") + bench.read(spec, "log.500") == "x" * 100_000 + "\nend\n"


def test_requirement_17_a_command_that_prints_for_ever_is_stopped_in_time(bench: Bench) -> None:
    record = bench.run(("yes",), timeout=0.2, log_cap=10_000)
    assert (record.ended_by, record.tree_empty) == ("timeout", True)


def test_requirement_18_a_bystander_of_the_same_name_is_untouched(bench: Bench) -> None:
    bystander = subprocess.Popen(["sleep", "63"])
    try:
        spec = bench.launch(("sleep", "63"))
        bench.wait_command(spec)
        bench.launcher.terminate(spec.attempt)
        bench.wait(spec)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_the_time_limit_holds_while_no_conductor_lives(bench: Bench) -> None:
    spec = bench.shell("echo > ready; sleep 60", timeout=0.4)
    bench.wait_file("ready")
    bench.launcher.close()
    record = wait_for(lambda: bench.host.read_exit(spec.attempt), "the result")
    assert record is not None
    assert (record.ended_by, record.tree_empty) == ("timeout", True)


def test_requirement_18_a_stop_that_meets_the_end_of_the_command_tells_one_story(bench: Bench) -> None:
    """By itself: it was reaped before the first signal. By the stop: that was sent while nobody had seen its end."""
    for number in range(12):
        spec = bench.shell(f"sleep 0.0{number % 4}")
        bench.wait_command(spec)
        bench.host.revoke(spec.attempt, "cancelled")
        bench.launcher.terminate(spec.attempt)
        record = bench.wait(spec)
        assert record.tree_empty
        assert record.command in ({"code": 0, "signal": None}, {"code": None, "signal": 15})
        if record.ended_by == "self":
            assert (record.stop_reason, record.signals, record.command) == (None, [], {"code": 0, "signal": None})
        else:
            assert (record.ended_by, record.stop_reason) == ("stop", "cancelled")
            assert [sent["name"] for sent in record.signals] == ["TERM"]


@pytest.mark.parametrize("options", [(), ("--new-sessions",)])
def test_requirement_18_who_is_another_process_every_moment_is_ended(bench: Bench, options: tuple[str, ...]) -> None:
    """Its pid is old by the time that somebody has read it."""
    spec = bench.launch((sys.executable, "-I", "-S", HOPPER, *options))
    bench.wait_file("up")
    bench.launcher.terminate(spec.attempt)
    assert bench.wait(spec).tree_empty
