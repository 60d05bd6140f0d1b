"""An operator of the simulation: does what the run waits for, and a few things that it does not wait for.

Orders are files. Each is given under a name of its own, so that what became of it can be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bus import control
from bus.errors import BusError
from conductor.core.state import State
from conductor.core.task import AwaitsApproval, Failed, Manual, Running
from conductor.testing.simulated.command import KEYS
from conductor.testing.simulated.conductor import BUS

if TYPE_CHECKING:
    from conductor.testing.simulation import Simulation

BOUND = ("pause", "stop", "drain")
"""Orders that are meant for one conductor."""

WHIMS = ("pause", "cancel", "retry", "steer", "unlock", "reload", "approve", "reject", "complete", "fail", "resume")

PATIENCE = 600.0
"""Seconds after which it says something again: the order may be lost with the power, or its file."""


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants."""

    verb: str
    target: str | None = None
    text: str | None = None


class SimulatedOperator:
    """Looks at the run now and then."""

    name = "operator"

    def __init__(self, simulation: Simulation, whims: int) -> None:
        self._sim = simulation
        self._odd = simulation.odd
        self._whims = whims
        """Orders that it gives for no reason."""
        self._given = 0
        self._again_at: dict[Order, float] = {}
        """When it will say again what nobody has heeded."""
        self.process = simulation.process(self.name)
        self.wake_at = simulation.clock.mono + 10.0

    @property
    def alive(self) -> bool:
        """Whether it lives: a power cut ends its shell."""
        return not self.process.dead

    def comes_back(self) -> None:
        """Open a shell again, behind a power cut or a kill."""
        self.process.kill()
        self.process = self._sim.process(self.name)

    def may_end_strangers(self) -> None:
        """A run is refused because workers live that no journal tells of; they may wait for each other for ever."""
        if self._odd.random() < 0.2:
            for worker in self._sim.idle_workers():
                self._sim.say(worker, "is ended by the operator")
                worker.kill(command_too=True)

    def step(self) -> None:
        """Look, and give an order."""
        odd, conductor = self._odd, self._sim.conductor
        if self.process.dead:
            self.comes_back()
        self.wake_at = self._sim.clock.mono + odd.choice((5.0, 30.0, 120.0))
        if self._sim.is_over:
            self.may_end_strangers()
        if conductor is None or not conductor.epoch or conductor.replayed.machine.ended:
            return
        state = conductor.replayed.machine.state
        duties = [one for one in _duties(state) if self._sim.clock.mono >= self._again_at.get(one, 0.0)]
        if self._whims and odd.random() < 0.3:
            self._whims -= 1
            self._give(self._whim(state), conductor.epoch)
        elif duties:
            duty = odd.choice(duties)
            self._again_at[duty] = self._sim.clock.mono + PATIENCE
            self._give(duty, conductor.epoch)

    def _whim(self, state: State) -> Order:
        odd, verb = self._odd, self._odd.choice(WHIMS)
        if verb == "reload":
            self._sim.edit_plan()
            return Order(verb)
        if verb in ("pause", "resume"):
            return Order(verb)
        if verb == "unlock":
            held = sorted({key for grant in state.grants.values() for key in grant.keys})
            return Order(verb, odd.choice(held or KEYS))
        likely = {"retry": Failed, "steer": Running, "approve": AwaitsApproval, "reject": AwaitsApproval}
        fit = [task.id for task in state.order if isinstance(task.status, likely.get(verb, object))]
        return Order(verb, odd.choice(fit or [*state.tasks, "x"]), f"order {self._given}")

    def _give(self, order: Order, epoch: int) -> None:
        self._given += 1
        who = f"sim-{self._given}"
        bound = epoch if order.verb in BOUND else None
        self._sim.say(self, f"{who} orders {order.verb} {order.target or ''}")
        try:
            control.drop(
                Path(BUS), order.verb, target=order.target, text=order.text, who=who, epoch=bound, fs=self.process
            )
        except (OSError, BusError) as error:
            self._sim.say(self, f"the order could not be given: {error}")
        else:
            if not self._sim.strikes.foreign.surprises(self):
                self._sim.accounts.orders[f"operator:{who}"] = order.verb


def _duties(state: State) -> Iterator[Order]:
    """What the run cannot do without a person."""
    for wait in state.waits.values():
        task = state.tasks.get(wait.task)
        if wait.kind == "question" and task is not None and f"answer-{wait.id}" not in task.letters:
            yield Order("answer", wait.id, f"the answer to {wait.id}")
    for task in state.order:
        if isinstance(task.status, AwaitsApproval):
            yield Order("approve", task.id)
        elif isinstance(task.status, Manual):
            yield Order("complete", task.id, "by hand")
    if state.run is not None and (state.run.paused_by or state.paused_ahead):
        yield Order("resume")
    for kind, pause in state.providers.items():
        if pause.seconds is None:
            yield Order("resume", kind)
