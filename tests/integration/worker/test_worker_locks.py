"""Locks that a command needs: its worker takes them before the start, all or none; they end with the attempt."""

from __future__ import annotations

import os

from bus.hand import open_hand
from bus.wire import LOCKS
from tests.integration.tools import kill, wait_for
from tests.integration.worker.conftest import Bench


def holder(bench: Bench, *keys: str, shared: bool = False) -> str:
    """Another attempt that holds locks; returns its name."""
    spec = bench.spec(("true",))
    os.close(bench.host.create_attempt(spec.attempt))
    hand = open_hand(bench.bus, spec.attempt)
    hand.try_lock([(key, shared) for key in keys])
    hand.close()
    return spec.attempt


def test_requirement_11_a_command_starts_once_all_its_files_are_its_own(bench: Bench) -> None:
    other = holder(bench, "src/a.py")
    spec = bench.launch(("touch", "began"), locks=[("src", False), ("docs/*.md", True)], heartbeat=0.1)
    wait_for(lambda: bench.host.waits(), "the worker's place in line")
    assert {tuple(wait.what) for wait in bench.host.waits()} == {("src",), ("docs/*.md",)}
    assert {wait.holders for wait in bench.host.waits()} == {(other,)}
    wait_for(lambda: (bench.host.beat_of(spec.attempt) or {}).get("phase") == LOCKS, "a beat")
    assert not (bench.work / "began").exists()
    assert bench.host.read_command(spec.attempt) is None
    bench.host.close_attempt(other)
    record = bench.wait(spec)
    assert record.command == {"code": 0, "signal": None}
    assert (bench.work / "began").exists()
    held = {grant.keys: grant.shared for grant in bench.host.grants() if grant.attempt == spec.attempt}
    assert held == {("src",): False, ("docs/*.md",): True}, "held until the attempt is closed"
    types = sorted(item.message.type for item in bench.host.scan().messages if item.message.attempt == spec.attempt)
    assert types == ["BLOCKED", "FILE_LOCK", "FILE_LOCK", "RESULT"]


def test_shared_locks_are_held_side_by_side(bench: Bench) -> None:
    holder(bench, "data", shared=True)
    assert bench.run(("true",), locks=[("data/x", True)]).started


def test_a_worker_that_waits_for_locks_is_stopped_without_a_command(bench: Bench) -> None:
    holder(bench, "a")
    spec = bench.launch(("touch", "began"), locks=[("a", False)])
    wait_for(lambda: bench.host.waits(), "the worker's place in line")
    bench.host.revoke(spec.attempt, "cancelled")
    bench.launcher.terminate(spec.attempt)
    record = bench.wait(spec)
    assert (record.started, record.why) == (False, "revoked")
    assert not (bench.work / "began").exists()
    assert not bench.host.waits()


def test_requirement_16_a_worker_that_is_killed_while_it_waits_for_locks_never_started(bench: Bench) -> None:
    holder(bench, "a")
    spec = bench.launch(("touch", "began"), locks=[("a", False)])
    wait_for(lambda: bench.host.waits(), "the worker's place in line")
    proc = bench.host.read_proc(spec.attempt)
    assert proc is not None
    kill(proc.pid)
    wait_for(lambda: bench.life(spec.attempt) == "ended", "the worker's end")
    assert bench.host.read_command(spec.attempt) is None
    assert not bench.host.waits()
    bench.open.remove(spec.attempt)


def test_what_cannot_be_a_file_is_refused_before_the_command(bench: Bench) -> None:
    record = bench.run(("touch", "began"), locks=[("a\0b", False)])
    assert not record.started
    assert record.why is not None
    assert record.why.startswith("spawn: its files cannot be locked: ")
