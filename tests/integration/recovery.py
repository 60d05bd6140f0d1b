"""What the tests of recovery share: gated tasks that print, a conductor that is killed, who the processes are."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.tools import Node, Project, wait_for


@dataclass(frozen=True)
class Identity:
    """The processes of an attempt."""

    attempt: str
    worker: int
    command: int


def all_of(project: Project, task: str) -> str:
    """A shell script that waits for its gate and says that it ends."""
    return f"echo >{task}.up; while [ ! -e {project.gates / task} ]; do sleep 0.02; done; echo {task} ends"


def gated(project: Project, task: str, **keys: Any) -> Node:
    """A task that prints, waits for its gate, and prints again."""
    return project.shell(task, f"echo {task} begins; {all_of(project, task)}", **keys)


def crash(project: Project, *tasks: str) -> None:
    """Start a run and kill its conductor once the gated `tasks` are at work and their claims are complete."""
    run = project.start_run()
    for task in tasks:
        wait_for((project.dir / f"{task}.up").exists, f"the start of {task}")
        identity(project, task)
    run.send(signal.SIGKILL)
    run.finish()


def claim(project: Project, task: str) -> Path:
    """The claim of a task's newest attempt."""
    attempt = project.wait_recorded("WORKER_DISPATCHED", task)["attempt"]
    folder = wait_for(lambda: next(project.bus.glob(f"attempts/*/{attempt}"), None), f"the folder of {attempt}")
    return folder / "proc.json"


def identity(project: Project, task: str) -> Identity:
    """Who works for a task's newest attempt; waits until its command is known."""
    path = claim(project, task)
    worker, command = map(json.loads, wait_for(lambda: len(lines_of(path)) == 2 and lines_of(path), f"{path}"))
    return Identity(path.parent.name, worker["pid"], command["pid"])


def lines_of(path: Path) -> list[str]:
    """The finished lines of a file."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def change_claim(project: Project, task: str, **fields: object) -> None:
    """Let the claim of a task's newest attempt say something else."""
    path = claim(project, task)
    head, *rest = lines_of(path)
    path.write_text("\n".join([json.dumps({**json.loads(head), **fields}), *rest]) + "\n", encoding="utf-8")


def quarantined(project: Project) -> list[str]:
    """What was set aside."""
    return sorted(path.name for path in (project.bus / "quarantine").iterdir())
