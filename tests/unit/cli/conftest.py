"""A track with a history, told fact by fact: the machine decides, the file bus records, as in a real run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.wire import AttemptId, ExitRecord, ProcRecord, Record, Stamp, TaskId
from conductor.core import codec
from conductor.core.events import Event, Fact, ProgressReceived, ResultReceived, RunStarted
from conductor.core.instructions import Journal, LaunchWorker
from conductor.core.machine import Machine
from conductor.core.task import RunOptions
from conductor.core.view import RunView, run_view
from conductor.plan import frozen, loads

BEGIN = 1_750_000_000.0
"""Wall clock at the start of every story: 2025-06-15T15:06:40Z."""


class Story:
    """A run in the making; `live` keeps the locks of workers that are alive."""

    def __init__(self, track: Path, host: FileHost) -> None:
        self.track = track
        self.host = host
        self.machine = Machine(check=True)
        self.now = 0.0
        self.records: list[Record] = []
        self.live: dict[AttemptId, int] = {}
        self.dead = False

    def start(self, plan: str, **options: Any) -> None:
        """Write the plan (YAML below `dag:`), freeze it, start a round."""
        text = f"# Plan\n\n```yaml\ndag:\n{plan}\n```\n"
        (self.track / "plan.md").write_text(text)
        parsed = loads(text)
        body = frozen.dump(parsed)
        self.host.freeze_plan(body)
        chosen = RunOptions(**{"retries": 0, "retry_delay": 0.0, "durability": "process", **options})
        sha = hashlib.sha256(body).hexdigest()
        self.tell(RunStarted("00c0ffee00c0ffee", sha, str(self.track.parent), chosen, parsed))

    def tell(self, fact: Fact) -> None:
        """Let a fact happen; record it and what the machine decides."""
        t = self.stamp()
        events: list[Event] = [fact]
        for instruction in self.machine.handle(fact, self.now, BEGIN + self.now):
            if isinstance(instruction, Journal):
                events.append(instruction.decision)
            elif isinstance(instruction, LaunchWorker):
                self.live[instruction.attempt] = self.host.create_attempt(instruction.attempt)
        for event in events:
            type, task, attempt, payload = codec.encode(event)
            self.records.append(self.host.stage(type, payload, t, task=task, attempt=attempt))
        self.host.commit()
        self.host.project(self.records)

    def record(self, fact: Fact) -> None:
        """Let a fact be recorded of which nothing follows yet."""
        self.machine.handle(fact, self.now, BEGIN + self.now, decides=False)
        type, task, attempt, payload = codec.encode(fact)
        self.records.append(self.host.stage(type, payload, self.stamp(), task=task, attempt=attempt))
        self.host.commit()

    def stamp(self) -> Stamp:
        """The time of now."""
        return Stamp(BEGIN + self.now, self.now, "boot")

    def attempt(self, task: str) -> AttemptId:
        """The newest attempt of a task."""
        found = self.machine.state.tasks[TaskId(task)].attempt
        assert found is not None
        return found

    def progress(self, task: str, pct: float, text: str) -> None:
        """The task's command reports progress."""
        self.tell(ProgressReceived(TaskId(task), self.attempt(task), pct, text))

    def end(
        self,
        task: str,
        code: int = 0,
        *,
        seconds: float = 3.0,
        tail: str = "",
        log: bytes = b"",
        leftovers: Mapping[str, Any] | None = None,
    ) -> None:
        """The task's command ends; so does its worker."""
        attempt = self.attempt(task)
        exit = ExitRecord(
            started=True,
            ended_by="self",
            command={"code": code, "signal": None},
            seconds=seconds,
            log_bytes={"stdout": len(log), "stderr": len(tail)},
            tail=tail,
            leftovers=dict(leftovers or {}),
        )
        hand = open_hand(self.host.folders.path, attempt)
        hand.claim(ProcRecord("boot", 1, 1, self.host.epoch))
        hand.finish(exit)
        hand.close()
        if log:
            self.write_log(task, "log", log)
        os.close(self.live.pop(attempt))
        self.now += seconds
        self.tell(ResultReceived(TaskId(task), attempt, exit))
        self.host.discard(self.host.scan().messages)

    def write_log(self, task: str, name: str, data: bytes) -> None:
        """Write a log file of the newest attempt."""
        attempt = self.attempt(task)
        (self.track / ".message-bus" / "attempts" / attempt[-8] / attempt / name).write_bytes(data)

    def view(self) -> RunView:
        """The picture of now."""
        return run_view(self.machine.state)

    def die(self) -> None:
        """The conductor dies; its workers live on."""
        if not self.dead:
            self.dead = True
            self.host.close()

    def close(self) -> None:
        """Nothing lives on."""
        for fd in self.live.values():
            os.close(fd)
        self.live.clear()
        self.die()


@pytest.fixture(autouse=True)
def outside_any_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may themselves be run by a worker."""
    for name in [name for name in os.environ if name.startswith("CONDUCTOR_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def track(tmp_path: Path) -> Path:
    """The folder of a track, still empty."""
    folder = tmp_path / "track"
    folder.mkdir()
    return folder


@pytest.fixture
def story(track: Path) -> Iterator[Story]:
    """A track whose history the test tells; its conductor lives until the test ends."""
    story = Story(track, open_host(track / ".message-bus", durability="process"))
    yield story
    story.close()
