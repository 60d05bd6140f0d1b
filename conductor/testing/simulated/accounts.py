"""Who was promised what: kept by what actors of a simulation did, and compared with the bus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field

from bus.layout import message_name
from bus.wire import AttemptId, ExitRecord, Message, Record, TaskId
from conductor.core.task import Plan
from conductor.testing.ledger import Ledger, demand


@dataclass(slots=True)
class Accounts:
    """The promises. `ledger` holds those about the work itself."""

    ledger: Ledger
    ran: set[AttemptId] = field(default_factory=set)
    """Attempts whose command was started."""
    results: dict[AttemptId, ExitRecord] = field(default_factory=dict)
    """What workers handed in, and were told that it is safe."""
    messages: dict[str, Message] = field(default_factory=dict)
    """The same of other messages, by id."""
    acknowledged: dict[int, str] = field(default_factory=dict)
    """Ids of records that were acknowledged, by seq."""
    plans: dict[str, Plan] = field(default_factory=dict)
    """All plans that there ever were, by hash."""
    plan_of: dict[AttemptId, Plan] = field(default_factory=dict)
    """Plan of the round in which an attempt was to be launched."""
    orders: dict[str, str] = field(default_factory=dict)
    """Verbs of the orders that were handed in, by who gave them: each has a name of its own."""
    _cut_off: set[AttemptId] = field(default_factory=set)
    """Attempts of a boot that is over."""

    def command_starts(self, task: TaskId, attempt: AttemptId, alive: Iterable[TaskId]) -> None:
        """A command is started while those of `alive` go on."""
        demand(attempt not in self.ran, f"the command of {attempt} was started twice")
        self.ran.add(attempt)
        self.ledger.started(task, alive, self.plan_of.get(attempt))

    def ending(self, task: TaskId, attempt: AttemptId, record: ExitRecord) -> None:
        """A worker begins to hand in its result: from now on it may be seen."""
        success = record.started and record.ended_by == "self" and record.command == {"code": 0, "signal": None}
        self.ledger.finished(task, attempt, success=success)

    def finished(self, attempt: AttemptId, record: ExitRecord) -> None:
        """The result is handed in."""
        self.results[attempt] = record

    def handed_in(self, message: Message) -> None:
        """A message is handed in."""
        self.messages[message.id] = message

    def recorded(self, records: Iterable[Record]) -> None:
        """Records were acknowledged."""
        self.acknowledged.update((record.seq, record.id) for record in records)

    def power_cut(self, *, durable_results: bool) -> None:
        """What was not promised to survive is owed no more."""
        self.messages.clear()
        self.orders.clear()
        self._cut_off |= self.ran
        if not durable_results:
            self.results.clear()

    def cut(self, before: Iterable[Record], records: Iterable[Record]) -> None:
        """The journal was damaged: of what it held `before`, or was acknowledged since, it owes what it holds now."""
        before = list(before)
        owed = {record.id for record in before} | set(self.acknowledged.values())
        here = {record.id: record.seq for record in records}
        self.acknowledged = {seq: id for id, seq in here.items() if id in owed}
        self.lose(record for record in before if record.id not in here)

    def lose(self, records: Iterable[Record]) -> None:
        """These records are owed no more, nor the messages of attempts that they tell of."""
        for record in records:
            if self.acknowledged.get(record.seq) == record.id:
                del self.acknowledged[record.seq]
            self.messages.pop(record.id, None)
            if record.type == "CONTROL":
                self.orders.pop(str(record.payload["who"]), None)
                self.ledger.void.clear()  # what an order took back may be done again
            if record.type == "WORKER_DISPATCHED" and record.attempt:
                if record.attempt in self._cut_off:  # its folder may have gone with the power, and nobody knows of it
                    self.ran.discard(record.attempt)
                self.messages = {id: one for id, one in self.messages.items() if one.attempt != record.attempt}

    def check(
        self, records: list[Record], lying: Collection[str], *, ended: bool, gone: Set[int] = frozenset()
    ) -> None:
        """Compare with a whole journal; `lying` are the files that still lie there, `gone` are the records that repairs
        gave up. Raises LedgerBroken."""
        found = {record.seq: record.id for record in records}
        for seq, id in self.acknowledged.items():
            demand(found.get(seq) == id, f"record {seq} was acknowledged and is lost")
        last = max({*found, *gone}, default=0)
        demand([record.seq for record in records] == sorted({*range(1, last + 1)} - gone), "a record is missing")
        ids = {record.id for record in records}
        demand(len(ids) == len(records), "something was recorded twice")
        for message in self.messages.values():
            name = message_name(message.attempt, message.id)
            kept = message.id in ids or any(one.endswith(name) for one in lying)
            demand(kept, f"message {name} was handed in and is lost")
        if gone:
            self.ledger.check_some(records)
        else:
            self.ledger.check(records, ended=ended, plans=self.plans)
        verdicts = {one.attempt: one.payload for one in records if one.type == "ATTEMPT_ENDED"}
        for attempt, result in self.results.items():
            if attempt in verdicts and verdicts[attempt]["error_class"] != "unkillable":  # it came to its end later
                _check_verdict(attempt, result, verdicts[attempt])

    def check_orders(self, records: Iterable[Record], lying: Collection[str]) -> None:
        """Every order is recorded once, or lies somewhere. Raises LedgerBroken."""
        given = Counter(str(record.payload["who"]) for record in records if record.type == "CONTROL")
        for who, verb in self.orders.items():
            kept = given[who] == 1 or (given[who] == 0 and any(name.endswith(f"-{verb}") for name in lying))
            demand(kept, f"{who} ordered {verb}: that is recorded {given[who]} times")


def _check_verdict(attempt: AttemptId, result: ExitRecord, verdict: Mapping[str, object]) -> None:
    """A result that was handed in decides; whatever else was found out about its worker is no verdict."""
    same = verdict["exit"] == result.command and verdict["started"] == result.started
    demand(same, f"{attempt} handed in {result.command} and was judged {verdict['error_class']}: {verdict['message']}")
