"""A loop with a bus in memory, a clock that stands still, and workers that do what the test says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bus.memory import MemoryBus
from bus.wire import AttemptId, ExitRecord, Record, TaskId, WorkerSpec
from conductor.config import Settings
from conductor.core import invariants
from conductor.core.events import Fact, PlanEdited, RunResumed, RunStarted
from conductor.core.instructions import LaunchWorker
from conductor.core.task import Plan, RunOptions
from conductor.plan import frozen
from conductor.runtime.command import Places, order
from conductor.runtime.controls import Reload
from conductor.runtime.driver import Driver, Ports
from conductor.runtime.hooks import Hooks
from conductor.runtime.launches import Order
from conductor.runtime.replay import Replayed, replay
from conductor.runtime.signals import Signals
from conductor.testing import FakeClock, FakeLauncher, ending

PLACES = Places("/track", "/project", "/track/.message-bus", "/bin")
GRACE = 15.0


class Workers(FakeLauncher):
    """A launcher whose workers behave at once as the test says, by task; success where it says nothing."""

    def __init__(self, bus: MemoryBus) -> None:
        super().__init__()
        self.bus = bus
        self.behaviour: dict[str, Callable[[WorkerSpec, Workers], None]] = {}
        self.held: dict[AttemptId, int] = {}
        """Locks of workers that live on, by attempt: a worker holds its lock until `kill_tree` or its end."""
        self.holds: set[str] = set()
        """Tasks whose workers hold it, whatever they do."""

    def kill_tree(self, attempt: AttemptId, command: Mapping[str, object] | None) -> bool:
        self.release(attempt)
        return super().kill_tree(attempt, command)

    def release(self, attempt: AttemptId) -> None:
        """Let the worker's lock be free."""
        if attempt in self.held:
            os.close(self.held.pop(attempt))

    def launch(self, spec: WorkerSpec, live: int) -> None:
        intents = [record for record in self.bus.reader().records() if record.attempt == spec.attempt]
        assert [record.type for record in intents] == ["WORKER_DISPATCHED"], "the intent is on disk before the launch"
        lives_on = self.behaviour.get(spec.task) in (write_and_linger, go_on) or spec.task in self.holds
        held = lives_on and self.short is None
        if held:
            self.held[spec.attempt] = os.dup(live)
        super().launch(spec, live)
        self.behaviour.get(spec.task, succeed)(spec, self)

    def end(self, attempt: AttemptId, exit: ExitRecord) -> None:
        """Write the result and let the worker end."""
        self.bus.hand(attempt).finish(exit)
        self.lives[attempt] = "ended"
        self.release(attempt)


def succeed(spec: WorkerSpec, workers: Workers) -> None:
    workers.end(spec.attempt, ending("ok"))


def fail(spec: WorkerSpec, workers: Workers) -> None:
    workers.end(spec.attempt, ending("fails"))


def vanish(spec: WorkerSpec, workers: Workers) -> None:
    workers.lives[spec.attempt] = "ended"


def write_and_linger(spec: WorkerSpec, workers: Workers) -> None:
    """Write the result and live on, holding the lock."""
    workers.bus.hand(spec.attempt).finish(ending("ok"))


def go_on(spec: WorkerSpec, workers: Workers) -> None:
    """Neither end nor speak."""


@dataclass
class Watcher:
    """The observer: lets time pass whenever the loop comes round, and acts as the test says."""

    clock: FakeClock
    records: list[Record] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    asleep: list[Callable[[], None]] = field(default_factory=list)
    """What to do at each round of the loop, in turn."""
    sleeps: int = 0

    def recorded(self, records: list[Record]) -> None:
        self.records += records

    def tick(self) -> float | None:
        self.sleeps += 1
        assert self.sleeps < 500, "the loop sleeps for ever"
        self.clock.advance(1.0)
        if self.asleep:
            self.asleep.pop(0)()
        return 0.0

    def trouble(self, text: str) -> None:
        self.troubles.append(text)


class Stage:
    """Everything that a loop needs, and what came of it."""

    def __init__(self, plan: Plan, options: RunOptions) -> None:
        self.plan, self.options = plan, options
        self.bus = MemoryBus()
        self.clock = FakeClock()
        self.workers = Workers(self.bus)
        self.watcher = Watcher(self.clock)
        self.signals = Signals()
        self.replayed: Replayed | None = None
        self.hooks = Hooks()
        self.reload: Reload = lambda state: "there is nothing to read"
        self.edits: list[PlanEdited] = []
        """What each look at the plan finds, in turn."""

    def run(self, *then: Fact) -> None:
        """Start, or go on after `bus.crash()`, with `then` behind the first fact."""
        host = self.bus.host()
        sha = host.freeze_plan(frozen.dump(self.plan))
        self.replayed = replayed = replay(host)
        unfinished = replayed.unfinished
        first = (
            RunStarted("r" * 16, sha, "/project", self.options, self.plan)
            if unfinished is None
            else RunResumed(unfinished.id, self.options, replayed.last_seq)
        )
        state = replayed.machine.state

        def make(wanted: LaunchWorker) -> Order:
            task = state.tasks[wanted.task].spec
            number, nonce = wanted.number, wanted.nonce
            return Order(order(task, wanted.attempt, number, nonce, host.epoch, self.options, Settings(), PLACES), {})

        edits = iter(self.edits)
        ports = Ports(
            host,
            self.workers,
            self.clock,
            self.signals,
            self.watcher,
            make,
            lambda: True,
            GRACE,
            lambda now, state: next(edits, None),
            reload=self.reload,
            hooks=self.hooks,
        )
        Driver(replayed, ports).run(first, then=then)
        host.close()
        self.check()

    def check(self) -> None:
        """The live state equals a replay, and nothing lies about."""
        assert self.replayed is not None
        invariants.check(self.replayed.machine.state)
        for whole in (True, False):
            assert replay(self.bus.reader(), whole=whole).digest() == self.replayed.digest()
        assert not self.bus.inbox
        assert not self.bus.orders

    def status(self, task: str) -> object:
        assert self.replayed is not None
        return self.replayed.machine.state.tasks[TaskId(task)].status

    def types(self, task: str | None = None) -> list[str]:
        return [r.type for r in self.bus.reader().records() if task is None or r.task == task]

    def press(self, number: signal.Signals) -> Callable[[], None]:
        """Return an action that sends a signal to this process."""
        return lambda: os.kill(os.getpid(), number)
