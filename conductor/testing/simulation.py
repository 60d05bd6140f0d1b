"""The whole system under one seed: real host, hands, driver and core, on a disk and in a time of our own.

Everything that makes a system call may be interrupted at it: others go on meanwhile, processes are killed, the power
is cut, the disk fills up. Whoever stands still in the middle of a call lies below the others on the stack, so any two
parties interleave at any call, and the same seed tells the same story.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

from bus import layout
from bus.wire import AttemptId, Message, Record, WorkerSpec
from conductor.core.task import Plan
from conductor.plan import frozen
from conductor.testing.disk import Killed, ModelDisk, ModelProcess
from conductor.testing.disk.inodes import File
from conductor.testing.fakes import FakeClock
from conductor.testing.ledger import Ledger, LedgerBroken, demand
from conductor.testing.plans import edited, random_options, random_plan, side_by_side, supervised_plan
from conductor.testing.simulated import chance, checks
from conductor.testing.simulated.accounts import Accounts
from conductor.testing.simulated.command import SimulatedCommand
from conductor.testing.simulated.conductor import BUS, SimulatedConductor
from conductor.testing.simulated.errands import ERRANDS
from conductor.testing.simulated.judge import Judge
from conductor.testing.simulated.operator import SimulatedOperator
from conductor.testing.simulated.repairs import Repairs
from conductor.testing.simulated.strikes import Strikes
from conductor.testing.simulated.traffic import Traffic
from conductor.testing.simulated.troubles import Errand, Trouble, Troubles, rarely
from conductor.testing.simulated.worker import SimulatedWorker
from conductor.testing.simulated.world import Actor

MAX_TURNS = 20_000
PATIENCE = 4 * 3600.0
"""Seconds after which something must have been recorded, whoever stood still meanwhile."""
STANDSTILL = 15.0
"""Seconds that somebody stands still in the midst of a call, at most, unless that is the trouble."""
MAX_DEPTH = 4
"""Actors that may stand still in the middle of a call, one below the other."""


class Escaped(BaseException):
    """An error that somebody let out. No error itself: whoever stands still below, in a call, must not take it for the
    failure of that call."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Simulation:
    """One seed. Keeps `conductor.testing.simulated.world.World`."""

    def __init__(
        self,
        seed: int,
        *,
        durability: str | None = None,
        troubles: Troubles | None = None,
        plan: Plan | None = None,
        rounds: int = 2,
    ) -> None:
        """Prepare a run: the plan, its options, and what goes wrong follow from the seed, unless they are given."""
        self.seed = seed
        self.random = random = Random(seed)
        self.odd = Random(f"odd {seed}")
        self.troubles = troubles or Troubles()
        self.durability = durability or random.choice(("power", "power", "process"))
        self._setting(plan)
        self.clock = FakeClock()
        self.disk = ModelDisk(random)
        self.late = self.disk.late = random.choice(self.troubles.late)
        self.disk.is_late = _is_handed_in
        self.disk.passes = self.clock.advance
        self.disk.faults.no_links = self.odd.random() < self.troubles.no_links
        self.tiny = self.odd.random() < self.troubles.tiny
        """Whether each pass keeps a snapshot."""
        self.accounts = Accounts(Ledger(self.plan, self.options))
        self.set_plan(self.plan)
        self.traffic = Traffic(self._is_taken)
        self.moment = 0
        self.workers: dict[AttemptId, SimulatedWorker] = {}
        self.conductor: SimulatedConductor | None = None
        """The one that should hold the track; None where the next turn starts one."""
        self.story: list[str] = []
        self.tell: Callable[[str], None] | None = None
        """Told each line of the story as it happens."""
        self.records: list[Record] = []
        """The journal, as of the last recovery."""
        self.recoveries = 0
        """How often a start has read the journal."""
        rare = rarely(self.odd, self.troubles)
        self._errands = [kind for kind in rare if isinstance(kind, Errand)]
        self._rounds = rounds + len(self._errands)
        self._interleaving = random.choice(self.troubles.interleaving)
        self._switch_in = random.randint(1, 2 * self._interleaving)
        self._cast: list[Actor] = []
        """Who may be given the floor: all that live, and some that died since."""
        self._stack: list[Actor] = []
        self._started = 0
        self.conductors: list[SimulatedConductor] = []
        """All that live."""
        self.alone: set[SimulatedConductor] = set()
        """Those beside which no other lived at their start."""
        self._still_until = math.inf
        """When whoever stands still in the midst of a call goes on at the latest."""
        self._over = False
        self._failed = False
        """Whether an error is on its way out: nobody goes on in what cleans up behind it."""
        self._patient_until = self.clock.mono + PATIENCE
        self.repairs = Repairs(self)
        self._broken: str | None = None
        """What does not hold, and was said where the conductor catches it."""
        self.judge = Judge(self)
        self.disk.process("shell").mkdir("/track")
        self.disk.root.sync()
        self.operator = SimulatedOperator(self, self.odd.choice(self.troubles.whims))
        self.strikes = Strikes(self, [kind for kind in rare if isinstance(kind, Trouble)])

    def _setting(self, plan: Plan | None) -> None:
        """Draw what is to be done, and by which rules."""
        random, odd = self.random, self.odd
        supervised, crowded = odd.random() < self.troubles.supervised, odd.random() < self.troubles.crowded
        self.talkative = 1.0 if crowded else odd.choice(self.troubles.talkative)
        self.plan = plan or random_plan(random, 5 if crowded else random.randint(1, 5))
        if supervised and plan is None:
            self.plan = supervised_plan(odd, self.plan)
        fixed = {"seed": self.seed, "durability": self.durability}
        self.options = random_options(random, odd, supervised=supervised, **fixed)
        if crowded:
            self.plan, self.options = side_by_side(self.plan), replace(self.options, max_workers=5)

    def run(self) -> Simulation:
        """Play it to its end. Raises LedgerBroken, InvariantBroken, or whatever else the program let out."""
        with chance.all_from(self.random, self.clock), chance.small_limits(self.random, tiny=self.tiny):
            try:
                for _ in range(MAX_TURNS):
                    if not self.turn():
                        self._finish()
                        return self
            except Escaped as escaped:
                raise escaped.error from escaped.error.__cause__
        raise LedgerBroken("the run does not come to an end")

    # --- who goes on ------------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Let somebody go on, or time pass; False once all is over."""
        self.strikes.heal()
        demand(self._broken is None, self._broken or "")
        demand(self.clock.mono < self._patient_until, "the run does not come to an end: nothing happens any more")
        if self.conductor is None and (self._errands or self.repairs.damage or not self._over):
            self.conductor = self.new_conductor(self._next_errand())
            self.conductor.wake_at += self.random.choice((0.0, 1.0, 60.0))
        free: list[Actor] = [actor for actor in self._cast if not actor.process.dead and actor not in self._stack]
        if not free:
            return False
        if self.operator not in self._stack:
            free.append(self.operator)
        now = self.clock.mono
        if self.accounts.acknowledged and self.repairs.damage is None:
            demand(self.disk.find(f"{BUS}/{layout.JOURNAL}") is not None, "whoever looks now finds no queue.jsonl")
        if self.random.random() < 0.2:
            self.strikes.remember_messages()
        due = [actor for actor in free if actor.wake_at <= now]
        if due:
            self.act(self.random.choice(due))
        else:
            self.clock.advance(min(actor.wake_at for actor in free) - now)
        return True

    def _next_errand(self) -> Errand | None:
        """Tell what the next start is for, where it is not to run the track."""
        errands = self._errands
        if self.repairs.damage is not None:
            return Errand.REPAIR if self.odd.random() < 0.6 else None
        if not errands or not self._started or not (self._over or self.odd.random() < 0.6):
            return None
        if errands[0] is Errand.PLAN:
            self._over = False
            errands.pop(0)
            self.edit_plan()
            return self._next_errand()
        return errands.pop(0)

    def new_conductor(self, errand: Errand | None = None) -> SimulatedConductor:
        """Start a conductor, or what an operator starts in its place."""
        self.conductors = [one for one in self.conductors if one.alive]
        if not self.conductors and self.repairs.events_follow:
            checks.check_nothing_early(self.disk)
        self._started += 1
        made = (ERRANDS[errand] if errand else SimulatedConductor)(self, self._started)
        self.alone = set() if self.conductors else {made}
        if not self.strikes.disk_is_well:
            self.strikes.excuse(made)
        self.conductors.append(made)
        self._enters(made)
        return made

    def act(self, actor: Actor) -> None:
        """Give somebody the floor."""
        self.strikes.foreign.begins(actor)
        self.moment += 1
        if isinstance(actor, SimulatedConductor):
            actor.began = self.moment
        self._stack.append(actor)
        try:
            actor.step()
        except Killed:
            self.say(actor, "is dead")
        except Exception as error:
            self._failed = True
            raise Escaped(error) from error
        finally:
            self._stack.pop()
        if self.conductor is not None and not self.conductor.alive:
            self._gone(self.conductor)
            self.conductor = None

    def _gone(self, conductor: SimulatedConductor) -> None:
        """What was to be done is done, or the next one is to do it."""
        errand = conductor.errand
        if errand is None:
            self._over = conductor.done
        elif errand not in (Errand.STOP, Errand.DRAIN):
            self._over = False
        if errand is Errand.REPAIR and self.repairs.damage is not None:
            return
        if errand is not None and not conductor.done and self.odd.random() < 0.7:
            self._errands.insert(0, errand)

    def set_plan(self, plan: Plan) -> None:
        """Put a plan on disk, as its author does."""
        self.plan, body = plan, frozen.dump(plan)
        self.source_sha = hashlib.sha256(body).hexdigest()
        self.accounts.plans[self.source_sha] = plan

    def edit_plan(self) -> None:
        """Let its author change the plan."""
        self.set_plan(edited(self.odd, self.plan))
        self.say(None, f"the plan is edited: {', '.join(task.id for task in self.plan.tasks)}")

    @property
    def is_over(self) -> bool:
        """Whether nobody will take care of the workers that are left: no journal tells of them."""
        return self.conductor is None and self._over and not self._errands and self.repairs.damage is None

    @property
    def may_nest(self) -> bool:
        """Whether somebody else may go on in the middle of a call."""
        return len(self._stack) < MAX_DEPTH

    def holds_track(self, conductor: SimulatedConductor) -> bool:
        """Tell whether a conductor has the lock that another one would want."""
        lock = self.disk.find(f"{BUS}/{layout.LOCK}")
        return isinstance(lock, File) and any(one in lock.locks for one in conductor.process.open_files.values())

    @property
    def on_stage(self) -> list[Actor]:
        """Who is in the midst of a step."""
        return list(self._stack)

    def idle_workers(self) -> list[SimulatedWorker]:
        """Living workers that do not stand still in the middle of a call."""
        return [worker for worker in self.workers.values() if worker.alive and worker not in self._stack]

    def others_go_on(self, seconds: float) -> None:
        """Let time pass in the middle of what somebody does."""
        until = self.clock.mono + seconds
        before, self._still_until = self._still_until, until
        while self.may_nest and self.clock.mono < until and self.turn():
            pass
        self._still_until = before
        self.clock.advance(max(0.0, until - self.clock.mono))
        self.strikes.heal()

    def _before_call(self, process: ModelProcess, call: str) -> None:
        if self._failed or not self.strikes.before_call(process, call):
            return
        self._switch_in -= 1
        if self._switch_in <= 0:
            self._switch_in = self.random.randint(1, 2 * self._interleaving)
            if self.may_nest:
                self._stand_still()

    def _stand_still(self) -> None:
        """Let others go on while somebody is in the midst of a call: a little, and not for hours, though each of them
        may stand still as well."""
        until = min(self._still_until, self.clock.mono + STANDSTILL)
        before, self._still_until = self._still_until, until
        for _ in range(self.random.choice((1, 1, 3, 8))):
            if self.clock.mono >= until or not self.turn():
                break
        self._still_until = before

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
        self._enters(worker)
        return worker

    def _enters(self, actor: Actor) -> None:
        self._cast = [one for one in self._cast if one.alive] + [actor]

    def launched(self, spec: WorkerSpec) -> None:
        """Check that the intent is on disk before anything of it is done."""
        wanted = f'"attempt":"{spec.attempt}"'.encode()
        lines = self._journal(durable=self.durability == "power")
        self.insist(wanted in lines, f"{spec.attempt} was launched before its dispatch was on disk")

    def insist(self, holds: bool, text: str) -> None:
        """Demand something where the conductor catches whatever is raised: it is raised again at the next turn."""
        if not holds:
            self._broken = text
        demand(holds, text)

    def _journal(self, *, durable: bool = False) -> bytes:
        """The lines that are on disk, or those that a power cut cannot take."""
        sealed = [f"{layout.SEGMENTS}/{name}" for name in self.disk.names(f"{BUS}/{layout.SEGMENTS}")]
        read = self.disk.durable if durable else self.disk.read
        return b"\n".join(
            read(f"{BUS}/{path}") for path in [layout.JOURNAL, *sealed] if self.disk.find(f"{BUS}/{path}")
        )

    def _is_taken(self, attempt: AttemptId, key: str) -> bool:
        marks = [f'"attempt":"{attempt}"'.encode(), b'"how":"taken"', f'"{key}"'.encode()]
        return any(all(mark in line for mark in marks) for line in self._journal().split(b"\n"))

    def command_starts(self, worker: SimulatedWorker) -> None:
        """Check that it may start."""
        self.say(worker, "starts its command")
        alive = [other.spec.task for other in self.workers.values() if other.command_lives]
        self.accounts.command_starts(worker.spec.task, worker.spec.attempt, alive)

    def start_command(self, worker: SimulatedWorker) -> SimulatedCommand:
        """Make its process."""
        command = SimulatedCommand(self, worker)
        self._enters(command)
        return command

    def handed_in(self, who: Actor, message: Message) -> None:
        """Owe it from now on, unless the inbox was taken away in that very moment."""
        if not self.strikes.foreign.surprises(who):
            self.accounts.handed_in(message)

    def answered(self, who: Actor, question: str, answer: str) -> None:
        """Check that somebody gave that answer."""
        self.say(who, f"is answered {answer!r}")

    def ends_in_peace(self, who: Actor, owner: str) -> None:
        """Check that it has left nothing, unless the disk kept it from cleaning up."""
        if not self.strikes.disk_was_ill:
            checks.check_left(self.disk, owner)

    def another_round(self) -> bool:
        """Use up one of the rounds."""
        self._rounds -= 1
        return self._rounds >= 0

    def happens(self) -> None:
        """Something is recorded, or begins anew: what comes next may take its time."""
        self._patient_until = self.clock.mono + PATIENCE

    def _finish(self) -> None:
        """Start and end once more with nothing going wrong, and look at what is there."""
        self.strikes.over()
        self._errands.clear()
        self._over = False
        self._rounds = 0
        while self.turn():
            pass
        checks.check_swept(self.disk, self.records)


def _is_handed_in(name: str) -> bool:
    """Only what is handed in may be seen late: all else is opened by its name, or has one writer."""
    return layout.parse_message_name(name) is not None or layout.parse_control_name(name) is not None
