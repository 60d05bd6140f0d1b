"""The doubles do what they say; the ledger of the simulation notices what it is for."""

from __future__ import annotations

import os

import pytest

from bus.wire import AttemptId, Record, Stamp, TaskId, WorkerSpec
from conductor.core.task import Group, RunOptions
from conductor.runtime.clock import Clock
from conductor.runtime.launch.base import NO_TRACE, Launcher, LaunchError
from conductor.testing import FakeClock, FakeLauncher, LedgerBroken, plan_of, task_of
from conductor.testing.ledger import Ledger

ONE, TWO = AttemptId("a~1-00000000"), AttemptId("a~2-00000000")


def spec(attempt: AttemptId) -> WorkerSpec:
    return WorkerSpec("/bus", attempt, 1, TaskId("a"), 1, "00000000", ("true",), "/")


def descriptor() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def test_the_clock_moves_when_told() -> None:
    fake = FakeClock()
    clock: Clock = fake
    fake.advance(2.0)
    assert clock.monotonic() == 1002.0
    assert clock.stamp() == Stamp(1_700_000_002.0, 1002.0, "boot-1")
    fake.reboot("boot-2")
    assert clock.stamp() == Stamp(1_700_000_002.0, 1.0, "boot-2")


def test_the_launcher_remembers_and_does_as_told() -> None:
    fake = FakeLauncher(capacity=2)
    launcher: Launcher = fake
    launcher.launch(spec(ONE), descriptor())
    assert list(fake.orders) == [ONE]
    assert launcher.capacity() == 1
    assert launcher.poll([ONE, TWO]) == {ONE: "running", TWO: "lost"}
    assert launcher.reattach(ONE, None)
    assert not launcher.reattach(TWO, None)
    launcher.terminate(ONE)
    fake.empty = False
    assert not launcher.kill_tree(ONE, NO_TRACE)
    assert (fake.terminated, fake.killed, launcher.wake_fds()) == ([ONE], [ONE], [])
    fake.failing = "full"
    with pytest.raises(LaunchError, match="full"):
        launcher.launch(spec(TWO), descriptor())
    launcher.close()


def ledger(**options: int) -> Ledger:
    tasks = ["a", "b < a", task_of("x", files=("f",)), task_of("y", reads=("*",)), task_of("r", resources=("db",))]
    groups = (Group("pg-1", (TaskId("a"), TaskId("r")), max_workers=1),)
    return Ledger(plan_of(*tasks, task_of("s", resources=("db",)), groups=groups), RunOptions(**options))


@pytest.mark.parametrize(
    ("alive", "task", "trouble"),
    [
        ("a", "a", "two workers of a live"),
        ("", "b", "b started before a was done"),
        ("axr", "y", "4 workers live"),
        ("a", "r", "group pg-1 is too full"),
        ("x", "y", "x and y run side by side with f"),
        ("r", "s", "r and s run side by side with db"),
    ],
)
def test_the_ledger_notices_a_start_that_must_not_be(alive: str, task: str, trouble: str) -> None:
    with pytest.raises(LedgerBroken, match=trouble):
        ledger(max_workers=3).started(TaskId(task), map(TaskId, alive))


def records(*lines: str) -> list[Record]:
    found = []
    for seq, line in enumerate(lines, 1):
        type, _, attempt = line.partition(" ")
        task, name = (TaskId("a"), AttemptId(attempt)) if attempt else (None, None)
        found.append(Record(seq, 1, Stamp(0.0, 0.0, "b"), "", type, "", "", task, name, {}))
    return found


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        (["WORKER_DISPATCHED 1", "WORKER_DISPATCHED 1"], "dispatched twice"),
        (["WORKER_DISPATCHED 1", "ATTEMPT_ENDED 1", "ATTEMPT_ENDED 1"], "judged twice"),
        (["ATTEMPT_ENDED 1"], "never dispatched"),
        (["WORKER_DISPATCHED 1"], "not judged"),
        (["TASK_COMPLETE 1"], "without a success"),
        (["TASK_COMPLETE good", "RUN_STARTED", "WORKER_DISPATCHED 2", "ATTEMPT_ENDED 2"], "done again"),
        (["TASK_FAILED 1", "TASK_SKIPPED 1"], "ended twice in a round"),
    ],
)
def test_the_ledger_notices_a_journal_that_must_not_be(lines: list[str], trouble: str) -> None:
    book = ledger()
    book.finished(TaskId("a"), AttemptId("good"), success=True)
    with pytest.raises(LedgerBroken, match=trouble):
        book.check(records(*lines), ended=True)
