"""What becomes of work that a journal which lost records does not tell of any more.

That it was done is told by what was made from those records: files in `events/`, results in `attempts/`, and the sound
records that a repair sets aside. A run that goes on finds the results of its own attempts again, by their names, which
hold its random id. All else is done again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from bus import layout
from bus.errors import BusError
from bus.losses import is_cut
from bus.reader import FileReader
from bus.wire import AttemptId, TaskId
from conductor.core.policy import judge
from conductor.core.state import State
from conductor.core.task import Done
from conductor.runtime.replay import Replayed
from conductor.runtime.strangers import is_of

_COMPLETE = "TASK_COMPLETE"


@dataclass(frozen=True, slots=True)
class LostWork:
    """Tasks that were done, of which the journal does not tell."""

    again: tuple[TaskId, ...] = ()
    """A run does them a second time."""
    found: tuple[TaskId, ...] = ()
    """The run that goes on finds their results."""


def lost_work(reader: FileReader, replayed: Replayed, told: Iterable[str] = ()) -> LostWork:
    """Look for it; nothing where the journal did not lose its end.

    `told`: names, as in file names, of the tasks that were done by the records that were set aside.
    """
    if not is_cut(reader.folders):
        return LostWork()
    state = replayed.machine.state
    ids = {layout.encode_task_id(task.id): task for task in state.order}
    results = _results(reader, state)
    found: dict[str, bool] = {}
    for name in sorted({*told, *_shown(reader), *results}):
        known = ids.get(name)
        if known is None or not isinstance(known.status, Done):
            found[name] = any(_goes_on(attempt, replayed) for attempt in results.get(name, ()))
    return LostWork(
        again=tuple(_id_of(name) for name, kept in found.items() if not kept),
        found=tuple(_id_of(name) for name, kept in found.items() if kept),
    )


def _shown(reader: FileReader) -> list[str]:
    """The tasks that `events/` shows as done."""
    parsed = filter(None, map(layout.parse_event_name, reader.folders.shown(layout.EVENTS)))
    return [task for type, task in parsed if type == _COMPLETE]


def _results(reader: FileReader, state: State) -> dict[str, list[AttemptId]]:
    """Successful attempts whose end the journal does not tell of, by their tasks' names."""
    numbers = {layout.encode_task_id(id): number for id, number in state.retired.items()}
    numbers |= {layout.encode_task_id(task.id): task.number for task in state.order}
    open = set(state.open_attempts())
    found: dict[str, list[AttemptId]] = {}
    for attempt in reader.attempts():
        name, number, _ = layout.parse_attempt(attempt)
        if (number > numbers.get(name, 0) or attempt in open) and _succeeded(reader, attempt):
            found.setdefault(name, []).append(attempt)
    return found


def _succeeded(reader: FileReader, attempt: AttemptId) -> bool:
    with suppress(BusError):
        exit = reader.read_exit(attempt)
        return exit is not None and judge(exit, None).error_class is None
    return False


def _goes_on(attempt: AttemptId, replayed: Replayed) -> bool:
    run, state = replayed.unfinished, replayed.machine.state
    return run is not None and (attempt in state.open_attempts() or is_of(attempt, run, state))


def _id_of(name: str) -> TaskId:
    try:
        return layout.decode_task_id(name)
    except layout.LayoutError:  # it was cut, as it is too long for a file's name
        return TaskId(name)
