"""From the journal to the machine's state: what the conductor does at its start, and every looking verb each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bus.contract import Reader
from bus.wire import Record
from conductor.core.codec import decode
from conductor.core.events import RunEnded, RunResumed, RunStarted
from conductor.core.machine import Machine
from conductor.core.task import Plan, RunOptions
from conductor.plan import frozen


@dataclass(slots=True)
class Replayed:
    """A machine brought to the end of the journal, and what else the journal told."""

    machine: Machine
    last: Record | None = None
    """The newest record."""
    message_ids: set[str] = field(default_factory=set)
    """Ids of recorded messages: one found in the inbox again (a crash before its removal) is not recorded twice."""
    started: RunStarted | None = None
    """The newest round."""
    ended: RunEnded | None = None
    """Its end, if it has one."""
    options: RunOptions | None = None
    """The options in force: of the newest RUN_STARTED or RUN_RESUMED."""

    @property
    def last_seq(self) -> int:
        """The newest record's place in the journal; 0 where there is none."""
        return self.last.seq if self.last else 0


def replay(reader: Reader, *, seen: Callable[[Record], None] | None = None) -> Replayed:
    """Read the whole journal, telling `seen` of each record. Raises BusError where it, or a plan of it, is damaged."""
    plans: dict[str, Plan] = {}

    def plan_of(sha: str) -> Plan:
        if sha not in plans:
            plans[sha] = frozen.parse(reader.load_plan(sha))
        return plans[sha]

    result = Replayed(Machine())
    for record in reader.records():
        result.last = record
        if seen is not None:
            seen(record)
        if record.source.startswith("worker:"):
            result.message_ids.add(record.id)
        event = decode(record, plan_of)
        if event is None:
            continue
        result.machine.replay(event, record.t.mono, wall=record.t.wall)
        match event:
            case RunStarted():
                result.started, result.ended, result.options = event, None, event.options
            case RunResumed():
                result.options = event.options
            case RunEnded():
                result.ended = event
            case _:
                pass
    return result
