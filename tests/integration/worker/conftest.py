"""A bus, a launcher and attempts with real processes. Afterwards nothing of an attempt may be running."""

from __future__ import annotations

import secrets
import select
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bus.host import FileHost, open_host
from bus.layout import attempt_dir, attempt_id
from bus.wire import AttemptId, ExitRecord, Ladder, TaskId, WorkerSpec
from conductor.runtime.launch.local import LocalLauncher
from tests.integration.tools import alive, kill, processes_with, wait_for

QUICK = Ladder(0.0, 0.2)


class Bench:
    """Launches attempts over a real bus and looks at what became of them."""

    def __init__(self, root: Path) -> None:
        self.launcher = LocalLauncher(str(root / "bus"))
        self.open: list[AttemptId] = []
        self.work = root / "project"
        self.work.mkdir()
        self.bus = root / "bus"
        self.host: FileHost = open_host(self.bus, durability="process")

    def spec(self, argv: Sequence[str], **fields: Any) -> WorkerSpec:
        """An order for a new attempt."""
        task, nonce = TaskId("t.1"), secrets.token_hex(4)
        common: dict[str, Any] = {"cwd": str(self.work), "ladder": QUICK, "durable": False}
        return WorkerSpec(
            bus=str(self.bus),
            attempt=attempt_id(task, 1, nonce),
            epoch=self.host.epoch,
            task=task,
            number=1,
            nonce=nonce,
            argv=argv,
            **{**common, **fields},
        )

    def launch(self, argv: Sequence[str], **fields: Any) -> WorkerSpec:
        """Start an attempt."""
        spec = self.spec(argv, **fields)
        self.send(spec, self.host.create_attempt(spec.attempt))
        return spec

    def send(self, spec: WorkerSpec, live: int) -> None:
        """Give an order to the launcher."""
        self.launcher.launch(spec, live)
        self.open.append(spec.attempt)

    def shell(self, script: str, **fields: Any) -> WorkerSpec:
        """Start an attempt of a shell script."""
        return self.launch(("sh", "-c", script), **fields)

    def life(self, attempt: AttemptId) -> str:
        """What the launcher says of the attempt."""
        return self.launcher.poll([*self.open, attempt])[attempt]

    def wait(self, spec: WorkerSpec) -> ExitRecord:
        """Wait for the worker's end by the launcher's descriptors; return its result."""
        for _ in range(600):
            if self.life(spec.attempt) == "ended":
                break
            poller = select.poll()
            for fd in self.launcher.wake_fds():
                poller.register(fd, select.POLLIN)
            poller.poll(50)
        assert self.life(spec.attempt) == "ended"
        record = self.host.read_exit(spec.attempt)
        assert record is not None, self.read(spec, "worker.err")
        self.open.remove(spec.attempt)
        return record

    def run(self, argv: Sequence[str], **fields: Any) -> ExitRecord:
        """Run an attempt to its end."""
        return self.wait(self.launch(argv, **fields))

    def folder(self, spec: WorkerSpec) -> Path:
        """The attempt's folder."""
        return self.bus / attempt_dir(spec.attempt)

    def read(self, spec: WorkerSpec, name: str) -> str:
        """A file of the attempt's folder; empty where it is missing."""
        path = self.folder(spec) / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait_file(self, name: str) -> str:
        """Wait for a file of the project to have a whole line; return its text."""
        path = self.work / name

        def whole() -> str:
            text = path.read_text() if path.exists() else ""
            return text if text.endswith("\n") else ""

        return wait_for(whole, name)

    def pid(self, name: str) -> int:
        """Wait for a pid that a command wrote into a file of the project."""
        return int(self.wait_file(name))

    def wait_command(self, spec: WorkerSpec) -> dict[str, Any]:
        """Wait for the identity of the attempt's command."""
        return wait_for(lambda: dict(self.host.read_command(spec.attempt) or {}), "the command's identity")

    def close(self) -> dict[int, str]:
        """Let go of everything; end and return what is left."""
        self.launcher.close()
        left = processes_with([str(self.work).encode()])
        for pid in left:
            kill(pid)
        self.host.close()
        return left


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench whose processes carry its folder in their environment."""
    monkeypatch.setenv("BENCH", str(tmp_path / "project"))
    made = Bench(tmp_path)
    yield made
    left = {pid: line for pid, line in made.close().items() if alive(pid)}
    wait_for(lambda: not any(map(alive, left)), "the end of what was left")
    assert not left, f"left behind: {left}"
