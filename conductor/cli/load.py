"""A track as it stands, for the verbs that look: a pure replay of the journal. Takes no lock, ingests nothing."""

from __future__ import annotations

from dataclasses import dataclass

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
    kept: list[Record] = []

    def keep(record: Record) -> None:
        if record.task == task:
            kept.append(record)

    replayed = replay(reader, seen=None if task is None else keep)
    last = replayed.last
    return Loaded(
        reader=reader,
        view=run_view(replayed.machine.state, last.t.mono if last else 0.0),
        plan=replayed.started.plan if replayed.started else None,
        holder=holder,
        epoch=holder.epoch if holder else last.epoch if last else 0,
        last_seq=replayed.last_seq,
        not_ingested=reader.not_ingested(),
        records=tuple(kept),
    )


def known_tasks(reader: Reader) -> list[str]:
    """Return the task ids of the newest round, in plan order."""
    return [task.id for task in load(reader).view.tasks]
