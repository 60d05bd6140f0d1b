"""Handing an operator's order to the conductor of a track, and looking on until it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bus.contract import Holder, Reader, Snapshot
from bus.wire import Record
from conductor.cli.holder import how_to_wake, is_suspended
from conductor.cli.operator import operator
from conductor.cli.output import err
from conductor.cli.polling import pause
from conductor.cli.track import Track

if TYPE_CHECKING:
    from bus.reader import FileReader

SAY_AFTER = 5.0
"""Seconds of waiting after which we say what for."""

LOOK_EVERY = 0.1

BOUND = frozenset({"stop", "drain", "pause"})
"""Verbs that are meant for the conductor that lives now, and for no later one."""

LoadPlan = Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class Order:
    """What an operator wants."""

    verb: str
    target: str | None = None
    text: str | None = None

    def is_in(self, record: Record) -> bool:
        """Tell whether a record is this order, given by this user."""
        payload = record.payload
        said = (payload.get("verb"), payload.get("target"), payload.get("text"))
        return (
            record.type == "CONTROL"
            and said == (self.verb, self.target, self.text)
            and operator() in str(payload.get("who"))
        )


@dataclass(frozen=True, slots=True)
class Given:
    """What became of an order."""

    record: Record | None
    """The order as it was recorded; None while it is not."""
    ended: str | None
    """How the run ended since, if it did."""
    holder: Holder | None
    """Who held the track before the journal was looked at; nobody takes the order where there is none."""


class Wait:
    """Waits for a conductor and says so once: at the first look where it is suspended, else after a while."""

    def __init__(self) -> None:
        self._waited = 0.0
        self._said: set[str] = set()

    def pause(self, holder: Holder) -> None:
        """Let some time pass."""
        who = f"the conductor (pid {holder.pid} on {holder.host})"
        if is_suspended(holder):
            self._say("suspended", f"{who} is suspended and takes no orders; {how_to_wake(holder)}. Waiting for that …")
        elif self._waited >= SAY_AFTER:
            self._say("slow", f"waiting for {who} to take the order …")
        pause(LOOK_EVERY)
        self._waited += LOOK_EVERY

    def _say(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            err(text)


def holder_of(reader: FileReader, wait: Wait) -> Holder | None:
    """Return who takes orders. Of a conductor that recovers its end is waited for: orders are bound to an epoch, and
    it has none yet."""
    holder = reader.holder()
    while holder is not None and holder.epoch == 0:
        wait.pause(holder)
        holder = reader.holder()
    return holder


class Handing:
    """An order that lies in `control/`."""

    def __init__(self, track: Track, reader: FileReader, holder: Holder, order: Order, wait: Wait) -> None:
        """Hand it in. Raises BusError where that cannot be done."""
        from bus.control import drop

        self._bus, self._reader, self._order, self._wait = track.bus, reader, order, wait
        self._seq = last_seq(reader)
        self._ended: str | None = None
        self.epoch = holder.epoch
        epoch = holder.epoch if order.verb in BOUND else None
        self._name = drop(track.bus, order.verb, target=order.target, text=order.text, who=operator(), epoch=epoch)

    def look_on(self) -> Given:
        """Wait until it is recorded, the run has ended, or the conductor is gone or another. Ctrl-C takes it back."""
        try:
            while True:
                given = self._look()
                if given.record or given.ended or given.holder is None or given.holder.epoch != self.epoch:
                    return given
                self._wait.pause(given.holder)
        except KeyboardInterrupt:
            if self.take_back():
                err("the order is taken back; nothing comes of it")
            raise

    def await_end(self) -> Given:
        """Wait until it is recorded, or nobody is there to do it."""
        while True:
            given = self.look_on()
            if given.record or given.holder is None:
                return given
            self.epoch = given.holder.epoch
            self._wait.pause(given.holder)

    def take_back(self) -> bool:
        """Remove the order; False where a conductor took it, or set it aside, before."""
        from bus.control import withdraw

        return withdraw(self._bus, self._name)

    def _look(self) -> Given:
        # Asked first: what a conductor recorded before it went is then found.
        holder = self._reader.holder()
        fresh = list(self._reader.records(self._seq))
        self._seq = fresh[-1].seq if fresh else self._seq
        ends = (str(record.payload.get("state")) for record in fresh if record.type == "RUN_ENDED")
        self._ended = next(ends, self._ended)
        return Given(next(filter(self._order.is_in, fresh), None), self._ended, holder)


class _End:
    """Follows the journal only to know where it ends: from the newest snapshot, whatever that holds."""

    seq = 0

    def restore(self, snapshot: Snapshot, load_plan: LoadPlan) -> bool:
        """Begin behind it."""
        self.seq = snapshot.seq
        return True

    def take(self, record: Record, load_plan: LoadPlan) -> None:
        """Pass it over."""
        self.seq = record.seq

    def dump(self) -> None:
        """There is nothing to keep."""


def last_seq(reader: Reader) -> int:
    """Return the number of the journal's last record."""
    end = _End()
    reader.follow(end)
    return end.seq
