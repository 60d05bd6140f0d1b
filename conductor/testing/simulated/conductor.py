"""A conductor of the simulation: the real host, replay and driver on the model disk, one turn at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bus import layout
from bus.errors import BusError, HeldByOther
from bus.host import FileHost, open_host
from bus.keys import normal
from bus.wire import Ladder, Record, WorkerSpec
from conductor.core.events import ControlReceived, Fact, PlanEdited, RunResumed, RunStarted
from conductor.core.file_locks import locks_of
from conductor.core.instructions import LaunchWorker
from conductor.core.state import Run, State
from conductor.core.task import Done, Plan
from conductor.errors import ConductorError
from conductor.plan import frozen
from conductor.runtime.driver import Driver, Ports
from conductor.runtime.edits import PERIOD, difference
from conductor.runtime.inbound import Inbound
from conductor.runtime.launches import Order
from conductor.runtime.left_behind import refuse_left_behind
from conductor.runtime.replay import Replayed
from conductor.runtime.signals import Signals
from conductor.runtime.strangers import refuse_strangers, taken_numbers
from conductor.testing.simulated.launcher import SimulatedLauncher
from conductor.testing.simulated.troubles import Errand

if TYPE_CHECKING:
    from conductor.testing.simulated.world import World

BUS = "/track/.message-bus"
STOP_GRACE = 30.0


class SimulatedConductor:
    """One process from its start to its end. The disk is all that it leaves to the next one."""

    errand: Errand | None = None
    """What an operator sent it for; None where it is to run the track."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"{self.errand.name.lower() if self.errand else 'conductor'} {number}"
        self.process = world.process(self.name)
        self.wake_at = world.clock.mono
        self.replayed = Replayed()
        """What follows from the journal, as it sees it."""
        self.epoch = 0
        """0 until it has taken one."""
        self.began = 0
        """When it was given the floor last, by `World.moment`."""
        self.done = False
        """Whether there is nothing left of what it was started for."""
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
            self._world.judge.refused(self, error)
        except BusError as error:
            self._leave()
            self._world.judge.gave_up(self, error)
        except ConductorError as error:
            self._leave()
            self._world.judge.held_up(self, error)

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
            self.done = self._is_done()
            self._leave()

    def _leave(self) -> None:
        if self._host is not None:
            self._host.close()
        self.process.kill()

    def _start(self) -> None:
        world = self._world
        self._host = host = open_host(BUS, durability=world.durability, fs=self.process, follower=self.replayed)
        self.epoch = host.epoch
        world.judge.recovered(self)
        first = self._first(host, self.replayed)
        if first is None:  # as in a session: no loop will run, which would do this
            Inbound(host, self.replayed.messages, lambda text: world.say(self, text)).forget_recorded()
            if host.checkpoint_due():
                self.replayed.keep(host)
            self._do_without_run(host)
            self.done = True
            self._leave()
            return
        launcher = SimulatedLauncher(world, self.process)
        refuse_strangers(host, self.replayed, to_stop=self.errand is not None)
        if self.errand is None:
            refuse_left_behind(host, launcher, self.replayed.machine.state)
        if isinstance(first, RunStarted):
            host.freeze_plan(frozen.dump(first.plan))
        ports = Ports(
            host=host,
            launcher=launcher,
            clock=world.clock,
            signals=_NoSignals(),
            observer=_Observer(world, self),
            order=self._order,
            watch_works=lambda: True,
            stop_grace=STOP_GRACE,
            edits=_Edits(world).look,
        )
        self._driver = _Driver(self.replayed, ports, world)
        self._driver.begin(first, self._behind(first))

    def _first(self, host: FileHost, replayed: Replayed) -> RunStarted | RunResumed | None:
        """Decide as `conductor.runtime.start.begin` does."""
        world, plan = self._world, self._world.plan
        if run := replayed.unfinished:
            return RunResumed(run.id, world.options, replayed.last_seq)
        done = {task.id for task in replayed.machine.state.order if isinstance(task.status, Done)}
        if replayed.run and all(spec.id in done for spec in plan.tasks):
            return None
        if not world.another_round():
            return None
        sha, taken = world.source_sha, taken_numbers(host, replayed.machine.state, [spec.id for spec in plan.tasks])
        return RunStarted(world.random.randbytes(8).hex(), sha, "/project", world.options, plan, sha, taken)

    def _behind(self, first: RunStarted | RunResumed) -> Sequence[Fact]:
        """What is recorded together with the first fact, before anything is decided."""
        run = self.replayed.run
        edit = edit_of(self._world, self.replayed.plan, run) if run and isinstance(first, RunResumed) else None
        return [edit] if edit else []

    def _do_without_run(self, host: FileHost) -> None:
        """Nothing: a run was asked for."""

    def _is_done(self) -> bool:
        """Tell whether the end of a round is the end of what it was started for: the next start tells."""
        return False

    def _order(self, wanted: LaunchWorker) -> Order:
        durable = self._world.durability == "power"
        self._world.accounts.plan_of[wanted.attempt] = self.replayed.plan
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
            locks=self._locks(wanted),
        )
        return Order(spec, {"prompt.md": b"do it\n"} if self._world.random.random() < 0.3 else {})

    def _locks(self, wanted: LaunchWorker) -> tuple[tuple[str, bool], ...]:
        """Order locks as `conductor.runtime.command.order` does."""
        run, task = self.replayed.run, self.replayed.machine.state.tasks[wanted.task]
        assert run is not None
        return tuple((normal(pattern), shared) for pattern, shared in locks_of(task.spec, run.options))


class _Edits:
    """Looks at the plan as `conductor.runtime.edits.PlanEdits` does."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._due = 0.0

    def look(self, now: float, state: State) -> PlanEdited | None:
        if now < self._due or state.run is None:
            return None
        self._due = now + PERIOD
        return edit_of(self._world, state.plan, state.run)


def edit_of(world: World, plan: Plan, run: Run) -> PlanEdited | None:
    """Compare as `conductor.runtime.edits.edited` does."""
    if world.source_sha == run.source_sha:
        return None
    changes = difference(plan, world.plan)
    return PlanEdited(plan.source, world.source_sha, changes) if changes or run.edited else None


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
        self._world.judge.recorded(self._conductor, records)

    def tick(self) -> float | None:
        return None

    def trouble(self, text: str) -> None:
        self._world.say(self._conductor, text)


class _NoSignals(Signals):
    """Operators of the simulation use files."""

    def __init__(self) -> None:
        self.wake_fd = -1
        self.terminated = False

    @property
    def pending(self) -> bool:
        return False

    def check_leave(self) -> None:
        """Nobody is impatient."""

    def take(self, *, draining: bool = False) -> list[ControlReceived]:
        return []
