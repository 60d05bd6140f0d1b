"""What operators do while no conductor lives, each with a process of its own that holds the track meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from bus.host import FileHost
from conductor.core.events import ControlReceived, Fact, RunResumed, RunStarted
from conductor.core.instructions import LaunchWorker
from conductor.runtime.launches import Order
from conductor.runtime.replay import Replayed
from conductor.runtime.reset import take_back
from conductor.testing.ledger import demand
from conductor.testing.simulated.conductor import SimulatedConductor
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
        demand(False, f"{wanted.attempt} is launched by who only came to end the run")
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
        world.recorded(self, [record for record in host.records() if record.seq > before])

    def _is_done(self) -> bool:
        return False


ERRANDS: dict[Errand, type[SimulatedConductor]] = {kind.errand: kind for kind in (Stopping, Draining, Resetting)}
