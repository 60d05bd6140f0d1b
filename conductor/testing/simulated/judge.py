"""What a conductor tells, held against what is known: what it recovered, what it recorded, why it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus import layout
from bus.errors import BusCorrupt, BusError, HeldByOther
from bus.wire import Record
from conductor.errors import ConductorError
from conductor.testing.ledger import LedgerBroken, demand
from conductor.testing.simulated import checks
from conductor.testing.simulated.conductor import BUS, SimulatedConductor

if TYPE_CHECKING:
    from conductor.testing.simulation import Simulation


class Judge:
    """Raises LedgerBroken where something that was promised does not hold."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation

    def recovered(self, conductor: SimulatedConductor) -> None:
        """Check everything."""
        sim = self._sim
        sim.recoveries += 1
        sim.happens()
        sim.say(conductor, f"has recovered, epoch {conductor.epoch}")
        if conductor is not sim.conductor:  # of one that was replaced meanwhile nothing is known but its name
            return
        if sim.repairs.damage is None or sim.repairs.has_mended(conductor.replayed.last_seq):
            self._check(conductor)

    def recorded(self, conductor: SimulatedConductor, records: list[Record]) -> None:
        """Remember what was acknowledged, unless another conductor has taken over since."""
        sim = self._sim
        sim.happens()
        for record in records:
            sim.say(conductor, f"{record.seq} {record.type} {record.attempt or record.task or ''}")
        if conductor is not sim.conductor:
            return
        sim.accounts.recorded(records)
        for record in records:
            starts = record.type == "WORKER_DISPATCHED" and conductor.errand is not None
            demand(not starts, f"{record.attempt} is dispatched by who only came to end the run")
            if record.type == "DEADLOCK_DETECTED":
                members = [member["attempt"] for member in record.payload["members"]]
                sim.traffic.check_deadlock(members, conductor.replayed.machine.state, since=conductor.began)

    def refused(self, conductor: SimulatedConductor, error: HeldByOther) -> None:
        """There must have been one that held the track; if it still does, it goes on with the run."""
        sim = self._sim
        sim.say(conductor, "is refused")
        demand(conductor not in sim.alone, f"the track is held by nobody, and yet: {error.message}")
        if conductor is sim.conductor:
            sim.conductor = next((one for one in sim.conductors if one.alive and sim.holds_track(one)), None)

    def held_up(self, conductor: SimulatedConductor, error: ConductorError) -> None:
        """Something must live that could not be ended, or is out of sight."""
        sim = self._sim
        sim.say(conductor, f"begins no run: {error.message}")
        living = [one for one in sim.workers.values() if one.alive or one.command_lives]
        demand(
            any(one.is_doomed or one.contained for one in living) or conductor is not sim.conductor,
            f"nothing is left, and yet: {error.message}",
        )

    def gave_up(self, conductor: SimulatedConductor, error: BusError) -> None:
        """An error needs a reason, and damage has none."""
        sim = self._sim
        sim.say(conductor, f"gives up: {error.message}")
        if conductor is not sim.conductor:  # it was replaced: whatever it saw was not meant for it
            return
        excused = sim.strikes.excuses(conductor) or sim.strikes.foreign.surprises(conductor)
        if self._are_strangers(error):
            excused = True
            sim.operator.may_end_strangers()
        elif sim.repairs.damage is not None:
            excused = True
        elif isinstance(error, BusCorrupt):
            excused = False
        if not excused:
            raise LedgerBroken(f"{conductor.name} gives up: {error.message}") from error
        conductor.wake_at = sim.clock.mono

    def _are_strangers(self, error: BusError) -> bool:
        """Tell whether a run is refused because workers live of which a journal that was cut does not tell."""
        sim = self._sim
        cut = sim.disk.find(f"{BUS}/{layout.CUT}") is not None
        return (
            cut
            and "of which the journal does not tell" in error.message
            and any(one.alive for one in sim.workers.values())
        )

    def _check(self, conductor: SimulatedConductor) -> None:
        sim = self._sim
        live, foreign = conductor.replayed, sim.strikes.foreign
        if not foreign.spares(conductor):
            return
        found = checks.read_journal(sim.disk, placed=not sim.strikes.has_usurped)
        sim.records = found.records
        demand(live.digest() == found.state.digest(), "a replay of the whole journal is not the live state")
        folders = [layout.INBOX, layout.QUARANTINE] if sim.late else [layout.INBOX]
        lying = {name for folder in folders for name in sim.disk.names(f"{BUS}/{folder}")}
        sim.accounts.check(sim.records, lying, gone=found.gone, ended=live.machine.ended)
        names = [name for at in (layout.CONTROL, layout.QUARANTINE) for name in sim.disk.names(f"{BUS}/{at}")]
        sim.accounts.check_orders(sim.records, names)
        if not found.gone:
            checks.check_state(live, sim.accounts.ledger)
        foreign.check()
        if not sim.strikes.excuses(conductor) and not found.gone:  # what could not be written is projected later
            sim.repairs.events_follow = True
            checks.check_events(sim.disk, sim.records, sim.accounts.ledger.shown)
        checks.check_quarantine(sim.disk, cut=sim.disk.boots > 1, repaired=sim.repairs.any)
