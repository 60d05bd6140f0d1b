"""A conductor of the simulation: the real host, replay and driver on the model disk, one turn at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus import layout
from bus.errors import BusError, HeldByOther
from bus.host import FileHost, open_host
from bus.wire import Ladder, Record, WorkerSpec
from conductor.core.events import ControlReceived, Fact, RunResumed, RunStarted
from conductor.core.instructions import LaunchWorker
from conductor.core.task import Done
from conductor.plan import frozen
from conductor.runtime.driver import Driver, Ports
from conductor.runtime.inbound import Inbound
from conductor.runtime.launches import Order
from conductor.runtime.replay import Replayed
from conductor.runtime.signals import Signals
from conductor.testing.simulated.launcher import SimulatedLauncher

if TYPE_CHECKING:
    from conductor.testing.simulated.world import World

BUS = "/track/.message-bus"
STOP_GRACE = 30.0


class SimulatedConductor:
    """One process from its start to its end. The disk is all that it leaves to the next one."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"conductor {number}"
        self.process = world.process(self.name)
        self.wake_at = world.clock.mono
        self.replayed = Replayed()
        """What follows from the journal, as it sees it."""
        self.epoch = 0
        """0 until it has taken one."""
        self.done = False
        """Whether it found nothing to do any more."""
        self._world = world
        self._driver: _Driver | None = None
        self._host: FileHost | None = None

    @property
    def alive(self) -> bool:
        """Whether it lives."""
        return not self.process.dead

    def step(self) -> None:
        """Start, or take one turn of the loop; ends as a real one does, with its errors told to the world."""
        try:
            self._step()
        except HeldByOther as error:
            self.process.kill()
            self._world.refused(self, error)
        except BusError as error:
            self._leave()
            self._world.gave_up(self, error)

    def _step(self) -> None:
        if self._driver is None:
            self._start()
        else:
            self._driver.turn()
            self.wake_at = self._world.clock.mono + self._driver.seconds
        if self._driver is not None and self._driver.ended:
            self._driver.finish()
            self._world.say(self, "comes to the end of the round")
            self._world.ends_in_peace(self, layout.epoch_name(self.epoch))
            self._leave()

    def _leave(self) -> None:
        if self._host is not None:
            self._host.close()
        self.process.kill()

    def _start(self) -> None:
        world = self._world
        self._host = host = open_host(BUS, durability=world.durability, fs=self.process, follower=self.replayed)
        self.epoch = host.epoch
        world.recovered(self)
        first = self._first(host, self.replayed)
        if first is None:  # as in a session: no loop will run, which would remove what is recorded
            Inbound(host, self.replayed.messages, lambda text: world.say(self, text)).forget_recorded()
            self.done = True
            self._leave()
            return
        ports = Ports(
            host=host,
            launcher=SimulatedLauncher(world, self.process),
            clock=world.clock,
            signals=_NoSignals(),
            observer=_Observer(world, self),
            order=self._order,
            watch_works=lambda: True,
            stop_grace=STOP_GRACE,
        )
        self._driver = _Driver(self.replayed, ports, world)
        self._driver.begin(first)

    def _first(self, host: FileHost, replayed: Replayed) -> Fact | None:
        """Decide as `conductor.runtime.start.begin` does."""
        world = self._world
        if run := replayed.unfinished:
            return RunResumed(run.id, world.options, replayed.last_seq)
        if replayed.run and all(isinstance(task.status, Done) for task in replayed.machine.state.order):
            return None
        if not world.another_round():
            return None
        sha = host.freeze_plan(frozen.dump(world.plan))
        return RunStarted(world.random.randbytes(8).hex(), sha, "/project", world.options, world.plan)

    def _order(self, wanted: LaunchWorker) -> Order:
        durable = self._world.durability == "power"
        spec = WorkerSpec(
            bus=BUS,
            attempt=wanted.attempt,
            epoch=self.epoch,
            task=wanted.task,
            number=wanted.number,
            nonce=wanted.nonce,
            argv=("true",),
            cwd="/project",
            ladder=Ladder(),
            durable=durable,
        )
        return Order(spec, {"prompt.md": b"do it\n"} if self._world.random.random() < 0.3 else {})


class _Driver(Driver):
    """The loop cut into turns: it never waits itself, it says for how long it would."""

    def __init__(self, replayed: Replayed, ports: Ports, world: World) -> None:
        super().__init__(replayed, ports)
        self._world = world
        self.seconds = 0.0
        """For how long the last turn would have waited."""
        self._idle = False

    def turn(self) -> None:
        self.seconds = 0.0
        super().turn()

    def _sleep(self, look_again: float | None) -> None:
        self._idle = True
        super()._sleep(look_again)
        self._idle = False

    def _wait(self, seconds: float, *fds: int) -> None:
        if self._idle:
            self.seconds = seconds
        else:
            self._world.others_go_on(seconds)


class _Observer:
    """Tells the world what was acknowledged."""

    def __init__(self, world: World, conductor: SimulatedConductor) -> None:
        self._world = world
        self._conductor = conductor

    def recorded(self, records: list[Record]) -> None:
        self._world.recorded(self._conductor, records)

    def tick(self) -> float | None:
        return None

    def trouble(self, text: str) -> None:
        self._world.say(self._conductor, text)


class _NoSignals(Signals):
    """Operators of the simulation use files."""

    def __init__(self) -> None:
        self.wake_fd = -1
        self.terminated = False

    def check_leave(self) -> None:
        """Nobody is impatient."""

    def take(self, *, draining: bool = False) -> list[ControlReceived]:
        return []
