"""Starting over, under the lock: a track as if it had never run, or single tasks with all that depends on them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from bus.contract import Host
from bus.host import open_host
from bus.reader import open_reader
from bus.wire import AttemptId, Record, TaskId
from conductor.core.codec import encode
from conductor.core.events import ControlReceived
from conductor.core.resets import affected
from conductor.errors import ConductorError
from conductor.runtime.clock import Clock, SystemClock
from conductor.runtime.replay import Replayed, replay
from conductor.runtime.session import Session
from conductor.runtime.start import Request


@dataclass(frozen=True, slots=True)
class Reset:
    """What was taken back."""

    tasks: tuple[TaskId, ...]
    """In plan order; none where there was nothing to take back, and then nothing was recorded."""
    everything: bool
    stopped: bool = False
    """Whether the run of a conductor that had died was ended first."""
    unkillable: tuple[AttemptId, ...] = ()
    """Attempts that nothing could end when their run was over: a reset does not make them go."""


def reset(request: Request, tasks: Sequence[str], who: str) -> Reset:
    """Take `tasks`, and all that depends on them, back to pending; without tasks forget the whole run.

    Numbers of attempts stay used, and nothing on disk is deleted. A run whose conductor died is ended first, its
    workers with it. Raises HeldByOther while one lives, `unknown_task`, BusGone where the track never ran, BusError.
    """
    stopped = False
    while True:
        stopped = _end_crashed_run(request, who) or stopped
        replayed = Replayed()
        opened = open_host(request.bus, unsafe_fs=request.unsafe_fs, follower=replayed, manual=replayed.manual)
        with closing(opened) as host:
            if replayed.unfinished is None:  # otherwise somebody has begun another one meanwhile, and died
                done = take_back(host, replayed, tasks, who, SystemClock())
                return replace(done, stopped=stopped, unkillable=tuple(replayed.machine.state.unkillable))


def take_back(host: Host, replayed: Replayed, tasks: Sequence[str], who: str, clock: Clock) -> Reset:
    """Record the reset, on a track that is held and whose newest round is over. Raises `unknown_task`, BusError."""
    state = replayed.machine.state
    if replayed.run is None:
        return Reset((), not tasks)
    if not tasks:
        found = tuple(state.tasks)
        _record(host, replayed, [ControlReceived("reset", who)], clock)
        return Reset(found, True)
    named = _known(replayed, tasks)
    facts = [
        ControlReceived("reset", who, id, None, closure, task=id) for id in named if (closure := affected(state, [id]))
    ]
    _record(host, replayed, facts, clock)
    taken = {id for fact in facts for id in fact.tasks}
    return Reset(tuple(id for id in state.tasks if id in taken), False)


def _end_crashed_run(request: Request, who: str) -> bool:
    """End the run of a conductor that died: adopt its workers, stop them, record it."""
    with closing(open_reader(request.bus)) as reader:
        if replay(reader).unfinished is None:
            return False
    with Session(replace(request, to_stop=True)) as session:
        if session.start.goes_on:
            session.run(_Silent(), then=[ControlReceived("stop", who)])
        return session.start.goes_on


def _known(replayed: Replayed, tasks: Sequence[str]) -> list[TaskId]:
    state = replayed.machine.state
    for task in tasks:
        if task not in state.tasks:
            raise ConductorError(
                "unknown_task", f"the run has no task {task!r}", hint="`conductor status TRACK` lists them"
            )
    return [id for id in state.tasks if id in tasks]


def _record(host: Host, replayed: Replayed, facts: Sequence[ControlReceived], clock: Clock) -> None:
    records = list[Record]()
    for fact in facts:
        stamp = clock.stamp()
        type, task, attempt, payload = encode(fact)
        record = host.stage(type, payload, stamp, source=fact.who, task=task, attempt=attempt)
        replayed.machine.replay(fact, replayed.committed(record), wall=stamp.wall)
        records.append(record)
    host.commit()
    host.project(records)
    if host.checkpoint_due():
        replayed.keep(host)


class _Silent:
    """An observer that shows nothing."""

    def recorded(self, records: list[Record]) -> None:
        """Nothing to show."""

    def tick(self) -> float | None:
        """Nothing to show."""
        return None

    def trouble(self, text: str) -> None:
        """Whoever ends the run is told by its end."""
