"""A run of the core with workers that do anything and a conductor that may die anywhere; the same for the same seed.

The conductor here is the machine and its journal, kept as bytes. Workers, inbox, timers and clock are simulated. At
any batch the conductor may crash: a prefix of the batch is on disk, its instructions were carried out in part or not at
all; a new one replays the journal, resumes, and finds out what became of each attempt, as the real one does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from bus.wire import AttemptId, ExitRecord, Record, TaskId, decode_record, encode_record
from conductor.core import codec
from conductor.core.events import (
    AttemptAdopted,
    ControlReceived,
    Event,
    Fact,
    LaunchFailed,
    ProgressReceived,
    ReportReceived,
    ResultReceived,
    RunResumed,
    RunStarted,
    TimerFired,
    WorkerGone,
)
from conductor.core.instructions import (
    CancelTimer,
    Instruction,
    Journal,
    LaunchWorker,
    StartTimer,
    TerminateWorker,
)
from conductor.core.journal_time import JournalTime
from conductor.core.machine import Machine
from conductor.core.task import Plan, RunOptions
from conductor.testing.fakes import FakeClock
from conductor.testing.ledger import Ledger, LedgerBroken
from conductor.testing.plans import ending

MAX_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Chances:
    """How likely things go wrong, each from 0 to 1."""

    failure: float = 0.15
    """An attempt ends with a failure."""
    vanish: float = 0.08
    """A worker dies without a result."""
    no_launch: float = 0.04
    """The launcher cannot make a worker."""
    repeat: float = 0.1
    """An old result turns up again."""
    report: float = 0.1
    """A worker says something in between."""
    control: float = 0.01
    """An operator drains or stops the run."""
    crash: float = 0.04
    """The conductor dies while it writes a batch."""
    reboot: float = 0.2
    """A crash takes the whole machine with it."""


@dataclass(slots=True)
class _Worker:
    task: TaskId
    attempt: AttemptId
    alive: bool = True
    exit: ExitRecord | None = None
    """`exit.json`."""
    stopping: bool = False


class CoreSimulation:
    """One plan, one seed."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        options: RunOptions | None = None,
        *,
        chances: Chances | None = None,
        rounds: int = 2,
    ) -> None:
        """Prepare a run. After a round that was stopped or failed another one is begun, up to `rounds`."""
        self.plan = plan
        self.options = options or RunOptions(seed=seed)
        self.chances = chances or Chances()
        self.random = Random(seed)
        self.clock = FakeClock()
        self.machine = Machine(check=True)
        self.time = JournalTime()
        self.journal: list[bytes] = []
        """The lines on disk."""
        self.crashes = 0
        self._ledger = Ledger(plan, self.options)
        self._workers: dict[AttemptId, _Worker] = {}
        self._inbox: list[ResultReceived] = []
        self._seen: list[ResultReceived] = []
        self._found: list[Fact] = []
        """Facts that the conductor found itself and handles next."""
        self._timers: dict[str, float] = {}
        self._rounds_left = rounds

    def run(self) -> CoreSimulation:
        """Run to the end of the last round and check everything. Raises LedgerBroken, InvariantBroken."""
        for _ in range(MAX_STEPS):
            if self.step() is None:
                self.check()
                return self
        raise LedgerBroken("the run does not come to an end")

    def step(self) -> list[Instruction] | None:
        """Let one thing happen; return what the machine said to it. None once all rounds are over."""
        self.clock.advance(self.random.choice([0.0, 0.1, 1.0]))
        fact = self._next_fact()
        return None if fact is None else self._handle(fact)

    def records(self) -> list[Record]:
        """Return the journal."""
        return [decode_record(line) for line in self.journal]

    def replayed(self) -> Machine:
        """Return a machine that replayed the journal."""
        return self.follow(Machine(check=True), JournalTime(), self.records())

    def follow(self, machine: Machine, time: JournalTime, records: Iterable[Record]) -> Machine:
        """Let a machine and its clock take in records that follow what they know; return the machine."""
        for record in records:
            event = codec.decode(record, lambda sha: self.plan)
            if event is None:
                raise LedgerBroken(f"the machine does not know {record.type}")
            machine.replay(event, time.at(record.t), wall=record.t.wall)
        return machine

    def check(self) -> None:
        """Check the ledger, and that a replay equals the live state. Raises LedgerBroken."""
        self._ledger.check(self.records(), ended=self.machine.ended)
        if self.replayed().digest() != self.machine.digest():
            raise LedgerBroken("a replay of the journal is not the live state")

    # --- what can happen --------------------------------------------------------------------------------------------

    def _next_fact(self) -> Fact | None:
        if self.machine.state.run is None or (self.machine.ended and self._rounds_left > 0):
            return self._begin()
        if self.machine.ended:
            return None
        if self._found:
            return self._found.pop(0)
        draw = self.random.random()
        if draw < self.chances.control:
            return ControlReceived(self.random.choice(["drain", "stop"]), "operator:sim")
        if self._seen and self.random.random() < self.chances.repeat:
            return self.random.choice(self._seen)
        return self.random.choice([self._from_worker, self._from_inbox, self._from_timer])() or self._progress()

    def _begin(self) -> Fact | None:
        if self.machine.ended and self.machine.state.run is not None and self.machine.state.run.end == "done":
            return None
        self._rounds_left -= 1
        return RunStarted(f"{self._rounds_left:016x}", "0" * 64, "/project", self.options, self.plan)

    def _progress(self) -> Fact:
        """Make sure that something happens: whatever is possible at all, in a fixed order."""
        fact = self._from_inbox() or self._from_worker()
        if fact is None and self._timers:
            soonest = min(self._timers.values())
            self.clock.advance(max(0.0, soonest - self.clock.mono))
            self.clock.mono = max(self.clock.mono, soonest)  # the sum of two fractions may be a hair short of it
            fact = self._from_timer()
        if fact is None:
            raise LedgerBroken("nothing can happen any more, and the run has not ended")
        return fact

    def _from_inbox(self) -> Fact | None:
        return self.random.choice(self._inbox) if self._inbox else None

    def _from_timer(self) -> Fact | None:
        due = [key for key, deadline in self._timers.items() if deadline <= self.clock.mono]
        if not due:
            return None
        del self._timers[due[0]]
        return TimerFired(due[0])

    def _from_worker(self) -> Fact | None:
        """Let a worker do something; a dead one without a result is found out."""
        open = [self._workers[one] for one in self._open_attempts() if one in self._workers]
        if not open:
            return None
        worker = self.random.choice(open)
        if worker.alive and self.random.random() < self.chances.report:
            return self._saying(worker)
        if worker.alive:
            self._end(worker)
        if worker.exit is not None:
            return self._from_inbox()
        return WorkerGone(worker.task, worker.attempt, started=self.random.random() < 0.8, detail="vanished")

    def _saying(self, worker: _Worker) -> Fact:
        if self.random.random() < 0.5:
            return ProgressReceived(worker.task, worker.attempt, 50.0, "half")
        return ReportReceived(worker.task, worker.attempt, {"verb": "complete", "commit": "abc", "files": ["x"]})

    def _end(self, worker: _Worker) -> None:
        worker.alive = False
        if self.random.random() < self.chances.vanish:
            return
        name = self.random.choice(["fails", "fails", "short"]) if self.random.random() < self.chances.failure else "ok"
        if worker.stopping and self.random.random() < 0.8:
            name = self.random.choice(["stopped", "revoked"])
        worker.exit = ending(name)
        self._ledger.finished(worker.task, worker.attempt, success=name == "ok")
        self._inbox.append(ResultReceived(worker.task, worker.attempt, worker.exit))

    def _open_attempts(self) -> list[AttemptId]:
        tasks = self.machine.state.tasks
        return [attempt for id in self.machine.state.running if (attempt := tasks[id].attempt) is not None]

    # --- the conductor ----------------------------------------------------------------------------------------------

    def _handle(self, fact: Fact) -> list[Instruction]:
        stamp = self.clock.stamp()
        instructions = self.machine.handle(fact, self.time.at(stamp), wall=stamp.wall)
        events: list[Event] = [fact, *(one.decision for one in instructions if isinstance(one, Journal))]
        effects = [one for one in instructions if not isinstance(one, Journal)]
        batch = [self._line(event, len(self.journal) + number) for number, event in enumerate(events, 1)]
        crashes = self.random.random() < self.chances.crash
        kept = self.random.randint(0, len(batch)) if crashes else len(batch)
        self.journal += batch[:kept]
        if kept > 0 and isinstance(fact, ResultReceived) and fact in self._inbox:
            self._inbox.remove(fact)
            self._seen.append(fact)
        if crashes:
            effects = effects[: self.random.randint(0, len(effects))] if kept == len(batch) else []
        for effect in effects:
            self._carry_out(effect)
        if crashes:
            self._restart()
        return instructions

    def _line(self, event: Event, seq: int) -> bytes:
        type, task, attempt, payload = codec.encode(event)
        stamp = self.clock.stamp()
        return encode_record(Record(seq, self.crashes, stamp, f"{seq:032x}", type, "sim", "", task, attempt, payload))

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case LaunchWorker(task, attempt):
                if self.random.random() < self.chances.no_launch:
                    self._found.append(LaunchFailed(task, attempt, "no room"))
                else:
                    self._ledger.started(task, [one.task for one in self._workers.values() if one.alive])
                    self._workers[attempt] = _Worker(task, attempt)
            case TerminateWorker(_, attempt):
                if worker := self._workers.get(attempt):
                    worker.stopping = True
            case StartTimer(key, seconds):
                self._timers[key] = self.clock.mono + seconds
            case CancelTimer(key):
                self._timers.pop(key, None)
            case _:
                pass

    def _restart(self) -> None:
        """Die and come back: nothing is known but the journal and what workers left."""
        self.crashes += 1
        self._timers.clear()
        self._found.clear()
        if self.random.random() < self.chances.reboot:
            self.clock.reboot(f"boot-{self.crashes}")
            for worker in self._workers.values():
                worker.alive = False
        self.time = JournalTime()
        self.machine = self.follow(Machine(check=True), self.time, self.records())
        run = self.machine.state.run
        if run is None:
            self._rounds_left += 1
        elif not self.machine.ended:
            self._found.append(RunResumed(run.id, self.options, len(self.journal)))
            self._found += [self._reconciled(task, attempt) for task, attempt in self._running()]

    def _running(self) -> list[tuple[TaskId, AttemptId]]:
        """Return what the machine will want to have found again, as it will say after RUN_RESUMED."""
        machine = self.replayed()
        run = machine.state.run
        assert run is not None
        machine.replay(RunResumed(run.id, self.options, 0), self.time.now, self.clock.wall)
        return machine.state.reconciling_attempts()

    def _reconciled(self, task: TaskId, attempt: AttemptId) -> Fact:
        worker = self._workers.get(attempt)
        if worker is None:
            return LaunchFailed(task, attempt, "the conductor died before it was launched", conductor_died=True)
        if worker.exit is not None:
            return ResultReceived(task, attempt, worker.exit)
        if worker.alive:
            return AttemptAdopted(task, attempt)
        return WorkerGone(task, attempt, started=True, detail="dead")
