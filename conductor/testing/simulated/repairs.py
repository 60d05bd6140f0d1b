"""Damage to the journal of a simulation, from its making to the repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.errors import BusCorrupt
from bus.repair import repair
from conductor.runtime.replay import Replayed
from conductor.testing.ledger import demand
from conductor.testing.simulated import checks
from conductor.testing.simulated.conductor import BUS, SimulatedConductor
from conductor.testing.simulated.damage import Damage, Vandal, check_saved, saved

if TYPE_CHECKING:
    from conductor.testing.simulation import Simulation


class Repairs:
    """Has the journal damaged, and checks what repairs, and starts that do not notice, make of it."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self.damage: Damage | None = None
        """What was not repaired yet."""
        self.events_follow = True
        """False from a damage on, until a start has put `events/` in order."""
        self.any = False
        """Whether there was ever something to repair."""

    def do_damage(self, conductor: SimulatedConductor) -> None:
        """Let somebody damage the journal, behind a start that was in order and has ended: no conductor lives."""
        sim = self._sim
        for other in sim.conductors:
            other.process.kill()
        if sim.strikes.foreign.spares(conductor) and sim.strikes.disk_is_well:
            found = checks.read_journal(sim.disk)
            self.damage = Vandal(sim).strike(found.records, found.gone, found.state.digest())
            self.events_follow, self.any = False, True
            for worker in sim.workers.values():  # a command without its worker is found by what the journal tells
                if worker.command is not None and not worker.alive:
                    worker.command.kill()

    def power_cut(self) -> None:
        """A snapshot may have gone that a repair would have rested on."""
        if self.damage is not None:
            self.damage.wanted = None

    def begins(self) -> None:
        """A repair begins: note what it must save."""
        if self.damage is not None and self.damage.wanted is None:
            self.damage.wanted, self.damage.tried = saved(self._sim, self.damage), True

    def ended(self) -> None:
        """It has saved all that it could, and there is nothing left to repair. Raises LedgerBroken."""
        self._close()
        again = repair(BUS, follower=Replayed(), fs=self._sim.disk.process("check"))
        demand(not again, f"a second repair has something left to do: {again}")

    def has_mended(self, last: int) -> bool:
        """Tell whether a start, which found `last` as the last record, has put all in order by itself. Otherwise it has
        not noticed all of it, and goes on."""
        assert self.damage is not None
        self.damage.digest = self.damage.wanted = None
        try:
            checks.read_journal(self._sim.disk)
        except BusCorrupt:
            if self.damage.tried:  # what it goes on with is what half a repair has left: nobody knows what that is
                self._sim.accounts.cut(self.damage.before.values(), ())
                self.damage = Damage()
            self._forget_behind(self.damage, last)
            return False
        self.begins()
        self._close()
        return True

    def _forget_behind(self, damage: Damage, last: int) -> None:
        """A start has cut off what stood behind its last record."""
        self._sim.accounts.lose(record for seq, record in damage.before.items() if seq > last)
        damage.before = {seq: one for seq, one in damage.before.items() if seq <= last}
        damage.hit = {seq for seq in damage.hit if seq <= last}

    def _close(self) -> None:
        assert self.damage is not None
        damage, self.damage = self.damage, None
        assert damage.wanted is not None
        found = checks.read_journal(self._sim.disk)
        check_saved(found.records, found.gone, damage, damage.wanted)
        here = {record.seq for record in found.records} | found.gone
        if damage.digest is not None and here == damage.before.keys() | damage.gone:
            demand(found.state.digest() == damage.digest, "nothing is lost by the repair, and the state is another one")
        self._sim.accounts.cut(damage.before.values(), found.records)
