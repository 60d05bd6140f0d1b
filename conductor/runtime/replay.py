"""From the journal to the machine's state: what the conductor does at its start, and every looking verb each time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from bus.contract import Host, Reader, Snapshot
from bus.errors import BusCorrupt
from bus.strict import WireError
from bus.wire import AttemptId, JsonObject, Record, TaskId, dumps
from conductor.core import snapshot as core
from conductor.core.codec import decode
from conductor.core.events import AttemptEnded, ControlReceived
from conductor.core.journal_time import JournalTime
from conductor.core.machine import Machine
from conductor.core.state import Run
from conductor.core.task import Plan
from conductor.core.transitions import IllegalTransition
from conductor.plan import frozen
from conductor.plan.collector import without_collector
from conductor.runtime.messages import Messages

_WORKER = "worker:"

LoadPlan = Callable[[str], bytes]


@dataclass(slots=True)
class Replayed:
    """What follows from the journal up to a record (`bus.contract.Follower`); the live loop keeps it up to date."""

    machine: Machine = field(default_factory=Machine)
    time: JournalTime = field(default_factory=JournalTime)
    messages: Messages = field(default_factory=Messages)
    last_seq: int = 0
    """The newest record's place in the journal; 0 where there is none."""
    epoch: int = 0
    """Of the newest record."""
    snapshot_seq: int = 0
    """The place of the newest snapshot, restored or dumped."""
    _plan: tuple[str, Plan] | None = None
    """The newest plan, by its hash."""

    @property
    def run(self) -> Run | None:
        """The newest round."""
        return self.machine.state.run

    @property
    def plan(self) -> Plan:
        """The plan of the newest round; an empty one before the first."""
        return self.machine.state.plan

    def manual(self) -> list[TaskId]:
        """Return the tasks of the newest round that are for a person."""
        return [task.id for task in self.plan.tasks if task.manual]

    @property
    def unfinished(self) -> Run | None:
        """The newest round, if its end is not recorded."""
        return None if self.machine.ended else self.run

    def restore(self, snapshot: Snapshot, load_plan: LoadPlan) -> bool:
        """Begin from a snapshot; False, with nothing changed, where this build did not write it.

        Raises BusError and PlanError where its plan is missing or damaged.
        """
        data = snapshot.state
        try:
            sha = core.plan_of(data["state"])
            plan = Plan(()) if sha is None else self._plan_of(sha, load_plan)
            with without_collector():
                state = core.load(data["state"], plan)
            time, messages = JournalTime(**data["time"]), Messages(**data["messages"], open=state.open_attempts())
        except (core.NotUnderstood, KeyError, TypeError, AttributeError):
            return False
        self.machine = Machine(state)
        self.time, self.messages = time, messages
        self.last_seq = self.snapshot_seq = snapshot.seq
        self.epoch = snapshot.epoch
        return True

    def take(self, record: Record, load_plan: LoadPlan) -> None:
        """Take in the next record. Raises BusCorrupt where it cannot follow those before, BusError and PlanError where
        its plan is missing or damaged."""
        now = self.committed(record)
        try:
            event = decode(record, lambda sha: self._plan_of(sha, load_plan))
            if event is not None:
                self.machine.replay(event, now, wall=record.t.wall)
        except (WireError, IllegalTransition) as error:
            raise BusCorrupt(
                f"record {record.seq} of the journal cannot follow those before it: {error}",
                hint="`conductor doctor TRACK` says what is wrong with the bus",
            ) from error

    def committed(self, record: Record) -> float:
        """A record stands in the journal; return its journal time."""
        self.last_seq, self.epoch = record.seq, record.epoch
        if record.source.startswith(_WORKER):
            self.messages.add(AttemptId(record.source.removeprefix(_WORKER)), record.id)
        elif record.type == ControlReceived.TYPE:
            self.messages.ordered(record.id)
        elif record.type == AttemptEnded.TYPE and record.attempt is not None:
            self.messages.closed(record.attempt)
        return self.time.at(record.t)

    def dump(self) -> JsonObject | None:
        """Return the state as JSON data; None in the middle of a pass."""
        state = core.dump(self.machine.state)
        if state is None:
            return None
        self.snapshot_seq = self.last_seq
        return {"state": state, "time": asdict(self.time), "messages": self.messages.dump()}

    def keep(self, host: Host) -> None:
        """Keep a snapshot, if one can be taken of this moment."""
        if (state := self.dump()) is not None:
            host.checkpoint(state)

    def digest(self) -> str:
        """Return a hash of all that follows from the journal alone."""
        return hashlib.sha256(dumps([self.machine.digest(), asdict(self.time), self.last_seq]).encode()).hexdigest()

    def _plan_of(self, sha: str, load_plan: LoadPlan) -> Plan:
        if self._plan is None or self._plan[0] != sha:
            self._plan = (sha, frozen.parse(load_plan(sha)))
        return self._plan[1]


def replay(reader: Reader, *, whole: bool = False) -> Replayed:
    """Bring a machine to the end of the journal: from the newest snapshot, or with `whole` from the first record.

    Raises BusError where the journal, or a plan of it, is damaged.
    """
    result = Replayed()
    with without_collector(lasting=True):
        reader.follow(result, whole=whole)
    return result
