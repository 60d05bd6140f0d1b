"""Attempts of which the journal, which lost its end, does not tell: those that live, and the numbers of all.

Their names hold the run's random id, so a run that goes on finds its own again: it dispatches them under the same
names, and takes over what is there. Those of any other round would be started a second time beside the living ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bus.errors import BusCorrupt
from bus.host import FileHost
from bus.layout import encode_task_id, parse_attempt
from bus.losses import forget_cut, is_cut
from bus.reader import FileReader
from bus.wire import AttemptId, TaskId
from conductor.core.events import RunStarted
from conductor.core.policy import nonce
from conductor.core.state import Run, State
from conductor.core.wording import few, plural
from conductor.runtime.replay import Replayed
from conductor.runtime.start import Start


def refuse_strangers(host: FileHost, replayed: Replayed, *, to_stop: bool) -> None:
    """Raise BusCorrupt where attempts live that no run would find again; with `to_stop` have them end.

    Costs nothing but where the journal was cut; once the journal tells of all that live and of all numbers, that is
    forgotten.
    """
    if not is_cut(host.folders):
        return
    state = replayed.machine.state
    unknown = _unknown(host, state)
    # A round is needed: an empty journal is damage, but for the mark.
    if not unknown and replayed.run is not None and not taken_numbers(host, state, state.tasks):
        forget_cut(host.folders)
    if to_stop:
        for attempt in unknown:
            host.revoke(attempt, "stop")
        return
    if strangers := _not_found_again(unknown, replayed):
        raise refusal(host, strangers)


def strangers_of(reader: FileReader, replayed: Replayed) -> tuple[AttemptId, ...]:
    """Return the living attempts beside which no run begins; none where the journal did not lose its end."""
    if not is_cut(reader.folders):
        return ()
    return tuple(_not_found_again(_unknown(reader, replayed.machine.state), replayed))


def _unknown(reader: FileReader, state: State) -> list[AttemptId]:
    """Living attempts of which the journal does not tell."""
    known = set(state.open_attempts())
    return [one for one in sorted(reader.attempts()) if one not in known and reader.is_live(one)]


def _not_found_again(unknown: Iterable[AttemptId], replayed: Replayed) -> list[AttemptId]:
    """Those that the run that goes on, if one does, would not come to itself."""
    run = replayed.unfinished
    return [one for one in unknown if run is None or not is_of(one, run, replayed.machine.state)]


def above_taken(start: Start, host: FileHost, state: State) -> Start:
    """Let a new round number its attempts above those of which the journal does not tell."""
    first = start.first
    if not isinstance(first, RunStarted):
        return start
    return replace(
        start, first=replace(first, taken=taken_numbers(host, state, [task.id for task in first.plan.tasks]))
    )


def taken_numbers(host: FileHost, state: State, tasks: Iterable[TaskId]) -> dict[str, int]:
    """Return the highest number of an attempt's folder for each of the tasks of which the journal tells less.

    Numbers are never used twice, so a round goes on above them; nothing where the journal did not lose its end.
    """
    if not is_cut(host.folders):
        return {}
    highest: dict[str, int] = {}
    for name, number, _ in map(parse_attempt, host.attempts()):
        highest[name] = max(number, highest.get(name, 0))
    found = {task: highest.get(encode_task_id(task), 0) for task in tasks}
    return {task: number for task, number in found.items() if number > _known(state, task)}


def _known(state: State, task: TaskId) -> int:
    return state.tasks[task].number if task in state.tasks else state.retired.get(task, 0)


def is_of(attempt: AttemptId, run: Run, state: State) -> bool:
    """Tell whether a run gives an attempt this name."""
    name, number, digits = parse_attempt(attempt)
    return any(
        digits == nonce(run.options, run.id, task, number) for task in state.tasks if encode_task_id(task) == name
    )


def refusal(reader: FileReader, strangers: Sequence[AttemptId]) -> BusCorrupt:
    """The error that living strangers are to a run; its hint names their processes."""
    procs = [proc for one in strangers if (proc := reader.read_proc(one)) is not None]
    pids = " ".join(str(proc.pid) for proc in procs)
    end = f"end them: `kill {pids}`; or wait" if pids else "wait"
    return BusCorrupt(
        f"{plural(len(strangers), 'attempt')} of which the journal does not tell any more, as its end was cut off, "
        f"still alive: {few(strangers, 10)}. A run would start their tasks a second time",
        path=reader.folders.path,
        hint=f"{end} until they have ended; then run again",
    )
