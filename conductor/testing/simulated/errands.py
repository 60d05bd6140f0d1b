"""What operators do while no conductor lives, each with a process of its own that holds the track meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from bus.host import FileHost, open_host
from bus.repair import repair
from conductor.core.events import ControlReceived, Fact, RunResumed, RunStarted
from conductor.core.instructions import LaunchWorker
from conductor.plan import frozen
from conductor.runtime.launches import Order
from conductor.runtime.replay import Replayed
from conductor.runtime.reset import take_back
from conductor.testing.simulated.conductor import BUS, SimulatedConductor
from conductor.testing.simulated.troubles import Errand

WHO = "operator:sim"


class Stopping(SimulatedConductor):
    """`conductor stop`: takes over the run of a conductor that died, only to end it."""

    errand = Errand.STOP

    def _first(self, host: FileHost, replayed: Replayed) -> RunStarted | RunResumed | None:
        run = replayed.unfinished
        return RunResumed(run.id, self._world.options, replayed.last_seq) if run else None

    def _behind(self, first: RunStarted | RunResumed) -> Sequence[Fact]:
        return [ControlReceived("drain" if self.errand is Errand.DRAIN else "stop", WHO)]

    def _order(self, wanted: LaunchWorker) -> Order:
        self._world.insist(False, f"{wanted.attempt} is launched by who only came to end the run")
        return super()._order(wanted)

    def _is_done(self) -> bool:
        return True


class Draining(Stopping):
    """`conductor stop --drain`, likewise."""

    errand = Errand.DRAIN


class Resetting(Stopping):
    """`conductor reset`: ends the run of a conductor that died, then takes tasks back, or everything."""

    errand = Errand.RESET

    def _do_without_run(self, host: FileHost) -> None:
        world, replayed = self._world, self.replayed
        known, before = list(replayed.machine.state.tasks), replayed.last_seq
        named = world.odd.sample(known, k=min(len(known), world.odd.choice((0, 1, 1, 2))))
        done = take_back(host, replayed, named, WHO, world.clock)
        world.say(self, f"has set back {', '.join(done.tasks)}")
        world.judge.recorded(self, [record for record in host.records() if record.seq > before])

    def _is_done(self) -> bool:
        return False


class Repairing(SimulatedConductor):
    """`conductor doctor --repair` of a journal that was damaged behind a start that was in order."""

    errand = Errand.REPAIR

    def _start(self) -> None:
        world = self._world
        if world.repairs.damage is None:
            host = open_host(BUS, durability=world.durability, fs=self.process, follower=self.replayed)
            self.epoch = host.epoch
            world.judge.recovered(self)
            host.close()
            world.repairs.do_damage(self)
        else:
            world.repairs.begins()
            said = repair(BUS, follower=self.replayed, plan_again=lambda _: frozen.dump(world.plan), fs=self.process)
            for line in said:
                world.say(self, line)
            if not self.process.dead:  # it may have been killed at its very last call
                self.done = True
                world.repairs.ended()
        self.process.kill()


ERRANDS: dict[Errand, type[SimulatedConductor]] = {
    kind.errand: kind for kind in (Stopping, Draining, Resetting, Repairing)
}
