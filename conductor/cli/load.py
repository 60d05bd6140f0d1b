"""A track as it stands, for the verbs that look: a pure replay of the journal. Takes no lock, ingests nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from bus.contract import Holder, Reader
from bus.errors import BusGone
from bus.wire import AttemptId, Record
from conductor.cli.track import Track, unknown_task
from conductor.core.task import Plan
from conductor.core.view import RunView, TaskView, run_view
from conductor.runtime.replay import replay

OPEN_STATES = frozenset({"running", "draining", "paused"})
"""States of a run whose end is not in the journal."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One look at a track."""

    reader: Reader
    view: RunView
    plan: Plan | None
    """The plan of the newest round; None where there was none."""
    holder: Holder | None
    epoch: int
    """Of the newest record; 0 where there is none."""
    last_seq: int
    not_ingested: int
    records: tuple[Record, ...] = ()
    """The records of the task that was asked for."""

    @property
    def state(self) -> str:
        """The run's state in one word; `interrupted` where nobody runs it and its end is not recorded."""
        interrupted = self.holder is None and self.view.state in OPEN_STATES
        return "interrupted" if interrupted else self.view.state

    def alive(self) -> tuple[AttemptId, ...]:
        """Return the attempts whose workers live, by their locks."""
        workers = (task.worker for task in self.view.tasks)
        return tuple(worker for worker in workers if worker is not None and self.reader.is_live(worker))

    def task(self, track: Track, id: str) -> TaskView:
        """Return one task. Raises `unknown_task`."""
        for task in self.view.tasks:
            if task.id == id:
                return task
        raise unknown_task(track, id, [task.id for task in self.view.tasks])


class _Passing:
    """A journal that remembers what it handed on: the last record, whose epoch stands only in the envelope, and all
    records of one task."""

    def __init__(self, reader: Reader, task: str | None) -> None:
        self._reader = reader
        self._task = task
        self.kept: list[Record] = []
        self.load_plan = reader.load_plan
        self.last: Record | None = None

    def records(self, since: int = 0) -> Iterator[Record]:
        for record in self._reader.records(since):
            self.last = record
            if self._task is not None and record.task == self._task:
                self.kept.append(record)
            yield record


def open_track(track: Track) -> Reader | None:
    """Open the bus of a track to look at it; None where the track was never run."""
    from bus.reader import open_reader

    try:
        return open_reader(track.bus)
    except BusGone:
        if track.bus.exists():
            raise
        return None


def load(reader: Reader, *, task: str | None = None) -> Loaded:
    """Replay the journal, keeping the records of `task`. Raises BusError where it is damaged."""
    # Who holds the track is asked first: a run that ends in between is then shown as ended, not as interrupted.
    holder = reader.holder()
    passing = _Passing(reader, task)
    replayed = replay(cast(Reader, passing))
    last = passing.last
    return Loaded(
        reader=reader,
        view=run_view(replayed.machine.state, last.t.mono if last else 0.0),
        plan=replayed.started.plan if replayed.started else None,
        holder=holder,
        epoch=holder.epoch if holder else last.epoch if last else 0,
        last_seq=replayed.last_seq,
        not_ingested=reader.not_ingested(),
        records=tuple(passing.kept),
    )


def known_tasks(reader: Reader) -> list[str]:
    """Return the task ids of the newest round, in plan order."""
    return [task.id for task in load(reader).view.tasks]
