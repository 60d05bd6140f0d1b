"""The one loop. It moves facts to the machine and instructions to the world, and decides nothing itself.

A pass: gather facts (launcher, inbox, control, timers, signals) → let the machine handle each → commit facts and
decisions with one write → project → remove what was read → carry out the instructions. Nothing visible outside happens
before its record is on disk. A pass that found work is followed by another before the loop sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol, assert_never

from bus.contract import Host
from bus.errors import BusError, JournalBlocked
from bus.wire import AttemptId, Record, TaskId
from conductor.core.codec import encode
from conductor.core.events import ControlReceived, Fact, PlanEdited, ResultReceived, TimerFired, WorkerGone
from conductor.core.instructions import (
    CancelTimer,
    CloseAttempt,
    DeliverText,
    Instruction,
    Journal,
    LaunchWorker,
    StartTimer,
    TerminateWorker,
)
from conductor.core.state import State
from conductor.core.task import Manual, Plan
from conductor.core.transitions import Phase
from conductor.core.wait_events import GrantGone
from conductor.runtime.attempts import Attempts
from conductor.runtime.clock import Clock
from conductor.runtime.controls import TAKEN, Controls, Reload
from conductor.runtime.hooks import Hooks
from conductor.runtime.inbound import Entry, Inbound, entry_of
from conductor.runtime.launch.base import Launcher
from conductor.runtime.launches import Launches, Order
from conductor.runtime.liveness import Liveness
from conductor.runtime.pause import JOURNAL, Pause
from conductor.runtime.replay import Replayed
from conductor.runtime.shortage import Shortage
from conductor.runtime.signals import Signals
from conductor.runtime.timers import Timers
from conductor.runtime.views import Views
from conductor.runtime.waiting import Waiting

POLL_WATCHED = 5.0
"""Seconds between scans while the watch works; it only saves latency."""

POLL_UNWATCHED = 0.25
"""Seconds between scans where there is no watch, and while the end of a suspect attempt cannot be told yet."""

POLL_WAITING = 1.0
"""Seconds between scans while somebody waits for something: a deadlock is to be named within two seconds also where a
hint was lost, and a waiter that is killed hands nothing in."""

BLOCKED_RETRY = 1.0
"""Seconds between tries to write a journal that could not be written."""

AFTER_PAUSE = 10.0
"""Seconds that workers are given to write what they could not write either, before any of them is ended from here."""

SNAPSHOT_AT_END = 1000
"""Records since the last snapshot from which the end of a round is worth another: looking is quick from then on."""


class Observer(Protocol):
    """Whoever shows the run: told after each commit and at each wakeup."""

    def recorded(self, records: list[Record]) -> None:
        """These records are on disk."""

    def tick(self) -> float | None:
        """Show what changed; return the seconds after which to be called again at the latest."""

    def trouble(self, text: str) -> None:
        """Say something that people should know and that is no record."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What the loop talks to."""

    host: Host
    launcher: Launcher
    clock: Clock
    signals: Signals
    observer: Observer
    order: Callable[[LaunchWorker], Order]
    watch_works: Callable[[], bool]
    """Whether a watch wakes the loop, so that scans may be rare."""
    stop_grace: float
    """Seconds after a stop began from which the loop ends the tree itself: the ladder's length and 5 s."""
    edits: Callable[[float, State], PlanEdited | None] = lambda now, state: None
    """What looks, at most so often as it finds right, whether the plan of a run was edited."""
    heartbeat: float = 30.0
    """Seconds between two beats of a worker, as workers are told."""
    reload: Reload = lambda state: "this run cannot read its plan again"
    """What reads the edited plan, for an operator who wants the round to go on with it."""
    to_stop: bool = False
    """Whether the run was taken over only to end it."""
    hooks: Hooks = field(default_factory=Hooks)
    """Commands of the user that are told of what was recorded."""


class Driver:
    """Runs one machine to the end of its round."""

    def __init__(self, replayed: Replayed, ports: Ports) -> None:
        self._replayed = replayed
        self._machine = replayed.machine
        self._ports = ports
        self._timers = Timers()
        self._attempts = Attempts(ports.host, ports.launcher, ports.observer.trouble)
        self._liveness = Liveness(ports.host, self._attempts, heartbeat=ports.heartbeat, stop_grace=ports.stop_grace)
        self._inbound = Inbound(ports.host, replayed.messages, ports.observer.trouble)
        self._pause = Pause(ports.observer.trouble, to_stop=ports.to_stop)
        self._waiting = Waiting(ports.host)
        self._shortage = Shortage(ports.observer.trouble)
        self._launches = Launches(ports.host, ports.launcher, self._attempts, ports.order, self._pause, self._shortage)
        self._views = Views(ports.host)
        self._controls = Controls(replayed.machine, ports.reload)
        self._for_people: tuple[Plan | None, list[TaskId]] = (None, [])
        """The tasks of a plan that are for a person."""
        self._consequences: list[Fact] = []
        """Facts that carrying out instructions brought about; handled in the next pass."""

    def run(self, first: Fact, *, then: Iterable[Fact] = ()) -> None:
        """Take in `first` (RunStarted or RunResumed) and `then` together, and work until the round has ended.

        With `then`, nothing is decided between the two: who takes a run over to stop it must not start anything.

        Raises LeaveAtOnce at the third interrupt, BusError where the bus was taken away.
        """
        self.begin(first, then)
        while not self.ended:
            self.turn()
        self.finish()

    @property
    def ended(self) -> bool:
        """Whether the round has ended."""
        return self._machine.ended

    def begin(self, first: Fact, then: Iterable[Fact] = ()) -> None:
        """Take in how the round begins, and look for the attempts of a conductor that died."""
        entries = [entry_of(first), *(entry_of(fact) for fact in then), *self._inbound.orders()]
        self._pass(_undivided(entries))
        self._consequences += self._attempts.reconcile(self._machine.state.reconciling_attempts())

    def turn(self) -> None:
        """Show and keep what the last pass came to. Then take in what is new; where nothing is, wait for it."""
        look_again = self._show()
        self._ports.hooks.tend()
        self._checkpoint()
        if entries := self._gather():
            self._pass(entries)
        else:
            self._sleep(look_again)

    def finish(self) -> None:
        """Show and keep how the round ended, and let the commands hear of it."""
        if gone := self._waiting.look(self._machine.state, {}).gone:  # the last attempts held something to their end
            self._pass([entry_of(fact) for fact in gone])
        self._pause.end()
        self._show(at_once=True)
        self._checkpoint()
        signals = self._ports.signals
        self._ports.hooks.finish(lambda seconds, fds: self._wait(seconds, *fds), lambda: signals.pending)

    def _checkpoint(self) -> None:
        """Keep a snapshot where one is due, and at the end of a round."""
        replayed, host = self._replayed, self._ports.host
        ended = self._machine.ended and replayed.last_seq - replayed.snapshot_seq >= SNAPSHOT_AT_END
        if ended or host.checkpoint_due():
            replayed.keep(host)

    def _show(self, *, at_once: bool = False) -> float | None:
        """Let the views and the observer follow; return the seconds after which they want to be called again."""
        again = self._views.write(self._machine.state, self._ports.clock.stamp(), at_once=at_once)
        return min((one for one in (again, self._ports.observer.tick()) if one is not None), default=None)

    def _gather(self) -> list[Entry]:
        """Find every fact that is there now. The launcher is asked before the inbox is read: a worker publishes its
        result before it ends, so a worker seen ended has its result in this very scan, or none."""
        ports, now = self._ports, self._ports.clock.monotonic()
        state = self._machine.state
        held = self._waiting.look(state, self._attempts.by_task())
        entries = [entry_of(fact) for fact in held.gone]
        draining = state.phase is Phase.DRAINING
        entries += [entry_of(fact, source=fact.who) for fact in ports.signals.take(draining=draining)]
        entries += [entry_of(fact) for fact in self._consequences]
        self._consequences = []
        entries += self._news(now)
        self._heed_shortage(entries, now)
        entries += [entry_of(fact) for fact in self._launches.go_on(now)]
        entries += [entry_of(TimerFired(key)) for key in self._timers.pop_due(now)]
        if edit := ports.edits(now, state):
            entries.append(entry_of(edit))
        if self._inbound.unreadable and not entries:  # a stop is recorded by now, and its end may never be seen
            ports.signals.check_leave()
        return entries + _undivided([entry_of(fact) for fact in held.come])

    def _news(self, now: float) -> list[Entry]:
        """Find what was handed in, and what became of attempts that ended without a word."""
        suspects = self._attempts.suspects(now)
        told: set[AttemptId | None] = {*self._launches.take_back(now)}
        entries = self._inbound.read(self._attempts, self._open_to_people())
        self._liveness.heard(entry.attempt for entry in entries)
        self._heed_disk(now)
        told |= {entry.attempt for entry in entries if isinstance(entry.fact, ResultReceived)}
        # What a result is missing from must have been read whole.
        suspects = [] if self._inbound.more else [suspect for suspect in suspects if suspect not in told]
        settled = [self._attempts.settle(suspect) for suspect in suspects]
        entries += [entry_of(fact) for fact in settled if fact is not None]
        over = {entry.attempt for entry in entries if isinstance(entry.fact, (ResultReceived, WorkerGone))}
        return entries + [entry_of(fact) for fact in self._liveness.look(self._machine.state, over)]

    def _open_to_people(self) -> list[TaskId]:
        """Return the manual tasks that wait for a person."""
        state = self._machine.state
        if not state.tally[Manual]:
            return []
        if self._for_people[0] is not state.plan:  # not at each pass: a plan may have very many tasks
            self._for_people = (state.plan, [task.id for task in state.plan.tasks if task.manual])
        return [id for id in self._for_people[1] if isinstance(state.tasks[id].status, Manual)]

    def _heed_disk(self, now: float) -> None:
        """Start nothing while the bus cannot be written, and give workers time once it can be."""
        if self._inbound.blocked is not None:
            self._launches.hold(now)
        if self._pause.met("disk", self._inbound.blocked):
            self._attempts.postpone(AFTER_PAUSE)

    def _heed_shortage(self, entries: list[Entry], now: float) -> None:
        """Start less while workers find no room for their commands."""
        for entry in entries:
            if isinstance(entry.fact, ResultReceived):
                self._launches.heard(entry.fact.attempt, entry.fact.exit, now)

    def _pass(self, entries: list[Entry]) -> None:
        ports = self._ports
        records: list[Record] = []
        effects: list[Instruction] = []
        taken: list[GrantGone] = []
        done: list[Entry] = []
        for entry in chain.from_iterable(map(self._completed, entries)):
            done.append(entry)
            stamp = ports.clock.stamp()
            record = ports.host.stage(
                entry.type,
                entry.payload,
                stamp,
                source=entry.source,
                task=entry.task,
                attempt=entry.attempt,
                id=entry.id,
            )
            records.append(record)
            now = self._replayed.committed(record)
            if entry.fact is None:
                continue
            if isinstance(entry.fact, GrantGone) and entry.fact.how == TAKEN:
                taken.append(entry.fact)
            for instruction in self._judged(entry, now, stamp.wall):
                if isinstance(instruction, Journal):
                    type, task, attempt, payload = encode(instruction.decision)
                    record = ports.host.stage(type, payload, stamp, task=task, attempt=attempt)
                    self._replayed.committed(record)
                    records.append(record)
                else:
                    effects.append(instruction)
        self._commit()
        ports.host.project(records)
        self._inbound.recorded(done)
        self._waiting.take(taken)
        for instruction in effects:
            self._carry_out(instruction)
        self._views.recorded(records)
        ports.observer.recorded(records)
        ports.hooks.recorded(records)

    def _judged(self, entry: Entry, now: float, wall: float) -> list[Instruction]:
        """Let the machine handle a fact. One that breaks it is not recorded, and not met again by the next start."""
        assert entry.fact is not None
        try:
            return self._machine.handle(entry.fact, now, wall=wall, decides=entry.decides)
        except Exception as error:
            with suppress(OSError, BusError):
                self._inbound.disown(entry, error)
            raise

    def _completed(self, entry: Entry) -> Iterator[Entry]:
        """Yield an entry as it is to be recorded, and what follows from it: orders bring more than they say.

        To be called when all that stands before it is applied: what an order means depends on that.
        """
        if not isinstance(entry.fact, ControlReceived):
            yield entry
            return
        completed = self._controls.complete(entry.fact)
        order = entry_of(completed.order, source=entry.source, id=entry.id, item=entry.item)
        facts = [entry_of(fact) for fact in completed.facts]
        yield replace(order, decides=entry.decides and not facts)
        for fact in facts:
            yield replace(fact, decides=entry.decides and fact is facts[-1])

    def _commit(self) -> None:
        """Write the batch; while the disk refuses it, say so, do nothing else, and try again."""
        host, blocked = self._ports.host, False
        while True:
            try:
                host.commit()
            except JournalBlocked as error:
                blocked = True
                host.tell_pause(error.message)
                self._pause.met(JOURNAL, error.message)
                self._ports.signals.check_leave()
                self._wait(BLOCKED_RETRY)
            else:
                if blocked:
                    host.tell_pause(None)
                if self._pause.met(JOURNAL, None):
                    self._attempts.postpone(AFTER_PAUSE)
                return

    def _carry_out(self, instruction: Instruction) -> None:
        ports, now = self._ports, self._ports.clock.monotonic()
        match instruction:
            case LaunchWorker():
                self._consequences += self._launches.start(instruction, now)
            case TerminateWorker(_, attempt, reason):
                self._consequences += self._launches.forget(attempt)
                ports.host.revoke(attempt, reason)
                ports.launcher.terminate(attempt)
                self._attempts.stopping(attempt, reason, ports.stop_grace)
            case CloseAttempt(_, attempt):
                self._attempts.closed(attempt)
                self._launches.closed(attempt, now)
                ports.host.close_attempt(attempt)
            case StartTimer(key, seconds):
                self._timers.start(key, now + seconds)
            case CancelTimer(key):
                self._timers.cancel(key)
            case DeliverText(attempt, name, text):
                ports.host.deliver(attempt, name, text.encode())
            case Journal():
                raise AssertionError("decisions are journaled before anything is carried out")
            case _:
                assert_never(instruction)

    def _sleep(self, look_again: float | None) -> None:
        """Wait for a wake (signal, watch, launcher), a deadline, the next scan, or `look_again` seconds."""
        ports, now = self._ports, self._ports.clock.monotonic()
        unread = self._inbound.more or self._waiting.unreadable
        anxious = self._attempts.unsettled or unread or self._pause.lasts or self._shortage.lasts
        relaxed = ports.watch_works() and not anxious
        state = self._machine.state
        attentive = bool(state.waits) or state.tally[Manual] > 0
        waits = [POLL_UNWATCHED if not relaxed else POLL_WAITING if attentive else POLL_WATCHED]
        waits += [seconds for seconds in (look_again, ports.hooks.next_look()) if seconds is not None]
        deadlines = [self._timers.next_deadline(), self._attempts.next_deadline(now), self._launches.next_try()]
        deadlines.append(self._liveness.next_look(now))
        waits += [deadline - now for deadline in deadlines if deadline is not None]
        self._wait(max(0.0, min(waits)), *ports.launcher.wake_fds(), *ports.hooks.wake_fds())

    def _wait(self, seconds: float, *fds: int) -> None:
        """Wait until a signal or a watch wakes us, one of `fds` is readable, or time is up."""
        self._ports.signals.wait(seconds, *fds)


def _undivided(entries: list[Entry]) -> list[Entry]:
    """Let nothing be decided before the last of them.

    Half of what attempts hold and wait for may look like a deadlock that never was, and a run that is to be paused or
    stopped must not begin with a launch.
    """
    last = next((entry for entry in reversed(entries) if entry.fact is not None), None)
    return [replace(entry, decides=entry is last) for entry in entries]
