"""One `run` from its checks to its end: puts host, launcher, watch, machine and driver together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass

from bus.contract import Host
from bus.host import open_host
from bus.watch import Watch
from conductor.core.instructions import LaunchWorker
from conductor.core.machine import Machine
from conductor.core.task import TaskSpec
from conductor.plan import frozen
from conductor.runtime.clock import SystemClock
from conductor.runtime.command import order, prompt_text, task_json
from conductor.runtime.driver import Driver, Observer, Order, Ports
from conductor.runtime.launch.local import LocalLauncher
from conductor.runtime.replay import Replayed, replay
from conductor.runtime.signals import Signals
from conductor.runtime.start import Request, Start, begin

STOP_MARGIN = 5.0
"""Seconds beyond the ladder's full length after which the conductor ends a tree itself."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run about to begin, for whoever shows it."""

    machine: Machine
    start: Start
    host: Host
    notes: tuple[str, ...]
    """What people should know before it begins."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended."""

    machine: Machine
    begun: bool
    """False where there was nothing to do."""
    terminated: bool
    """Whether TERM ended it."""


def run_track(request: Request, show: Callable[[Run], Observer], *, watch: bool = True) -> Outcome:
    """Carry out one round of a track.

    `show` is called once, after all checks and before any work. Raises ConductorError or BusError where the run cannot
    begin, LeaveAtOnce at the third interrupt.
    """
    start = begin(request, Replayed(Machine())) if not (request.bus / "queue.jsonl").exists() else None
    with ExitStack() as stack:
        # The warm process comes first: nothing that the conductor opens later can be inherited by a worker.
        launcher = stack.enter_context(closing(LocalLauncher()))
        host = stack.enter_context(closing(open_host(request.bus)))
        replayed = replay(host)
        if start is None or replayed.started is not None:
            start = begin(request, replayed)
        run = Run(replayed.machine, start, host, (*host.notes, *start.notes))
        observer = show(run)
        if start.first is None:
            return Outcome(replayed.machine, begun=False, terminated=False)
        host.set_durability(start.options.durability)
        host.freeze_plan(frozen.dump(start.plan))
        signals = stack.enter_context(Signals())
        working = _watch(stack, request, signals, observer) if watch else lambda: False
        ports = Ports(
            host=host,
            launcher=launcher,
            clock=SystemClock(),
            signals=signals,
            observer=observer,
            order=_orders(start, host.epoch),
            watch_works=working,
            stop_grace=start.settings.ladder.length + STOP_MARGIN,
        )
        Driver(replayed.machine, ports, replayed.message_ids).run(start.first)
        return Outcome(replayed.machine, begun=True, terminated=signals.terminated)


def _watch(stack: ExitStack, request: Request, signals: Signals, observer: Observer) -> Callable[[], bool]:
    watch = Watch(request.bus, signals.wake)
    watch.start()
    stack.callback(watch.stop)
    if not watch.working:
        observer.trouble(f"no file watch ({watch.why}); looking four times a second instead")
    return lambda: watch.working


def _orders(start: Start, epoch: int) -> Callable[[LaunchWorker], Order]:
    tasks: dict[str, TaskSpec] = {task.id: task for task in start.plan.tasks}

    def make(wanted: LaunchWorker) -> Order:
        task = tasks[wanted.task]
        spec = order(
            task,
            wanted.attempt,
            wanted.number,
            wanted.nonce,
            epoch,
            start.options,
            start.settings,
            start.places,
        )
        files = {}
        if "CONDUCTOR_PROMPT_FILE" in spec.env:
            files["prompt.md"] = prompt_text(task).encode()
        if "CONDUCTOR_TASK_FILE" in spec.env:
            files["task.json"] = task_json(task, wanted.attempt, wanted.number)
        return Order(spec, files)

    return make
