"""A journal of many megabytes, as rounds of the very plan that the storm will run would have written it.

Each round is made by the machine itself, from facts that are made up: workers report progress, then their tasks fail.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from world import World

from bus.host import FileHost, open_host
from bus.wire import ExitRecord, Stamp
from conductor.core.codec import encode
from conductor.core.events import Fact, ProgressReceived, ResultReceived, RunStarted
from conductor.core.instructions import Journal, LaunchWorker
from conductor.core.task import RunOptions
from conductor.plan import frozen, load
from conductor.plan.claims import from_project
from conductor.runtime.replay import Replayed

REPORTS = 20
"""Progress messages of each attempt."""

_EXIT = ExitRecord(
    started=True, ended_by="self", command={"code": 1, "signal": None}, seconds=1.0, tail="no luck\n" * 9
)


class History:
    """Writes rounds to a bus that nobody runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._replayed = Replayed()
        self._plan = from_project(load(world.track), world.track.parent)
        self._clock = time.clock_gettime(time.CLOCK_BOOTTIME) - 1e6

    def write(self, megabytes: float) -> int:
        """Write so much; return the last record's number."""
        host = open_host(self._world.bus, durability="process", follower=self._replayed)
        try:
            body = frozen.dump(self._plan)
            host.freeze_plan(body)
            sha = hashlib.sha256(body).hexdigest()
            seq = 0
            while journal_size(self._world.bus) < megabytes * 1e6:
                seq = self._round(host, sha)
            return seq
        finally:
            host.close()

    def _round(self, host: FileHost, sha: str) -> int:
        options = RunOptions(retries=0, durability="process", seed=7)
        project = str(self._world.track.parent)
        facts: list[Fact] = [RunStarted(os.urandom(8).hex(), sha, project, options, self._plan)]
        seq = 0
        while facts:
            seq, launched = self._record(host, facts)
            facts = [fact for wanted in launched for fact in _attempt(wanted)]
        return seq

    def _record(self, host: FileHost, facts: list[Fact]) -> tuple[int, list[LaunchWorker]]:
        """Record facts and what is decided upon them, as the conductor's loop does; return the attempts to launch."""
        replayed, launched = self._replayed, []
        for fact in facts:
            self._clock += 0.01
            stamp = Stamp(round(time.time(), 6), round(self._clock, 6), "0" * 36)
            type, task, attempt, payload = encode(fact)
            source = f"worker:{attempt}" if attempt else "conductor"
            now = replayed.committed(host.stage(type, payload, stamp, source=source, task=task, attempt=attempt))
            for instruction in replayed.machine.handle(fact, now, wall=stamp.wall):
                if isinstance(instruction, Journal):
                    type, task, attempt, payload = encode(instruction.decision)
                    replayed.committed(host.stage(type, payload, stamp, task=task, attempt=attempt))
                elif isinstance(instruction, LaunchWorker):
                    launched.append(instruction)
        host.commit()
        if host.checkpoint_due() and (state := replayed.dump()) is not None:
            host.checkpoint(state)
        return replayed.last_seq, launched


def _attempt(wanted: LaunchWorker) -> list[Fact]:
    reports = [
        ProgressReceived(wanted.task, wanted.attempt, 100.0 * number / REPORTS, f"step {number} of {REPORTS}")
        for number in range(REPORTS)
    ]
    return [*reports, ResultReceived(wanted.task, wanted.attempt, _EXIT)]


def journal_size(bus: Path) -> int:
    """Bytes of the journal, sealed parts included."""
    return sum(path.stat().st_size for path in (bus / "queue.jsonl", *(bus / "segments").iterdir()))


def forget_snapshots(bus: Path) -> None:
    """Take away what would make the first start fast."""
    for path in (bus / "snapshots").iterdir():
        path.unlink()
