"""One `run` from its checks to its end: puts host, launcher, watch, machine and driver together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing

from bus import layout
from bus.host import FileHost, open_host
from bus.watch import Watch
from conductor.core.events import Fact
from conductor.core.instructions import LaunchWorker
from conductor.core.machine import Machine
from conductor.core.state import State
from conductor.plan import frozen
from conductor.plan.collector import without_collector
from conductor.plan.warnings import brief
from conductor.runtime.clock import Clock, SystemClock
from conductor.runtime.command import order, prompt_text, task_json
from conductor.runtime.descriptors import check, raise_limit
from conductor.runtime.driver import Driver, Observer, Ports
from conductor.runtime.edits import PlanEdits
from conductor.runtime.hooks import HookPlaces, Hooks
from conductor.runtime.inbound import Inbound
from conductor.runtime.launch.local import LocalLauncher
from conductor.runtime.launches import Order
from conductor.runtime.left_behind import refuse_left_behind
from conductor.runtime.reloading import Reloading
from conductor.runtime.replay import Replayed
from conductor.runtime.retries import before
from conductor.runtime.signals import Signals
from conductor.runtime.start import Request, Start, begin
from conductor.runtime.strangers import above_taken, refuse_strangers
from conductor.runtime.track_lock import TrackLock

STOP_MARGIN = 5.0
"""Seconds beyond the ladder's full length after which the conductor ends a tree itself."""


class Session:
    """A track that is held, with a run that may begin. A context manager: leaving it gives the track up."""

    def __init__(self, request: Request) -> None:
        """Check everything, take the track, replay its journal. Raises ConductorError and BusError."""
        self._request = request
        open_files = raise_limit()
        if not request.to_stop:
            check(1)
        # A track that never ran is checked before a bus is made: what is refused leaves nothing behind.
        first = None if (request.bus / "queue.jsonl").exists() else begin(request, Replayed())
        with ExitStack() as stack:
            track = stack.enter_context(closing(TrackLock(request.track, request.bus)))
            if first is not None:
                track.check()
            # The warm process comes before all: nothing that the conductor opens later is inherited by a worker.
            self._launcher = stack.enter_context(closing(LocalLauncher(str(request.bus), open_files)))
            self._replayed = Replayed()
            with without_collector(lasting=True):
                host = open_host(
                    request.bus, unsafe_fs=request.unsafe_fs, follower=self._replayed, manual=self._replayed.manual
                )
            self.host: FileHost = stack.enter_context(closing(host))
            track.take()
            if first is None or self._replayed.run is not None:
                first = begin(request, self._replayed)
            self.start: Start = above_taken(first, self.host, self._replayed.machine.state)
            if first.first is not None:
                refuse_strangers(self.host, self._replayed, to_stop=request.to_stop)
                if not request.to_stop:
                    refuse_left_behind(self.host, self._launcher, self._replayed.machine.state)
            else:  # no loop will run, which would do this
                Inbound(self.host, self._replayed.messages, self.host.notes.append).forget_recorded()
                if self.host.checkpoint_due():
                    self._replayed.keep(self.host)
            self.clock: Clock = SystemClock()
            self.terminated = False
            """Whether TERM ended the run."""
            self._stack = stack.pop_all()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def machine(self) -> Machine:
        """The machine, brought to the end of the journal."""
        return self._replayed.machine

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know before the run begins; where nothing is run, the plan's warnings help nobody."""
        warnings = _warnings(self.start) if self.start.first else ()
        return (*self.host.notes, *self.start.notes, *warnings)

    def run(self, observer: Observer, *, watch: bool = True, then: Iterable[Fact] = ()) -> None:
        """Carry the round out, with the facts `then` right behind its first. Raises LeaveAtOnce."""
        first = self.start.first
        assert first is not None, "there is nothing to do"
        self.host.set_durability(self.start.options.durability)
        if not self.start.goes_on:  # that of a run that goes on was frozen before its first record
            self.host.freeze_plan(frozen.dump(self.start.plan))
        with ExitStack() as stack:
            signals = stack.enter_context(Signals())
            working = self._watch(stack, signals, observer) if watch else lambda: False
            hooks = stack.enter_context(closing(self._hooks(observer)))
            ports = Ports(
                host=self.host,
                launcher=self._launcher,
                clock=self.clock,
                signals=signals,
                observer=observer,
                order=_orders(self.start, self.host, self.machine.state),
                watch_works=working,
                heartbeat=self.start.settings.heartbeat,
                to_stop=self._request.to_stop,
                stop_grace=self.start.settings.ladder.length + STOP_MARGIN,
                edits=PlanEdits(self._request.track).look,
                reload=Reloading(self.host, self._request.track, self.start.places, self._request.environ).read,
                hooks=hooks,
            )
            edit = [self.start.edit] if self.start.edit else []
            Driver(self._replayed, ports).run(first, then=[*edit, *then])
            self.terminated = signals.terminated

    def _hooks(self, observer: Observer) -> Hooks:
        settings, places = self.start.settings, self.start.places
        where = HookPlaces(places.track, places.project, places.bus)
        return Hooks(
            settings.hooks, limit=settings.hook_timeout, places=where, say=observer.trouble, now=self.clock.monotonic
        )

    def _watch(self, stack: ExitStack, signals: Signals, observer: Observer) -> Callable[[], bool]:
        watch = Watch(self._request.bus, signals.wake, observer.trouble)
        watch.start()
        stack.callback(watch.stop)
        return watch.tend


def _orders(start: Start, host: FileHost, state: State) -> Callable[[LaunchWorker], Order]:
    """Return what makes the order for an attempt; tasks are looked up when they are launched, as a plan may be
    reloaded while the run lasts."""

    def make(wanted: LaunchWorker) -> Order:
        found = state.tasks[wanted.task]
        task, attempt, number = found.spec, wanted.attempt, wanted.number
        assert state.run is not None
        options = state.run.options
        spec = order(task, attempt, number, wanted.nonce, host.epoch, options, start.settings, start.places)
        files = {}
        if "CONDUCTOR_PROMPT_FILE" in spec.env:
            files[layout.PROMPT] = prompt_text(task, before(found, host)).encode()
        if "CONDUCTOR_TASK_FILE" in spec.env:
            files[layout.TASK] = task_json(task, attempt, number, before(found, host))
        return Order(spec, files)

    return make


def _warnings(start: Start) -> list[str]:
    """The plan's warnings, a line for each kind; `conductor plan` says more."""
    source = start.plan.source
    return [
        f"{source}{f':{one.line}' if one.line else ''}: {one.message} ({one.code})"
        for one in brief(start.plan.warnings)
    ]
