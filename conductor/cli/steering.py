"""What the verbs of an operator share: check an order, have it recorded, say what comes of it.

A conductor that lives takes an order from `control/`; where none does, it is recorded in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bus.errors import HeldByOther
from bus.wire import TaskId
from conductor.cli.escape import short_lines
from conductor.cli.guard import refuse_from_worker
from conductor.cli.load import open_track
from conductor.cli.operator import operator
from conductor.cli.ordering import BOUND, Handing, Order, Wait, holder_of
from conductor.cli.output import out, print_json
from conductor.cli.polling import pause
from conductor.cli.track import Track, resolve, unknown_task
from conductor.core.events import ControlReceived
from conductor.core.machine import Machine
from conductor.core.view import RunView, TaskView, run_view
from conductor.core.wording import sentence
from conductor.errors import ConductorError
from conductor.runtime.replay import replay

if TYPE_CHECKING:
    from bus.reader import FileReader

TRIES = 20
"""How often we try to hold a track of which somebody who takes no orders has the lock."""

AT_ONCE = frozenset({"steer", "answer"})
"""Verbs that are carried out with their record, also where no conductor lives."""

ALREADY = "already"
"""With this word begins a refusal of what is so already: nothing is wrong then."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one order."""

    order: Order
    tasks: tuple[TaskId, ...]
    """The tasks that it moves, as they were recorded."""
    refused: str | None
    """Why it means nothing."""
    live: bool
    """Whether a conductor carries it out; otherwise the next run does."""
    seq: int = 0
    """Number of its record, where a conductor made it."""


@dataclass(frozen=True, slots=True)
class Steered:
    """A track, and how it stood before the order."""

    track: Track
    reader: FileReader
    machine: Machine
    view: RunView

    def task(self, id: str | None) -> TaskView:
        """Return how a task stood. Raises `unknown_task`."""
        for task in self.view.tasks:
            if task.id == id:
                return task
        raise unknown_task(self.track, str(id), [task.id for task in self.view.tasks])

    def orders(self, verb: str, tasks: Sequence[str], text: str | None) -> list[Order]:
        """Return an order for each task, of each once. Raises `unknown_task`."""
        return [Order(verb, self.task(id).id, text) for id in dict.fromkeys(tasks)]


Say = Callable[[Steered, Result], str]
"""Says what comes of an order."""


def begin(label: str, bus_dir: str | None) -> Steered:
    """Find a track to be steered. Raises `from_worker`, `refused` where it never ran, BusError."""
    track = resolve(label, bus_dir)
    refuse_from_worker(track)
    reader = open_track(track)
    if reader is None:
        raise _nothing(track, track.no_bus())
    machine = replay(reader).machine
    view = run_view(machine.state)
    if view.id is None:
        raise _nothing(track, "no run has begun")
    return Steered(track, reader, machine, view)


def _nothing(track: Track, why: str) -> ConductorError:
    hint = f"start it: `{track.command('run')}`"
    return ConductorError("refused", f"there is nothing to steer: {why}", path=track.label, hint=hint)


def steer(steered: Steered, orders: Sequence[Order], say: Say, *, as_json: bool) -> int:
    """Give orders and say what comes of them.

    Raises `refused` for one that means nothing; where that can be told before, none of them is given.
    """
    fresh = [order for order in orders if not _refusal(steered, order)]
    given = {order: hand_over(steered.track, steered.reader, order) for order in fresh}
    results = [given.get(order) or Result(order, (), _refusal(steered, order), live=False) for order in orders]
    for result in results:
        _raise(steered.track, result.refused)
    _show(steered, results, say, as_json=as_json)
    return 0


def _refusal(steered: Steered, order: Order) -> str | None:
    """Return why an order is not given, as that is so already. Raises `refused` where it means nothing."""
    ahead = steered.reader.holder() is None
    fact = ControlReceived(order.verb, f"operator:{operator()}", order.target, order.text, ahead=ahead)
    refused = steered.machine.refusal(fact)
    _raise(steered.track, refused)
    return refused


def _raise(track: Track, refused: str | None) -> None:
    if refused and not refused.startswith(ALREADY):
        hint = f"`{track.command('status')}` shows how it stands"
        raise ConductorError("refused", refused, path=track.label, hint=hint)


def hand_over(track: Track, reader: FileReader, order: Order) -> Result:
    """Have an order recorded, by the conductor that lives or in its place."""
    wait = Wait()
    tries = 0
    while True:
        holder = holder_of(reader, wait)
        if holder is not None:
            handing = Handing(track, reader, holder, order, wait)
            given = handing.look_on() if order.verb in BOUND else handing.await_end()
            if given.record is None and not handing.take_back():
                given = handing.look_on()  # it was taken at the last moment
            if given.record is not None:
                payload = given.record.payload
                return Result(order, tuple(payload.get("tasks") or ()), payload.get("refused"), True, given.record.seq)
            continue
        try:
            return _record(track, order)
        except HeldByOther:  # a conductor began meanwhile; or one with another bus has the track
            tries += 1
            if tries == TRIES:
                raise
            pause(0.1)


def _record(track: Track, order: Order) -> Result:
    from conductor.config import Flags
    from conductor.runtime.orders import record
    from conductor.runtime.start import Request

    request = Request(track.dir, track.bus, Flags(), to_stop=True)
    fact = record(request, order.verb, f"operator:{operator()}", order.target, order.text)
    return Result(order, fact.tasks, fact.refused, live=False)


def _show(steered: Steered, results: Sequence[Result], say: Say, *, as_json: bool) -> None:
    texts = [f"{sentence(result.refused)}." if result.refused else say(steered, result) for result in results]
    live = any(result.live for result in results)
    if as_json:
        data = {
            "state": "unchanged" if all(result.refused for result in results) else "recorded",
            "conductor": live,
            "tasks": list(dict.fromkeys(id for result in results for id in result.tasks)),
            "message": "\n".join(texts),
        }
        print_json(data, pretty=False)
        return
    for text in texts:
        out(short_lines(text))
    if not live and any(result.order.verb not in AT_ONCE for result in results if not result.refused):
        out("No conductor lives now; the next run acts on it.")
        out(f"Run:      {steered.track.command('run')}")
    elif live or all(result.refused for result in results):
        out(f"Look on:  {steered.track.command('status')}")
