"""A worker in another language: the shell example, with nothing but coreutils and the environment it is given."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from bus import layout
from bus.host import open_host
from bus.wire import TaskId

SCRIPT = Path(layout.__file__).parents[1] / "examples" / "shell-worker" / "worker.sh"
TASK = TaskId("a/b 1")


def run(root: Path, cwd: Path, attempt: str) -> int:
    environment = {
        "PATH": "/usr/bin:/bin",
        "CONDUCTOR_BUS_DIR": str(root),
        "CONDUCTOR_ATTEMPT": attempt,
        "CONDUCTOR_NONCE": attempt[-8:],
        "CONDUCTOR_TASK_ID": TASK,
    }
    return subprocess.run([SCRIPT], cwd=cwd, env=environment, check=False).returncode


def test_its_messages_are_accepted(tmp_path: Path) -> None:
    root = tmp_path / "bus"
    host = open_host(root, durability="process")
    attempt = layout.attempt_id(TASK, 1, "0a1b2c3d")
    os.close(host.create_attempt(attempt))
    assert run(root, tmp_path, attempt) == 0
    scan = host.scan()
    assert scan.quarantined == ()
    said = {item.message.type: item.message.payload for item in scan.messages}
    assert said["PROGRESS"] == {"pct": 50, "text": "half way"}
    assert said["REPORT"] == {"verb": "complete", "commit": None, "files": ["greeting.txt"]}
    assert json.loads((root / layout.attempt_dir(attempt) / "report.json").read_text()) == said["REPORT"]
    assert list((root / "tmp").iterdir()) == []
    assert (tmp_path / "greeting.txt").read_text() == "hello from task a/b 1\n"


def test_it_heeds_a_stop(tmp_path: Path) -> None:
    root = tmp_path / "bus"
    host = open_host(root, durability="process")
    attempt = layout.attempt_id(TASK, 1, "0a1b2c3d")
    os.close(host.create_attempt(attempt))
    host.revoke(attempt, "stopped")
    assert run(root, tmp_path, attempt) == 76
    assert not (tmp_path / "greeting.txt").exists()
