"""The whole system under one seed: real host, hands, driver and core, on a disk and in a time of our own.

Everything that makes a system call may be interrupted at it: others go on meanwhile, processes are killed, the power
is cut, the disk fills up. Whoever stands still in the middle of a call lies below the others on the stack, so any two
parties interleave at any call, and the same seed tells the same story.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from bus import control, layout
from bus.errors import BusCorrupt, BusError, HeldByOther
from bus.wire import AttemptId, Record, WorkerSpec
from conductor.core.task import RunOptions
from conductor.runtime.replay import Replayed
from conductor.testing.disk import Killed, ModelDisk, ModelProcess
from conductor.testing.disk.inodes import File
from conductor.testing.fakes import FakeClock
from conductor.testing.ledger import Ledger, LedgerBroken, demand
from conductor.testing.plans import random_plan
from conductor.testing.simulated import chance, checks
from conductor.testing.simulated.accounts import Accounts
from conductor.testing.simulated.conductor import BUS, SimulatedConductor
from conductor.testing.simulated.troubles import Trouble, Troubles, drawn
from conductor.testing.simulated.worker import SimulatedWorker
from conductor.testing.simulated.world import Actor

MAX_TURNS = 20_000
MAX_DEPTH = 4
"""Actors that may stand still in the middle of a call, one below the other."""

DESTRUCTIVE = frozenset({"truncate", "rename", "link", "unlink"})
"""Calls whose work nobody can tell from one's own afterwards, as a line with an old epoch can be told. Between a look
at the lock and the one such call that follows it nobody can be kept from deleting the lock file: a conductor that is
stopped just there still makes that call when it wakes up."""

TEN_YEARS = 315_576_000.0


class Simulation:
    """One seed. Keeps `conductor.testing.simulated.world.World`."""

    def __init__(
        self, seed: int, *, durability: str | None = None, troubles: Troubles | None = None, rounds: int = 3
    ) -> None:
        """Prepare a run: the plan, its options, and what goes wrong follow from the seed."""
        self.seed = seed
        self.random = random = Random(seed)
        self.troubles = troubles or Troubles()
        self.durability = durability or random.choice(("power", "power", "process"))
        self.plan = random_plan(random, random.randint(1, 6))
        self.options = RunOptions(
            max_workers=random.choice((1, 2, 5)),
            retries=random.choice((0, 1, 2)),
            seed=seed,
            durability=self.durability,
        )
        self.clock = FakeClock()
        self.disk = ModelDisk(random)
        self._late = self.disk.late = random.choice(self.troubles.late)
        self.disk.is_late = _is_handed_in
        self.accounts = Accounts(Ledger(self.plan, self.options))
        self.workers: dict[AttemptId, SimulatedWorker] = {}
        self.conductor: SimulatedConductor | None = None
        """The one that should hold the track; None where the next turn starts one."""
        self.story: list[str] = []
        self.tell: Callable[[str], None] | None = None
        """Told each line of the story as it happens."""
        self.records: list[Record] = []
        """The journal, as of the last recovery."""
        self.recoveries = 0
        self._rounds = rounds
        self._fuse = drawn(random, self.troubles, power=self.durability == "power")
        self._interleaving = random.choice(self.troubles.interleaving)
        self._switch_in = random.randint(1, 2 * self._interleaving)
        self._stack: list[Actor] = []
        self._started = 0
        self._excused: set[SimulatedConductor] = set()
        """Conductors that may end with an error: the disk failed them, or they were replaced."""
        self._conductors: list[SimulatedConductor] = []
        """All that live."""
        self._alone: set[SimulatedConductor] = set()
        """Those beside which no other lived at their start."""
        self._usurped: set[ModelProcess] = set()
        """Conductors whose lock file was deleted."""
        self._over = False
        self._disk_well_at: float | None = None
        self._copies: dict[str, bytes] = {}
        """Messages that were once in the inbox."""
        self._operator = self.disk.process("operator")
        self._operator.mkdir("/track")
        self.disk.root.sync()

    def run(self) -> Simulation:
        """Play it to its end. Raises LedgerBroken, InvariantBroken, or whatever else the program let out."""
        with chance.all_from(self.random, lambda: self.clock.wall), chance.small_limits(self.random):
            for _ in range(MAX_TURNS):
                if not self._turn():
                    self._finish()
                    return self
        raise LedgerBroken("the run does not come to an end")

    # --- who goes on ------------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Let somebody go on, or time pass; False once all is over."""
        self._heal()
        if self.conductor is None and not self._over:
            self.conductor = self._new_conductor()
            self.conductor.wake_at += self.random.choice((0.0, 1.0, 60.0))
        everybody: list[Actor] = [*self.workers.values(), *self._conductors]
        everybody = [actor for actor in everybody if actor.alive]
        free = [actor for actor in everybody if actor not in self._stack]
        if not free:
            return False
        now = self.clock.mono
        if self.random.random() < 0.02:
            self._copies.update(self.disk.files(f"{BUS}/{layout.INBOX}"))
        due = [actor for actor in free if actor.wake_at <= now]
        if due:
            self._act(self.random.choice(due))
        else:
            self.clock.advance(min(actor.wake_at for actor in free) - now)
        return True

    def _new_conductor(self) -> SimulatedConductor:
        self._conductors = [one for one in self._conductors if one.alive]
        self._started += 1
        made = SimulatedConductor(self, self._started)
        self._alone = set() if self._conductors else {made}
        if self._disk_well_at is not None:
            self._excused.add(made)
        self._conductors.append(made)
        return made

    def _act(self, actor: Actor) -> None:
        self._stack.append(actor)
        try:
            actor.step()
        except Killed:
            self.say(actor, "is dead")
        finally:
            self._stack.pop()
        if self.conductor is not None and not self.conductor.alive:
            self._over = self.conductor.done
            self.conductor = None

    def others_go_on(self, seconds: float) -> None:
        """Let time pass in the middle of what somebody does."""
        until = self.clock.mono + seconds
        while len(self._stack) < MAX_DEPTH and self.clock.mono < until and self._turn():
            pass
        self.clock.advance(max(0.0, until - self.clock.mono))
        self._heal()

    def _before_call(self, process: ModelProcess, call: str) -> None:
        if call in DESTRUCTIVE and process in self._usurped:
            return
        if trouble := self._fuse.next(call):
            self._strike(trouble, process, call)
        self._switch_in -= 1
        if self._switch_in <= 0:
            self._switch_in = self.random.randint(1, 2 * self._interleaving)
            if len(self._stack) < MAX_DEPTH:
                for _ in range(self.random.choice((1, 1, 3, 8))):
                    self._turn()

    # --- what goes wrong --------------------------------------------------------------------------------------------

    def _strike(self, trouble: Trouble, process: ModelProcess, call: str) -> None:
        self.say(None, f"{trouble.name} at {call} of {process.name} (call {process.calls})")
        match trouble:
            case Trouble.KILL_CALLER:
                self._kill(process)
            case Trouble.KILL_CONDUCTOR if self.conductor is not None:
                self.conductor.process.kill()
            case Trouble.KILL_WORKER:
                self._kill_some_worker()
            case Trouble.POWER_CUT:
                self._cut_power()
            case Trouble.PAUSE if self._is_conductor(process):
                self._pause()
            case Trouble.USURP if self._is_conductor(process) and call not in DESTRUCTIVE:
                self._usurp()
            case Trouble.FULL_DISK | Trouble.READ_ONLY | Trouble.FAILED_SYNC if self._disk_well_at is not None:
                self._fuse.put_off(trouble)  # one at a time: a disk that fails and is full keeps no word of it
            case Trouble.FULL_DISK:
                self.disk.faults.room = self.random.choice((0, 0, 100, 700))
                self.disk.faults.no_names = self.random.random() < 0.5
                self._trouble_the_disk()
            case Trouble.READ_ONLY:
                self.disk.faults.read_only = True
                self._trouble_the_disk()
            case Trouble.FAILED_SYNC:
                self.disk.faults.failing_syncs = 1
                self._trouble_the_disk()
            case Trouble.CLOCK:
                self.clock.wall += self.random.uniform(-TEN_YEARS, TEN_YEARS)
            case Trouble.DRAIN | Trouble.STOP:
                self._order(trouble.name.lower())
            case Trouble.REPEAT:
                self._repeat()
            case _:
                self._fuse.put_off(trouble)

    def _is_conductor(self, process: ModelProcess) -> bool:
        return self.conductor is not None and process is self.conductor.process and len(self._stack) < MAX_DEPTH

    def _kill(self, process: ModelProcess) -> None:
        for worker in self.workers.values():
            if worker.process is process:
                worker.kill(command_too=self.random.random() < 0.7)
        process.kill()

    def _kill_some_worker(self) -> None:
        if alive := [worker for worker in self.workers.values() if worker.alive]:
            worker = self.random.choice(alive)
            self.say(worker, "is killed")
            worker.kill(command_too=self.random.random() < 0.7)

    def _cut_power(self) -> None:
        self.disk.power_cut()
        for worker in self.workers.values():
            worker.kill(command_too=True)
        self.accounts.power_cut(durable_results=True)
        self.clock.advance(self.random.choice((1.0, 1000.0)))
        self.clock.reboot(f"boot-{self.random.randrange(1 << 32)}")
        self._disk_well_at = self.clock.mono
        self._operator = self.disk.process("operator")

    def _pause(self) -> None:
        """The conductor stands still, and nobody else can take the track meanwhile."""
        paused = self.conductor
        intruder = self._new_conductor()
        self._act(intruder)
        if paused is not None and self._holds_track(paused):
            demand(intruder.epoch == 0 and not intruder.alive, "two conductors hold the track")
        intruder.process.kill()
        self.others_go_on(self.random.choice((1.0, 60.0, 3600.0)))

    def _holds_track(self, conductor: SimulatedConductor) -> bool:
        lock = self.disk.find(f"{BUS}/{layout.LOCK}")
        return isinstance(lock, File) and any(one in lock.locks for one in conductor.process.open_files.values())

    def _usurp(self) -> None:
        """The conductor stands still; somebody deletes its lock file, so that another one starts."""
        old = self.conductor
        assert old is not None
        root = self._operator.open_directory(BUS)
        try:
            self._operator.discard(layout.LOCK, root)
        except OSError:
            return
        finally:
            self._operator.close(root)
        self.conductor = None
        self._excused.add(old)
        self._usurped.add(old.process)
        for _ in range(self.random.choice((0, 3, 30, 300))):
            self._turn()
        self.say(old, "wakes up")

    def _trouble_the_disk(self) -> None:
        self._disk_well_at = self.clock.mono + self.random.choice((0.5, 3.0, 60.0))
        self._excused.update(self._conductors)

    def _heal(self) -> None:
        if self._disk_well_at is not None and self.clock.mono >= self._disk_well_at:
            self._disk_well_at = None
            faults = self.disk.faults
            faults.room, faults.no_names, faults.read_only, faults.failing_syncs = None, False, False, 0
            self.say(None, "the disk is well again")

    def _order(self, verb: str) -> None:
        epoch = self.conductor.epoch if self.conductor is not None and self.conductor.epoch else None
        try:
            control.drop(Path(BUS), verb, who="sim", epoch=epoch, fs=self._operator)
        except (OSError, BusError) as error:
            self.say(None, f"the order could not be given: {error}")

    def _repeat(self) -> None:
        if self._copies and isinstance(self.disk.find(f"{BUS}/{layout.INBOX}"), object):
            name = self.random.choice(sorted(self._copies))
            self.disk.write(f"{BUS}/{layout.INBOX}/{name}", self._copies[name])

    # --- what actors tell -------------------------------------------------------------------------------------------

    def say(self, who: Actor | None, what: str) -> None:
        """Tell the story on."""
        line = f"{self.clock.mono:10.1f}  {who.name if who else '-':24}  {what}"
        self.story.append(line)
        if self.tell is not None:
            self.tell(line)

    def process(self, name: str) -> ModelProcess:
        """Start a process that may be interrupted."""
        made = self.disk.process(name)
        made.before = self._before_call
        return made

    def hire(self, spec: WorkerSpec, *, delay: float) -> SimulatedWorker:
        """Make a worker."""
        worker = SimulatedWorker(self, spec, self.process(spec.attempt), 1000 + 2 * len(self.workers), delay)
        self.workers[spec.attempt] = worker
        return worker

    def launched(self, spec: WorkerSpec) -> None:
        """Check that the intent is on disk before anything of it is done."""
        wanted = f'"attempt":"{spec.attempt}"'.encode()
        segments = [f"{BUS}/{layout.SEGMENTS}/{name}" for name in self.disk.names(f"{BUS}/{layout.SEGMENTS}")]
        files = [f"{BUS}/{layout.JOURNAL}", *segments]
        read = self.disk.durable if self.durability == "power" else self.disk.read
        demand(
            any(wanted in read(path) for path in files), f"{spec.attempt} was launched before its dispatch was on disk"
        )

    def command_starts(self, worker: SimulatedWorker) -> None:
        """Check that it may start."""
        self.say(worker, "starts its command")
        alive = [other.spec.task for other in self.workers.values() if other.command_lives]
        self.accounts.command_starts(worker.spec.task, worker.spec.attempt, alive)

    def another_round(self) -> bool:
        """Use up one of the rounds."""
        self._rounds -= 1
        return self._rounds >= 0

    def recovered(self, conductor: SimulatedConductor) -> None:
        """Check everything."""
        self.recoveries += 1
        self.say(conductor, f"has recovered, epoch {conductor.epoch}")
        if conductor is self.conductor:  # of one that was replaced meanwhile nothing is known but its name
            self._check(conductor.replayed)

    def recorded(self, conductor: SimulatedConductor, records: list[Record]) -> None:
        """Remember what was acknowledged, unless another conductor has taken over since."""
        for record in records:
            self.say(conductor, f"{record.seq} {record.type} {record.attempt or record.task or ''}")
        if conductor is self.conductor:
            self.accounts.recorded(records)

    def refused(self, conductor: SimulatedConductor, error: HeldByOther) -> None:
        """There must have been one that held the track; if it still does, it goes on with the run."""
        self.say(conductor, "is refused")
        demand(conductor not in self._alone, f"the track is held by nobody, and yet: {error.message}")
        if conductor is self.conductor:
            self.conductor = next((one for one in self._conductors if one.alive and self._holds_track(one)), None)

    def gave_up(self, conductor: SimulatedConductor, error: BusError) -> None:
        """An error needs a reason, and damage has none."""
        self.say(conductor, f"gives up: {error.message}")
        if conductor is not self.conductor:  # it was replaced: whatever it saw was not meant for it
            return
        if isinstance(error, BusCorrupt) or conductor not in self._excused:
            raise LedgerBroken(f"{conductor.name} gives up: {error.message}") from error
        conductor.wake_at = self.clock.mono

    # --- checks -----------------------------------------------------------------------------------------------------

    def _check(self, live: Replayed) -> None:
        self.records, digest = checks.read_journal(self.disk)
        demand(live.digest() == digest, "a replay of the whole journal is not the live state")
        folders = [layout.INBOX, layout.QUARANTINE] if self._late else [layout.INBOX]
        lying = {name for folder in folders for name in self.disk.names(f"{BUS}/{folder}")}
        self.accounts.check(self.records, lying, ended=live.machine.ended)
        if self._disk_well_at is None:  # what could not be written is projected later
            checks.check_events(self.disk, self.records)
        checks.check_quarantine(self.disk, cut=self.disk.boots > 1)

    def _finish(self) -> None:
        """Start and end once more with nothing going wrong, and look at what is there."""
        self._fuse.waiting.clear()
        self._disk_well_at = self.clock.mono
        self._heal()
        self.disk.late = 0.0
        self._over = False
        self._rounds = 0
        while self._turn():
            pass
        checks.check_swept(self.disk, self.records)


def _is_handed_in(name: str) -> bool:
    """Only what is handed in may be seen late: all else is opened by its name, or has one writer."""
    return layout.parse_message_name(name) is not None or layout.parse_control_name(name) is not None
