"""An operator's order while no conductor lives: recorded under the lock, for the next one to act on.

What must not wait for it is done at once: a worker that lives on is told to stop where its task is cancelled, gets what
is said to it, and loses the locks that are taken from it. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from bus.host import FileHost, open_host
from bus.reader import open_reader
from bus.wire import Record, TaskId
from conductor.core.codec import encode
from conductor.core.events import ControlReceived, Fact
from conductor.core.instructions import DeliverText, Instruction
from conductor.core.state import State
from conductor.core.task import Running
from conductor.core.wait_events import GrantGone
from conductor.core.waits import name_of
from conductor.errors import ConductorError
from conductor.runtime.clock import Clock, SystemClock
from conductor.runtime.controls import Controls, Reload
from conductor.runtime.reloading import Reloading
from conductor.runtime.replay import Replayed
from conductor.runtime.start import Request, places_of
from conductor.runtime.waiting import Waiting


def record(
    request: Request, verb: str, who: str, target: str | None = None, text: str | None = None
) -> ControlReceived:
    """Record an order and return it as recorded: with the tasks that it changes, or why it means nothing (`refused`).

    Raises HeldByOther where a conductor lives (hand it the order instead), BusGone where there is no bus,
    ConductorError (`usage`) where the track never ran, BusError.
    """
    open_reader(request.bus).close()  # a host would make a bus where there is none
    replayed = Replayed()
    with closing(
        open_host(request.bus, unsafe_fs=request.unsafe_fs, follower=replayed, manual=replayed.manual)
    ) as host:
        if replayed.run is None:
            raise ConductorError("usage", "the track was never run: there is nothing to steer", path=str(request.track))
        places = places_of(request, Path(replayed.run.project))
        reload = Reloading(host, request.track, places, request.environ).read
        order = ControlReceived(verb, who, target, text, ahead=True)
        return _Desk(host, replayed, SystemClock(), reload).take(order)


class _Desk:
    """Records facts in the place of a conductor, without deciding anything."""

    def __init__(self, host: FileHost, replayed: Replayed, clock: Clock, reload: Reload) -> None:
        self._host = host
        self._controls = Controls(replayed.machine, reload)
        self._replayed = replayed
        self._clock = clock
        self._records: list[Record] = []

    @property
    def _state(self) -> State:
        return self._replayed.machine.state

    def take(self, order: ControlReceived) -> ControlReceived:
        """Record the order behind what is new of locks and waits, which it may be about; then carry it out."""
        held = {id: attempt for id in self._state.running if (attempt := self._state.tasks[id].attempt) is not None}
        changes = Waiting(self._host).look(self._state, held)
        for fact in (*changes.gone, *changes.come):
            self._stage(fact, "conductor")
        taken = {name_of(grant.attempt, grant.id): grant for grant in self._host.grants()}
        completed = self._controls.complete(order)
        order = completed.order
        instructions = self._stage(order, order.who)
        for fact in completed.facts:
            self._stage(fact, "conductor")
        self._commit()
        self._host.take_grants([taken[name] for name in map(_grant_of, completed.facts) if name in taken])
        for instruction in instructions:
            if isinstance(instruction, DeliverText):
                self._host.deliver(instruction.attempt, instruction.name, instruction.text.encode())
        if order.verb == "cancel" and order.refused is None:
            self._revoke(order.tasks)
        return order

    def _stage(self, fact: Fact, source: str) -> list[Instruction]:
        stamp = self._clock.stamp()
        type, task, attempt, payload = encode(fact)
        record = self._host.stage(type, payload, stamp, source=source, task=task, attempt=attempt)
        self._records.append(record)
        now = self._replayed.committed(record)
        return self._replayed.machine.handle(fact, now, wall=stamp.wall, decides=False)

    def _commit(self) -> None:
        self._host.commit()
        self._host.project(self._records)
        if self._host.checkpoint_due():
            self._replayed.keep(self._host)

    def _revoke(self, tasks: Iterable[TaskId]) -> None:
        """Tell workers that live on to stop; how they ended is judged by the next conductor."""
        for id in tasks:
            status = self._state.tasks[id].status
            if isinstance(status, Running):
                self._host.revoke(status.attempt, "cancelled")


def _grant_of(fact: Fact) -> str:
    return name_of(fact.attempt, fact.grant) if isinstance(fact, GrantGone) else ""
