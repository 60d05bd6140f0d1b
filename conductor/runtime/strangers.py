"""Attempts that live while the journal, which lost its end, does not tell of them.

Their names hold the run's random id, so a run that goes on finds its own again: it dispatches them under the same
names, and takes over what is there. Those of any other round would be started a second time beside the living ones.
"""

from __future__ import annotations

from bus.errors import BusCorrupt
from bus.host import FileHost
from bus.layout import encode_task_id, parse_attempt
from bus.losses import forget_cut, is_cut
from bus.wire import AttemptId
from conductor.core.policy import nonce
from conductor.core.state import Run, State
from conductor.core.wording import few, plural
from conductor.runtime.replay import Replayed


def refuse_strangers(host: FileHost, replayed: Replayed, *, to_stop: bool) -> None:
    """Raise BusCorrupt where attempts live that no run would find again; with `to_stop` have them end.

    Costs nothing but where the journal was cut; once nothing lives but what the journal tells of, that is forgotten.
    """
    if not is_cut(host.folders):
        return
    known = set(replayed.machine.state.open_attempts())
    unknown = [one for one in sorted(host.attempts()) if one not in known and host.is_live(one)]
    if not unknown and replayed.last_seq:  # a first record is needed: an empty journal is damage, but for the mark
        forget_cut(host.folders)
    if to_stop:
        for attempt in unknown:
            host.revoke(attempt, "stop")
        return
    run = replayed.unfinished
    strangers = [one for one in unknown if run is None or not _is_of(one, run, replayed.machine.state)]
    if strangers:
        raise _refusal(host, strangers)


def _is_of(attempt: AttemptId, run: Run, state: State) -> bool:
    """Tell whether a run gives an attempt this name."""
    name, number, digits = parse_attempt(attempt)
    return any(
        digits == nonce(run.options, run.id, task, number) for task in state.tasks if encode_task_id(task) == name
    )


def _refusal(host: FileHost, strangers: list[AttemptId]) -> BusCorrupt:
    procs = [proc for one in strangers if (proc := host.read_proc(one)) is not None]
    pids = " ".join(str(proc.pid) for proc in procs)
    end = f"end them: `kill {pids}`; or wait" if pids else "wait"
    return BusCorrupt(
        f"{plural(len(strangers), 'attempt')} of which the journal does not tell any more, as its end was cut off, "
        f"still live: {few(strangers, 10)}. A run would start their tasks a second time",
        path=host.folders.path,
        hint=f"{end} until they have ended; then run again",
    )
