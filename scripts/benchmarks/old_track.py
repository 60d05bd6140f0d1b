"""An old track, made as a run makes it: the machine decides, the host records; only the workers are not there."""

from __future__ import annotations

import hashlib
import shutil
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from bus.host import FileHost, open_host
from bus.wire import Record, Stamp
from conductor.core.codec import encode
from conductor.core.events import Event, Fact, ProgressReceived, ResultReceived, RunStarted
from conductor.core.instructions import Instruction, Journal, LaunchWorker
from conductor.core.task import RunOptions
from conductor.plan import frozen, load
from conductor.plan.source import fingerprint
from conductor.runtime.clock import SystemClock
from conductor.runtime.replay import Replayed
from conductor.testing.plans import ending

TRUE = shutil.which("true") or "/bin/true"
BATCH = 64
"""Facts recorded with one write."""


def make(track: Path, tasks: int, *, unfinished: int, progress: int) -> int:
    """Make a track of which all but the last `unfinished` tasks are done, its conductor gone without a word.

    Each task costs four records, and `progress` more. Returns the number of records.
    """
    nodes = "".join(
        f'    - {{id: "{n}", name: "Task number {n}", files: ["src/f{n}.py"], run: ["{TRUE}"]}}\n' for n in range(tasks)
    )
    track.mkdir(parents=True, exist_ok=True)
    (track / "plan.md").write_text(f"# old\n\n```yaml\ndag:\n  project: .\n  nodes:\n{nodes}```\n")
    host = open_host(track / ".message-bus", durability="process")
    try:
        return _Worked(host, track, progress).until(tasks - unfinished)
    finally:
        host.close()


class _Worked:
    """A run in which every attempt succeeds at once."""

    def __init__(self, host: FileHost, track: Path, progress: int) -> None:
        self._host = host
        self._clock = SystemClock()
        self._replayed = Replayed()
        self._progress = progress
        self._launched: deque[LaunchWorker] = deque()
        self._records = 0
        body = frozen.dump(plan := load(track))
        host.freeze_plan(body)
        self._first = RunStarted(
            "0" * 16,
            hashlib.sha256(body).hexdigest(),
            str(track.resolve()),
            RunOptions(durability="process"),
            plan,
            fingerprint(track),
        )

    def until(self, done: int) -> int:
        """Work until so many tasks are done; return the number of records. What was launched then is left as it is."""
        self._record([self._first])
        finished = 0
        while finished < done:
            batch = [self._launched.popleft() for _ in range(min(BATCH, done - finished, len(self._launched)))]
            finished += len(batch)
            self._record(fact for one in batch for fact in self._facts(one))
        return self._records

    def _facts(self, one: LaunchWorker) -> Iterable[Fact]:
        for number in range(self._progress):
            pct = 100.0 * number / self._progress
            yield ProgressReceived(one.task, one.attempt, pct, f"step {number} of {self._progress}")
        yield ResultReceived(one.task, one.attempt, ending(seconds=0.01))

    def _record(self, facts: Iterable[Fact]) -> None:
        records: list[Record] = []
        for fact in facts:
            stamp = self._clock.stamp()
            now = self._replayed.time.at(stamp)
            records.append(self._stage(fact, stamp))
            for instruction in self._replayed.machine.handle(fact, now, wall=stamp.wall):
                records += self._follow(instruction, stamp)
        self._host.commit()
        self._host.project(records)
        for record in records:
            self._replayed.committed(record)
        self._records += len(records)
        if self._host.checkpoint_due() and (state := self._replayed.dump()) is not None:
            self._host.checkpoint(state)

    def _stage(self, event: Event, stamp: Stamp) -> Record:
        type, task, attempt, payload = encode(event)
        source = f"worker:{attempt}" if isinstance(event, (ProgressReceived, ResultReceived)) else "conductor"
        return self._host.stage(type, payload, stamp, source=source, task=task, attempt=attempt)

    def _follow(self, instruction: Instruction, stamp: Stamp) -> list[Record]:
        """Return the record of a decision; remember a launch."""
        if isinstance(instruction, LaunchWorker):
            self._launched.append(instruction)
        return [self._stage(instruction.decision, stamp)] if isinstance(instruction, Journal) else []
