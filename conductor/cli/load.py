"""A track as it stands, for the verbs that look: a pure replay of the journal. Takes no lock, ingests nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bus.contract import Holder, Reader
from bus.errors import BusError, BusGone
from bus.losses import is_cut
from bus.wire import AttemptId, ExitRecord
from conductor.cli.track import Track, unknown_task
from conductor.core.state import State
from conductor.core.view import RunView, TaskView, planned_view, run_view
from conductor.errors import PlanError
from conductor.runtime.replay import Replayed, replay

if TYPE_CHECKING:
    from bus.reader import FileReader

OPEN_STATES = frozenset({"running", "draining", "paused"})
"""States of a run whose end is not in the journal."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One look at a track."""

    reader: FileReader
    view: RunView
    """Its state is `interrupted` where nobody runs it and its end is not recorded."""
    holder: Holder | None
    epoch: int
    """Of the newest record; 0 where there is none."""
    last_seq: int
    not_ingested: int
    state: State
    """What the journal says, of which `view` is the picture."""
    strangers: tuple[AttemptId, ...] = ()
    """Attempts that live although the journal, which lost its end, does not tell of them."""

    @property
    def journal_lost(self) -> bool:
        """Whether the bus was used, and the journal lost its beginning: it tells of no run."""
        return self.view.id is None and self.view.reset_at is None and is_cut(self.reader.folders)

    def no_run(self) -> str:
        """Say in words why the journal tells of no run."""
        if self.view.reset_at is not None:
            return f"set back at {time.strftime('%Y-%m-%d %H:%M', time.localtime(self.view.reset_at))}"
        return "the journal before was lost, and no run has begun since" if self.journal_lost else "never run"

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


def open_track(track: Track) -> FileReader | None:
    """Open the bus of a track to look at it; None where the track was never run."""
    from bus.reader import open_reader

    try:
        return open_reader(track.bus)
    except BusGone:
        if track.bus.exists():
            raise
        return None


def load(reader: FileReader) -> Loaded:
    """Bring a machine to the end of the journal. Raises BusError where it is damaged."""
    # Who holds the track is asked first: a run that ends in between is then shown as ended, not as interrupted.
    holder = reader.holder()
    replayed = replay(reader)
    view = run_view(replayed.machine.state)
    if holder is None and view.state in OPEN_STATES:
        view = replace(view, state="interrupted")
    return Loaded(
        reader=reader,
        view=view,
        holder=holder,
        epoch=holder.epoch if holder else replayed.epoch,
        last_seq=replayed.last_seq,
        not_ingested=reader.not_ingested(),
        state=replayed.machine.state,
        strangers=_strangers(reader, replayed),
    )


def _strangers(reader: FileReader, replayed: Replayed) -> tuple[AttemptId, ...]:
    if not is_cut(reader.folders):
        return ()
    from conductor.runtime.strangers import strangers_of  # with it comes half of a run

    return strangers_of(reader, replayed)


def known_tasks(reader: FileReader) -> list[str]:
    """Return the task ids of the newest round, in plan order."""
    return [task.id for task in load(reader).view.tasks]


def never_run(track: Track) -> tuple[RunView, PlanError | None]:
    """Return the picture of a track without a run: what its plan would run, or nothing and what is wrong with it."""
    from conductor.core import limits
    from conductor.plan import load as load_plan

    try:
        plan = load_plan(track.dir)
        limits.enforce(plan)
    except PlanError as error:
        error.track = track.label
        return run_view(State()), error
    return planned_view(plan), None


def check_planned(track: Track, task: str) -> None:
    """Raise `unknown_task` for a task that the plan of a track without a run does not have, if it can be read."""
    view, error = never_run(track)
    known: list[str] = [other.id for other in view.tasks]
    if error is None and task not in known:
        raise unknown_task(track, task, known)


def tail_of(reader: Reader, task: TaskView) -> str:
    """Return the end of what the newest attempt's command printed: of its stderr, where it printed anything there.

    Nothing where that is not kept.
    """
    exit = _exit_of(reader, task)
    return exit.tail if exit else ""


def stream_of(reader: Reader, task: TaskView) -> str:
    """Return the stream that `tail_of` is the end of."""
    exit = _exit_of(reader, task)
    return "stderr" if exit and exit.log_bytes.get("stderr") else "stdout"


def _exit_of(reader: Reader, task: TaskView) -> ExitRecord | None:
    try:
        return None if task.attempt is None else reader.read_exit(task.attempt)
    except BusError:
        return None
