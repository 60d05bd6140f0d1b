"""Real processes that publish while the host reads, and are killed while they do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bus import layout
from bus.host import open_host
from bus.wire import TaskId

HOME = Path(layout.__file__).parents[1]
WORKERS = 4
ENOUGH = 200
DEADLINE = 60.0

PUBLISHER = """
import os, sys
from bus.hand import open_hand
from bus.wire import Message
hand = open_hand(sys.argv[1], sys.argv[2])
while True:
    hand.publish(Message(os.urandom(16).hex(), "NOTE", hand.attempt, "t", {"text": "x" * 3000}))
"""


def test_requirement_1_killed_publishers_leave_whole_messages(tmp_path: Path) -> None:
    root = tmp_path / "bus"
    host = open_host(root, durability="process")
    workers = []
    for number in range(1, WORKERS + 1):
        attempt = layout.attempt_id(TaskId("1"), number, "0a1b2c3d")
        os.close(host.create_attempt(attempt))
        workers.append(subprocess.Popen([sys.executable, "-c", PUBLISHER, root, attempt], cwd=HOME))
    seen: list[str] = []
    alive = list(workers)
    until = time.monotonic() + DEADLINE
    try:
        while alive and time.monotonic() < until:
            scan = host.scan()
            assert scan.quarantined == ()
            seen += [item.message.id for item in scan.messages]
            host.discard(scan.messages)
            if len(seen) > ENOUGH * (WORKERS - len(alive) + 1) // WORKERS:
                alive[0].kill()
                alive.pop(0).wait()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    scan = host.scan()
    seen += [item.message.id for item in scan.messages]
    assert scan.quarantined == ()
    assert len(seen) > ENOUGH
    assert len(seen) == len(set(seen))
