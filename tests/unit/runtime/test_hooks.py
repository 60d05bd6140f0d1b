"""Commands that are told of events: which, of what, and that a run never waits for them."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.wire import AttemptId, Record, Stamp, TaskId
from conductor.config_values import HOOK_EVENTS
from conductor.runtime import hooks as module
from conductor.runtime.hooks import HookPlaces, Hooks, events_of

ROOT = Path(__file__).parents[3]


def record(type: str, seq: int = 1, **payload: Any) -> Record:
    attempt = AttemptId("1~1-00000000")
    time = "2030-01-01T00:00:00Z"
    return Record(seq, 1, Stamp(0.0, 0.0, "boot"), "0" * 32, type, "conductor", time, TaskId("1"), attempt, payload)


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.hooks = Hooks()
        self.late = 0.0
        """Seconds by which the clock is ahead."""

    def make(self, limit: float = 20.0, **commands: str) -> Hooks:
        """`commands`: a shell script by event."""
        lists = {event: ("sh", "-c", script) for event, script in commands.items()}
        places = HookPlaces("/track", str(self.folder), "/track/.message-bus")
        self.hooks = Hooks(
            lists, limit=limit, places=places, say=self.said.append, now=lambda: time.monotonic() + self.late
        )
        return self.hooks

    def wait(self, seconds: float, fds: tuple[int, ...]) -> None:
        select.select(fds, [], [], seconds)

    def finish(self) -> None:
        self.hooks.finish(self.wait, lambda: False)

    def lines(self) -> list[str]:
        path = self.folder / "told"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.hooks.close()


@pytest.mark.parametrize(
    ("found", "events"),
    [
        (record("WORKER_DISPATCHED"), ("task_started",)),
        (record("TASK_COMPLETE"), ("task_completed",)),
        (record("TASK_FAILED"), ("task_failed",)),
        (record("ATTEMPT_LIFE", life="quiet"), ("stale",)),
        (record("ATTEMPT_LIFE", life="stuck"), ("stale",)),
        (record("ATTEMPT_LIFE", life="working"), ()),
        (record("ATTEMPT_LIFE", life="unkillable"), ("escalated",)),
        (record("DEADLOCK_DETECTED"), ("deadlock",)),
        (record("RUN_ENDED", state="done"), ("run_finished",)),
        (record("RUN_GAVE_UP", reason="restart_intensity"), ("escalated",)),
        (record("RUN_GAVE_UP", reason="fail_fast"), ()),
        (record("RUN_GAVE_UP", reason="restart_intensity", again=True), ()),
        (record("RUN_ENDED", state="escalated"), ("run_finished",)),
        (record("PROGRESS"), ()),
    ],
)
def test_which_records_are_events(found: Record, events: tuple[str, ...]) -> None:
    assert events_of(found) == events
    assert set(events) <= set(HOOK_EVENTS)


def test_a_command_is_told_what_happened_and_where_as_one_line_of_json(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", "outer~1-00000000")
    places = "$PWD $CONDUCTOR_TRACK_DIR $CONDUCTOR_PROJECT_DIR $CONDUCTOR_BUS_DIR $CONDUCTOR_ATTEMPT"
    script = f'cat >>told; echo "{places}" >>told'
    stage.make(task_failed=script).recorded([record("TASK_FAILED", 7, error="exit 1"), record("TASK_COMPLETE", 8)])
    stage.finish()
    body, seen = stage.lines()
    assert json.loads(body) == {
        "event": "task_failed",
        "track": "/track",
        "project": str(stage.folder),
        "bus": "/track/.message-bus",
        "seq": 7,
        "type": "TASK_FAILED",
        "timestamp": "2030-01-01T00:00:00Z",
        "task": "1",
        "attempt": "1~1-00000000",
        "payload": {"error": "exit 1"},
    }
    assert seen == f"{stage.folder} /track {stage.folder} /track/.message-bus "
    assert stage.said == []


def test_commands_run_one_after_the_other_in_the_order_of_the_journal(stage: Stage) -> None:
    one = stage.make(task_started="cat >/dev/null; echo started >>told", task_completed="echo done >>told")
    one.recorded([record("WORKER_DISPATCHED"), record("TASK_COMPLETE"), record("WORKER_DISPATCHED")])
    stage.finish()
    assert stage.lines() == ["started", "done", "started"]


def test_one_that_fails_or_cannot_be_started_is_told_and_the_next_runs(stage: Stage) -> None:
    one = stage.make(task_failed="exit 3", task_completed="kill -9 $$", stale="echo stale >>told")
    one._commands = {**one._commands, "task_started": ("/nowhere/notify",)}
    one.recorded(
        [
            record("WORKER_DISPATCHED"),
            record("TASK_FAILED"),
            record("TASK_COMPLETE"),
            record("ATTEMPT_LIFE", life="quiet"),
        ]
    )
    stage.finish()
    assert [text.partition(":")[0] for text in stage.said] == [
        "hook task_started",
        "hook task_failed",
        "hook task_completed",
    ]
    assert "/nowhere/notify cannot be started" in stage.said[0]
    assert "exited with 3" in stage.said[1]
    assert "SIGKILL" in stage.said[2]
    assert stage.lines() == ["stale"]


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(stage: Stage) -> None:
    one = stage.make(task_started="sleep 600 & echo $! >>told; wait", task_completed="echo next >>told")
    one.recorded([record("WORKER_DISPATCHED"), record("TASK_COMPLETE")])
    one.tend()
    while not stage.lines():
        stage.wait(0.01, ())
    stage.late = 21.0
    one.tend()
    stage.late = 0.0
    assert stage.said == ["hook task_started: ended, as it took longer than 20 s"]
    stage.finish()
    child, second = stage.lines()
    assert second == "next"
    while lives(int(child)):
        stage.wait(0.01, ())


CONDUCTOR = """
import sys, time
sys.path.insert(0, sys.argv[1])
from conductor.runtime.hooks import HookPlaces, Hooks
from tests.unit.runtime.test_hooks import record
script = "sleep 600 & echo $$ $! >>told; wait"
hooks = Hooks({"task_started": ("sh", "-c", script)}, limit=600.0, places=HookPlaces("/t", sys.argv[2], "/b"))
hooks.recorded([record("WORKER_DISPATCHED")])
hooks.tend()
sys.stdin.read()
"""


def test_a_command_ends_with_its_conductor_however_that_ends(stage: Stage) -> None:
    argv = [sys.executable, "-c", CONDUCTOR, str(ROOT), str(stage.folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as conductor:
        deadline = time.monotonic() + 30.0
        while not stage.lines():
            assert time.monotonic() < deadline
            select.select([], [], [], 0.01)
        conductor.kill()
    started = [int(pid) for pid in stage.lines()[0].split()]
    while any(map(lives, started)):
        assert time.monotonic() < deadline, "it lives on without its conductor"
        select.select([], [], [], 0.01)


def test_too_many_events_are_left_out_but_never_the_end_of_the_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    one = stage.make(task_started="echo started >>told", run_finished="echo end >>told")
    one.recorded([record("WORKER_DISPATCHED")] * 5)
    one.recorded([record("RUN_ENDED", state="done")])
    stage.finish()
    assert stage.lines() == ["started", "started", "end"]
    assert stage.said == ["hooks: 3 events were left out, as the commands were too slow"]


def test_at_the_end_what_is_left_has_one_time_limit_together_and_the_end_is_told(stage: Stage) -> None:
    one = stage.make(limit=0.05, task_started="sleep 600", run_finished="echo end >>told")
    one.recorded([record("WORKER_DISPATCHED")] * 50)
    one._limit = 0.05
    one.recorded([record("RUN_ENDED", state="done")])

    def wait(seconds: float, fds: tuple[int, ...]) -> None:
        stage.wait(seconds, fds)
        one._limit = 20.0  # from now on nothing is slow

    one.finish(wait, lambda: False)
    assert stage.lines() == ["end"]
    assert any("49 events were left out" in text for text in stage.said)


def test_who_presses_on_does_not_wait_for_commands(stage: Stage) -> None:
    one = stage.make(task_started="sleep 600")
    one.recorded([record("WORKER_DISPATCHED")] * 2)
    one.tend()
    one.finish(stage.wait, lambda: True)
    assert not one.busy


def test_without_pidfd_the_end_is_looked_for_now_and_then(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pidfd_open", raising=False)
    one = stage.make(task_started="true")
    one.recorded([record("WORKER_DISPATCHED")])
    one.tend()
    assert (one.next_look(), one.wake_fds()) == (module.LOOK_EVERY, ())
    stage.finish()
    assert stage.said == []


def test_what_a_command_does_not_read_holds_nobody_up(stage: Stage) -> None:
    one = stage.make(task_completed="true")
    one.recorded([record("TASK_COMPLETE", files_modified=["x" * 1000] * 500)])
    stage.finish()
    assert stage.said == []
