"""What goes wrong in a simulation, carried out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bus import control, layout
from bus.errors import BusError
from conductor.testing.disk import ModelProcess
from conductor.testing.disk.inodes import Folder
from conductor.testing.ledger import demand
from conductor.testing.simulated.conductor import BUS, SimulatedConductor
from conductor.testing.simulated.foreign import ForeignHand
from conductor.testing.simulated.troubles import Trouble, drawn

if TYPE_CHECKING:
    from conductor.testing.simulation import Simulation

DESTRUCTIVE = frozenset({"truncate", "rename", "link", "unlink"})
"""Calls whose work nobody can tell from one's own afterwards, as a line with an old epoch can be told. Between a look
at the lock and the one such call that follows it nobody can be kept from deleting the lock file: a conductor that is
stopped just there still makes that call when it wakes up."""

MOST_STEPS = 20

TEN_YEARS = 315_576_000.0


class Strikes:
    """Counts calls, and strikes at some of them."""

    def __init__(self, simulation: Simulation, rare: Iterable[Trouble]) -> None:
        self._sim = simulation
        self._random = simulation.random
        self._disk = simulation.disk
        self._fuse = drawn(self._random, simulation.troubles, power=simulation.durability == "power")
        self._fuse.add(simulation.odd, rare)
        if simulation.tiny:
            self._fuse.aim(simulation.odd)
        self.foreign = ForeignHand(simulation)
        self._excused: set[SimulatedConductor] = set()
        self._usurped: set[ModelProcess] = set()
        """Conductors whose lock file was deleted."""
        self.disk_was_ill = False
        """Whether the disk ever failed a call of somebody."""
        self._well_at: float | None = None
        """When the disk is well again."""
        self._copies: dict[str, bytes] = {}
        """Messages that were once in the inbox."""
        self._operator = self._disk.process("operator")

    @property
    def disk_is_well(self) -> bool:
        """Whether everything can be written."""
        return self._well_at is None

    @property
    def has_usurped(self) -> bool:
        """Whether a conductor was ever replaced while it stood still: what it keeps then belongs to no journal."""
        return bool(self._usurped)

    def before_call(self, process: ModelProcess, call: str) -> bool:
        """Let something go wrong, perhaps; False where nobody may go on in between."""
        if self._usurped and call in DESTRUCTIVE and process in self._usurped:
            return False
        if trouble := self._fuse.next(call, process):
            if self._is_possible(trouble, process, call):
                where = f"call {process.calls}, about {process.about}"
                self._sim.say(None, f"{trouble.name} at {call} of {process.name} ({where})")
                self._strike(trouble, process)
            else:
                self._fuse.put_off(trouble, process)
        return True

    def over(self) -> None:
        """Nothing goes wrong from now on."""
        self._fuse.waiting.clear()
        self._fuse.planned.clear()
        self._well_at = self._sim.clock.mono
        self._disk.late = 0.0
        self.heal()

    def heal(self) -> None:
        """Let the disk be well, if it is time."""
        if self._well_at is not None and self._sim.clock.mono >= self._well_at:
            self._well_at = None
            faults = self._disk.faults
            faults.room, faults.no_names, faults.read_only, faults.failing_syncs = None, False, False, 0
            self._sim.say(None, "the disk is well again")

    def remember_messages(self) -> None:
        """Keep copies of what lies in the inbox."""
        self._copies.update(self._disk.files(f"{BUS}/{layout.INBOX}"))

    def excuses(self, conductor: SimulatedConductor) -> bool:
        """Tell whether a conductor may end with an error: the disk failed it, or it was replaced."""
        return conductor in self._excused

    def excuse(self, conductor: SimulatedConductor) -> None:
        """It starts while the disk is not well."""
        self._excused.add(conductor)

    def _strike(self, trouble: Trouble, process: ModelProcess) -> None:
        match trouble:
            case Trouble.KILL_CALLER:
                self._kill(process)
            case Trouble.KILL_CONDUCTOR:
                self._kill_conductor()
            case Trouble.KILL_WORKER:
                self._kill_some_worker()
            case Trouble.HASTE:
                self._hurry()
            case Trouble.POWER_CUT:
                self._cut_power()
            case Trouble.PAUSE:
                self._pause()
            case Trouble.USURP:
                self._usurp()
            case Trouble.FULL_DISK:
                self._disk.faults.room = self._random.choice((0, 0, 100, 700))
                self._disk.faults.no_names = self._random.random() < 0.5
                self._trouble_the_disk()
            case Trouble.READ_ONLY:
                self._disk.faults.read_only = True
                self._trouble_the_disk()
            case Trouble.FAILED_SYNC:
                self._disk.faults.failing_syncs = 1
                self._disk.faults.only_data = self._random.random() < 0.6
                self._trouble_the_disk()
            case Trouble.CLOCK:
                self._sim.clock.wall += self._random.uniform(-TEN_YEARS, TEN_YEARS)
            case Trouble.DRAIN | Trouble.STOP:
                self._order(trouble.name.lower())
            case Trouble.REPEAT:
                self._repeat()
            case Trouble.EDIT:
                self._sim.edit_plan()
            case Trouble.APPEND | Trouble.BY_HAND | Trouble.FOLDER:
                self.foreign.strike(trouble)

    def _is_possible(self, trouble: Trouble, process: ModelProcess, call: str) -> bool:
        match trouble:
            case Trouble.KILL_CONDUCTOR:
                return self._sim.conductor is not None
            case Trouble.KILL_WORKER:
                return any(worker.alive for worker in self._sim.workers.values())
            case Trouble.HASTE:
                return self._is_conductor(process) and bool(self._sim.idle_workers())
            case Trouble.PAUSE:  # whoever else may start would go on with what is damaged
                return self._is_conductor(process) and self._sim.repairs.damage is None
            case Trouble.USURP:
                lock = self._disk.find(f"{BUS}/{layout.LOCK}")
                usable = lock is not None and self._is_conductor(process) and call not in DESTRUCTIVE
                return usable and self._sim.repairs.damage is None
            case Trouble.FULL_DISK | Trouble.READ_ONLY | Trouble.FAILED_SYNC:
                return self._well_at is None  # a disk that fails and is full at once keeps no word of it
            case Trouble.REPEAT:
                inbox = self._disk.find(f"{BUS}/{layout.INBOX}")
                return self.disk_is_well and bool(self._copies) and isinstance(inbox, Folder)
            case Trouble.APPEND | Trouble.BY_HAND | Trouble.FOLDER | Trouble.EDIT:
                return self.disk_is_well and self._sim.repairs.damage is None
            case _:
                return True

    def _held_by(self) -> SimulatedConductor:
        assert self._sim.conductor is not None
        return self._sim.conductor

    def _is_conductor(self, process: ModelProcess) -> bool:
        return self._sim.conductor is not None and process is self._sim.conductor.process and self._sim.may_nest

    def _kill(self, process: ModelProcess) -> None:
        for worker in self._sim.workers.values():
            if worker.process is process:
                worker.kill(command_too=self._random.random() < 0.7)
            elif worker.command is not None and worker.command.process is process:
                worker.command.kill()
        process.kill()

    def _kill_conductor(self) -> None:
        if self._sim.conductor is not None:
            self._sim.say(self._sim.conductor, "is killed")
            self._sim.conductor.process.kill()

    def _kill_some_worker(self) -> None:
        worker = self._random.choice([worker for worker in self._sim.workers.values() if worker.alive])
        self._sim.say(worker, "is killed")
        worker.kill(command_too=self._random.random() < 0.7)

    def _hurry(self) -> None:
        worker = self._random.choice(self._sim.idle_workers())
        for _ in range(MOST_STEPS):  # not for ever: it may be waiting for a full disk
            if not worker.alive:
                break
            command = worker.command
            hurries = command is not None and command.alive and command not in self._sim.on_stage
            self._sim.act(command if command is not None and hurries else worker)

    def _cut_power(self) -> None:
        self._disk.power_cut()
        for worker in self._sim.workers.values():
            worker.kill(command_too=True)
        self.foreign.forget()
        self._sim.operator.comes_back()
        self._sim.repairs.power_cut()
        self._sim.accounts.power_cut(durable_results=True)
        self._sim.clock.advance(self._random.choice((1.0, 1000.0)))
        self._sim.clock.reboot(f"boot-{self._random.randrange(1 << 32)}")
        self._well_at = self._sim.clock.mono
        self._operator = self._disk.process("operator")

    def _pause(self) -> None:
        """The conductor stands still, and nobody else can take the track meanwhile."""
        paused = self._held_by()
        intruder = self._sim.new_conductor()
        self._sim.act(intruder)
        if self._sim.holds_track(paused):
            demand(intruder.epoch == 0 and not intruder.alive, "two conductors hold the track")
        intruder.process.kill()
        self._sim.others_go_on(self._random.choice((1.0, 60.0, 3600.0)))

    def _usurp(self) -> None:
        """The conductor stands still; somebody deletes its lock file, so that another one starts."""
        old = self._held_by()
        root = self._operator.open_directory(BUS)
        try:
            self._operator.discard(layout.LOCK, root)
        except OSError:
            return
        finally:
            self._operator.close(root)
        self._sim.conductor = None
        self._excused.add(old)
        self._usurped.add(old.process)
        for _ in range(self._random.choice((0, 3, 30, 300))):
            self._sim.turn()
        if self._random.random() < 0.3:
            self._kill_conductor()
        self._sim.say(old, "wakes up")

    def _trouble_the_disk(self) -> None:
        self.disk_was_ill = True
        self._well_at = self._sim.clock.mono + self._random.choice((0.5, 3.0, 60.0))
        self._excused.update(self._sim.conductors)

    def _order(self, verb: str) -> None:
        epoch = self._sim.conductor.epoch if self._sim.conductor is not None and self._sim.conductor.epoch else None
        try:
            control.drop(Path(BUS), verb, who="sim", epoch=epoch, fs=self._operator)
        except (OSError, BusError) as error:
            self._sim.say(None, f"the order could not be given: {error}")

    def _repeat(self) -> None:
        name = self._random.choice(sorted(self._copies))
        self._disk.write(f"{BUS}/{layout.INBOX}/{name}", self._copies[name])
