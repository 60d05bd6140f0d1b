"""What workers and operators handed in, as entries for the journal."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from bus.contract import Claim, Control, Host, Incoming, Quarantined
from bus.wire import AttemptId, JsonObject, Message, TaskId, exit_from_json
from conductor.core.codec import encode
from conductor.core.events import ControlReceived, Fact, ProgressReceived, ReportReceived, ResultReceived
from conductor.core.supervision import UsageReported
from conductor.runtime.attempts import Attempts

ENDS = ("drain", "stop")
"""Orders for the conductor that lives: one that was left for another means nothing to the next."""

BOUND = (*ENDS, "pause")
"""Orders that may name the epoch of the conductor that they are meant for, and are for no other then."""

CLAIM = "claim"
"""Who says of a manual task that it is complete or failed, by a file in `events/`."""

_CLAIMED = {"TASK_COMPLETE": "complete", "TASK_FAILED": "fail"}

MAX_REASON = 300
"""Characters of the reason why something was set aside."""

RESET = "reset"
"""What only a verb that holds the lock may record, while nothing runs."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One fact for the journal; `fact` is None for types that the machine does not know (kept, shown, ignored)."""

    type: str
    payload: JsonObject
    task: TaskId | None
    attempt: AttemptId | None
    source: str
    fact: Fact | None
    id: str | None = None
    item: Incoming | Control | Claim | None = None
    """The file that it came from, to be removed once it is recorded."""
    decides: bool = True
    """False for a fact behind which another follows before anything may be decided."""


def entry_of(
    fact: Fact, *, source: str = "conductor", id: str | None = None, item: Incoming | Control | Claim | None = None
) -> Entry:
    """Make an entry of a fact that the machine knows."""
    type, task, attempt, payload = encode(fact)
    return Entry(type, payload, task, attempt, source, fact, id, item)


class Inbound:
    """Reads `inbox/` and `control/`; remembers what is recorded, so that nothing is recorded twice."""

    def __init__(self, host: Host, known: Container[str], say: Callable[[str], None]) -> None:
        """`say` tells people of what cannot be read now, once, and when it can be again."""
        self._host = host
        self._known = known
        self._say = say
        self._first = True
        """Until the first look is over: what lies there then was meant for an earlier conductor."""
        self.blocked: str | None = None
        """Why the bus could not be written at the last look."""
        self.more = False
        """Whether the last look left something unread: conclude nothing from what is missing, and look again soon."""
        self._trouble: str | None = None
        """Why something could not be read at this look."""
        self._said = False

    @property
    def unreadable(self) -> bool:
        """Whether something could not be read at the last look, so that no end of a worker can be concluded."""
        return self._trouble is not None

    def orders(self) -> list[Entry]:
        """Return what operators have left before the first look at anything else: a run that is to be paused must not
        begin with a launch."""
        scan = self._host.scan()
        found = [self._of_control(control) for control in scan.controls]
        self._first = False
        return [entry for entry in (*found, *map(_set_aside, scan.quarantined)) if entry is not None]

    def read(self, attempts: Attempts, manual: Sequence[TaskId] = ()) -> list[Entry]:
        """Return an entry for each new message of an open attempt, each control, and each claim about the tasks in
        `manual`, in the scan's order."""
        scan = self._host.scan(attempts.by_task(), manual)
        self.more, self._trouble, self.blocked = scan.more, scan.trouble, scan.blocked
        found = [self._of_message(incoming, attempts) for incoming in scan.messages]
        found += [self._of_control(control) for control in scan.controls]
        found += [_of_claim(claim) for claim in scan.claims]
        found += [_set_aside(one) for one in scan.quarantined]
        self._first = False
        self._say_trouble()
        return [entry for entry in found if entry is not None]

    def _of_message(self, incoming: Incoming, attempts: Attempts) -> Entry | None:
        """Return what a message says; None where it says nothing (now).

        One of an attempt that is not open is refused into quarantine; one that is recorded already (the conductor died
        between the record and the removal) is only removed.
        """
        message = incoming.message
        task = attempts.task_of(message.attempt)
        if message.id in self._known:
            self._host.discard([incoming])
            return None
        if task is None:
            self._of_closed(incoming)
            return None
        if message.type == "RESULT":
            fact: Fact | None = self._result(incoming, task, attempts)
            if fact is None:
                return None
        else:
            fact = _fact_of(message, task)
        source = f"worker:{message.attempt}"
        if fact is None:
            return Entry(message.type, message.payload, task, message.attempt, source, None, message.id, incoming)
        return entry_of(fact, source=source, id=message.id, item=incoming)

    def _result(self, incoming: Incoming, task: TaskId, attempts: Attempts) -> ResultReceived | None:
        """A RESULT only announces `exit.json`, which is the result.

        Without one it is refused, since whatever runs in an attempt can hand in messages. It stays where it is until
        worker and tree are gone: until then the attempt keeps its slot and its files.
        """
        attempt = incoming.message.attempt
        try:
            exit = self._host.read_exit(attempt)
        except OSError as error:
            self._later(error)
            return None
        if exit is None:
            self._host.refuse(incoming, "a RESULT without exit.json")
            return None
        return ResultReceived(task, attempt, exit) if attempts.is_over(attempt, exit) else None

    def _of_closed(self, incoming: Incoming) -> None:
        """Put a message away whose attempt is not open: it cannot change anything, and is kept for people.

        A RESULT whose `exit.json` decided before it came, or before a power cut brought it back, says nothing new.
        """
        message = incoming.message
        try:
            late = message.type == "RESULT" and self._host.read_exit(message.attempt) == exit_from_json(message.payload)
        except OSError as error:
            self._later(error)
            return
        if late:
            self._host.discard([incoming])
        else:
            self._host.refuse(incoming, f"attempt {message.attempt} is not open")

    def _later(self, error: OSError) -> None:
        """Leave a message where it is, as the result that it speaks of cannot be read now."""
        self.more, self._trouble = True, f"a result cannot be read: {error.strerror}"

    def _say_trouble(self) -> None:
        """Say it once, and once that it is over."""
        if self._trouble and not self._said:
            self._say(f"{self._trouble}; trying again, nothing is lost")
        elif self._said and not self._trouble:
            self._say("resumed: what is handed in can be read again")
        self._said = self._trouble is not None

    def _of_control(self, control: Control) -> Entry | None:
        if control.id in self._known:  # its conductor died between the record and the removal
            self._host.discard([control])
            return None
        if control.verb == RESET:
            self._host.refuse(control, "only `conductor reset` can do that, while nothing runs")
            return None
        if control.verb in BOUND and not self._is_for_us(control):
            self._host.refuse(control, "meant for an earlier conductor")
            return None
        who = f"operator:{control.who}"  # whatever a file says: it is no signal
        fact = ControlReceived(control.verb, who, control.target, control.text)
        return entry_of(fact, source=who, id=control.id, item=control)

    def _is_for_us(self, control: Control) -> bool:
        if control.epoch is not None:
            return control.epoch == self._host.epoch
        return not self._first or control.verb not in ENDS

    def forget_recorded(self) -> None:
        """Remove what a conductor recorded and died before removing, where there is nothing else to do."""
        scan = self._host.scan()
        self._host.discard([one for one in scan.messages if one.message.id in self._known])
        self._host.discard([one for one in scan.controls if one.id in self._known])

    def recorded(self, entries: Iterable[Entry]) -> None:
        """These entries are committed as they are: remove their files."""
        items = [(entry.item, entry.fact) for entry in entries if entry.item is not None]
        self._host.discard([item for item, _ in items if not isinstance(item, Claim)])
        self._host.settle([(item, _why_settled(fact)) for item, fact in items if isinstance(item, Claim)])

    def disown(self, entry: Entry, error: Exception) -> None:
        """Set aside what somebody handed in and what nobody can judge, so that no start meets it again: an error of
        ours, but it must not be that of every conductor to come."""
        reason = f"it cannot be judged: {error!r}"[:MAX_REASON]
        if isinstance(entry.item, Claim):
            self._host.settle([(entry.item, reason)])
        elif entry.item is not None:
            self._host.refuse(entry.item, reason)
        if entry.attempt is not None:
            self._host.disown(entry.attempt, reason)


def _fact_of(message: Message, task: TaskId) -> Fact | None:
    payload = message.payload
    match message.type:
        case "REPORT":
            return ReportReceived(task, message.attempt, payload)
        case "PROGRESS":
            return ProgressReceived(task, message.attempt, payload.get("pct"), payload.get("text") or "")
        case "USAGE":
            return UsageReported(task, message.attempt, payload)
        case _:
            return None


def _of_claim(claim: Claim) -> Entry:
    """A file in `events/` is an order of whoever made it."""
    fact = ControlReceived(_CLAIMED[claim.type], CLAIM, claim.task, claim.text)
    return entry_of(fact, source=f"operator:{CLAIM}", item=claim)


def _why_settled(fact: Fact | None) -> str:
    refused = fact.refused if isinstance(fact, ControlReceived) else None
    return f"a hand-made claim: {refused or 'it is recorded, and led to another event'}"


def _set_aside(found: Quarantined) -> Entry:
    type = "FOREIGN_WRITE" if found.foreign else "QUARANTINED"
    payload = {"name": found.name, "reason": found.reason}
    return Entry(type, payload, found.task, found.attempt, "conductor", None)
