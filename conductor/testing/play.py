"""A machine played by hand: one fact at a time, with the journal that a driver would write."""

from __future__ import annotations

from typing import Any

from bus.wire import AttemptId, Record, Stamp, TaskId
from conductor.core import codec
from conductor.core.events import (
    ControlReceived,
    Decision,
    Event,
    Fact,
    ResultReceived,
    RunStarted,
    TimerFired,
    WorkerGone,
)
from conductor.core.instructions import CancelTimer, Instruction, Journal, LaunchWorker, StartTimer, TerminateWorker
from conductor.core.machine import Machine
from conductor.core.task import Group, Plan, RunOptions, TaskSpec
from conductor.core.view import RunView, TaskView, run_view
from conductor.core.wait_events import AttemptLife, GrantGone, GrantSeen, WaitBegan, WaitEnded
from conductor.testing.plans import ending, plan_of


class Play:
    """Plays facts to a machine, one second apart, and keeps the journal that a driver would write."""

    def __init__(self) -> None:
        self.machine = Machine(check=True)
        self.now = 100.0
        self.journal: list[tuple[float, Event]] = []
        self.told: list[Instruction] = []
        """The instructions of the last fact, without the journal's."""
        self.decided: list[Decision] = []
        """The decisions of the last fact."""
        self.plans: dict[str, Plan] = {}
        self.rounds = 0
        self._files = 0
        """Grants and waits that were made."""

    def start(
        self, plan: str | TaskSpec | Plan, *more: str | TaskSpec, groups: tuple[Group, ...] = (), **options: Any
    ) -> Play:
        """Begin a round with a plan (or its tasks) and options."""
        self.rounds += 1
        whole = plan if isinstance(plan, Plan) else plan_of(plan, *more, groups=groups)
        sha = f"{self.rounds:064x}"
        self.plans[sha] = whole
        return self.fact(RunStarted(f"{self.rounds:016x}", sha, "/p", RunOptions(**options), whole))

    def fact(self, fact: Fact, *, after: float = 1.0) -> Play:
        """Hand a fact to the machine."""
        self.now += after
        instructions = self.machine.handle(fact, self.now, wall=self.now + 1e9)
        self.journal.append((self.now, fact))
        self.decided = [one.decision for one in instructions if isinstance(one, Journal)]
        self.journal += [(self.now, decision) for decision in self.decided]
        self.told = [one for one in instructions if not isinstance(one, Journal)]
        return self

    def attempt(self, id: str) -> AttemptId:
        """Return the newest attempt of a task."""
        found = self.machine.state.tasks[TaskId(id)].attempt
        assert found is not None
        return found

    def result(self, id: str, name: str = "ok", **fields: Any) -> Play:
        """Let the running attempt of a task end."""
        return self.fact(ResultReceived(TaskId(id), self.attempt(id), ending(name, **fields)))

    def gone(self, id: str, *, started: bool = True) -> Play:
        """Let the worker of a task vanish."""
        return self.fact(WorkerGone(TaskId(id), self.attempt(id), started, "no result"))

    def timer(self, id: str) -> Play:
        """Let the back-off of a task end."""
        return self.fact(TimerFired(f"retry:{id}"), after=60)

    def control(self, verb: str, who: str = "signal:INT") -> Play:
        """Give an order that is about no task."""
        return self.fact(ControlReceived(verb, who))

    def order(self, verb: str, target: str | None = None, text: str | None = None, *, ahead: bool = False) -> Play:
        """Give an operator's order as it is recorded."""
        return self.fact(self.machine.resolve(ControlReceived(verb, "operator:me", target, text, ahead=ahead)))

    @property
    def refused(self) -> str | None:
        """Why the newest order means nothing; None where it does."""
        return next(event.refused for _, event in reversed(self.journal) if isinstance(event, ControlReceived))

    def holds(self, id: str, *keys: str, shared: bool = False) -> str:
        """Let the running attempt of a task hold a lock; return the grant's id."""
        self._files += 1
        grant = f"{self._files:08x}"
        self.fact(GrantSeen(TaskId(id), self.attempt(id), grant, keys, shared, self._files))
        return grant

    def lets_go(self, id: str, grant: str, how: str = "released") -> Play:
        """Let a grant end."""
        return self.fact(GrantGone(TaskId(id), self.attempt(id), grant, how))

    def waits(self, id: str, kind: str, *what: str, shared: bool = False, text: str = "") -> str:
        """Let the running attempt of a task wait, for a lock behind all who waited before; return the wait's id."""
        self._files += 1
        wait, ticket = f"{self._files:08x}", self._files if kind == "lock" else 0
        self.fact(WaitBegan(TaskId(id), self.attempt(id), wait, kind, what, shared, ticket, text))
        return wait

    def waits_no_more(self, id: str, wait: str) -> Play:
        """Let a wait end."""
        return self.fact(WaitEnded(TaskId(id), self.attempt(id), wait, "over"))

    def life(self, id: str, life: str, detail: str = "", **evidence: Any) -> Play:
        """Let the evidence say something else of the running attempt of a task."""
        return self.fact(AttemptLife(TaskId(id), self.attempt(id), life, detail, evidence))

    @property
    def launched(self) -> list[str]:
        """Tasks that the last fact launched."""
        return [one.task for one in self.told if isinstance(one, LaunchWorker)]

    @property
    def terminated(self) -> list[str]:
        """Tasks that the last fact stopped."""
        return [one.task for one in self.told if isinstance(one, TerminateWorker)]

    @property
    def timers(self) -> list[str]:
        """Keys of the timers that the last fact started; `-key` for cancelled ones."""
        return [
            one.key if isinstance(one, StartTimer) else f"-{one.key}"
            for one in self.told
            if isinstance(one, (StartTimer, CancelTimer))
        ]

    @property
    def words(self) -> list[str]:
        """Types of the decisions of the last fact, with their task."""
        return [" ".join(filter(None, (one.TYPE, getattr(one, "task", None)))) for one in self.decided]

    @property
    def running(self) -> list[str]:
        """Tasks that hold a slot."""
        return list(self.machine.state.running)

    @property
    def view(self) -> RunView:
        """The picture of now."""
        return run_view(self.machine.state)

    def seen(self, id: str) -> TaskView:
        """Return one task of the picture."""
        return next(one for one in self.view.tasks if one.id == id)

    @property
    def statuses(self) -> dict[str, str]:
        """Status words by task."""
        return {one.id: one.status for one in self.view.tasks}

    def records(self) -> list[Record]:
        """Return the journal as records."""
        found = []
        for seq, (now, event) in enumerate(self.journal, 1):
            type, task, attempt, payload = codec.encode(event)
            stamp = Stamp(now + 1e9, now, "boot")
            found.append(Record(seq, 1, stamp, f"{seq:032x}", type, "conductor", "", task, attempt, payload))
        return found

    def replayed(self, records: list[Record] | None = None) -> Machine:
        """Return a machine that replayed these records (all of them)."""
        machine = Machine(check=True)
        for record in self.records() if records is None else records:
            event = codec.decode(record, self.plans.__getitem__)
            assert event is not None
            machine.replay(event, record.t.mono, wall=record.t.wall)
        return machine
