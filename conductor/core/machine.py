"""The machine: facts in, decisions and instructions out. The one owner of the state."""

from __future__ import annotations

from conductor.core import invariants
from conductor.core.agenda import Agenda
from conductor.core.apply import RETRY_KEY, apply
from conductor.core.changes import Moment, NobodyListens
from conductor.core.decide import next_decision
from conductor.core.events import (
    AttemptAdopted,
    AttemptEnded,
    ControlReceived,
    Decision,
    Event,
    Fact,
    RetryScheduled,
    RunEnded,
    RunResumed,
    RunStarted,
    StopDecided,
    WorkerDispatched,
)
from conductor.core.instructions import (
    CancelTimer,
    CloseAttempt,
    Instruction,
    Journal,
    LaunchWorker,
    StartTimer,
    TerminateWorker,
)
from conductor.core.state import State, Task, digest
from conductor.core.task import Backoff, Running, RunOptions
from conductor.core.transitions import Phase

_NOBODY = NobodyListens()


class Machine:
    """Decides everything about a run.

    `now` is journal time (`JournalTime`), `wall` the wall clock of the same stamp. A decision is journaled with the
    stamp of the fact that caused it: a replay then sees the same times.
    """

    def __init__(self, state: State | None = None, *, check: bool = False) -> None:
        """Begin before any run, or with a state that is taken over. With `check`, the invariants are checked after
        every `handle`."""
        self.state = state or State()
        self._agenda: Agenda | None = None
        self._check = check

    @property
    def ended(self) -> bool:
        """Whether the newest round is over."""
        return self.state.phase is Phase.ENDED

    def digest(self) -> str:
        """Return a hash of the state; equal for the live machine and for a replay of its journal."""
        return digest(self.state)

    def replay(self, event: Event, now: float, wall: float = 0.0) -> None:
        """Apply a fact or a decision of the journal; decide nothing. Raises IllegalTransition."""
        apply(self.state, event, Moment(now, wall, _NOBODY))
        self._agenda = None

    def handle(self, fact: Fact, now: float, wall: float = 0.0, *, decides: bool = True) -> list[Instruction]:
        """Apply a fact, take every decision that is due, and return what is to be done, in order.

        Without `decides` another fact follows before any decision: only what a conductor that died had decided is done
        again. Raises IllegalTransition where the fact is impossible; then nothing has changed.
        """
        if self._agenda is None or isinstance(fact, (RunStarted, RunResumed)) or _starts_over(fact):
            apply(self.state, fact, Moment(now, wall, _NOBODY))
            self._agenda = Agenda(self.state, self.state.run.options if self.state.run else RunOptions())
        else:
            apply(self.state, fact, Moment(now, wall, self._agenda))
        instructions = self._again(fact, now)
        while decides and (decision := next_decision(self.state, self._agenda)) is not None:
            ahead = self._timers_to_cancel(decision)
            apply(self.state, decision, Moment(now, wall, self._agenda))
            instructions.append(Journal(decision))
            instructions += ahead
            instructions += _consequences(decision)
        if self._check:
            invariants.check(self.state)
        return instructions

    def _again(self, fact: Fact, now: float) -> list[Instruction]:
        """Instruct once more what a conductor that died, or a second order to stop, may have left undone."""
        state = self.state
        match fact:
            case RunResumed():
                tasks = [state.tasks[id] for id in state.running]
                return [*_terminate(tasks), *(_rearmed(task, now) for task in _in_backoff(state))]
            case AttemptAdopted(id, attempt) if (task := state.tasks.get(id)) and task.attempt == attempt:
                return _terminate([task])
            case ControlReceived(verb="stop"):
                return _terminate([state.tasks[id] for id in state.running])
            case _:
                return []

    def _timers_to_cancel(self, decision: Decision) -> list[Instruction]:
        if isinstance(decision, RunEnded):
            return [CancelTimer(RETRY_KEY + task.id) for task in _in_backoff(self.state)]
        task = self.state.tasks[decision.task]
        return [CancelTimer(RETRY_KEY + task.id)] if isinstance(task.status, Backoff) else []


def _starts_over(fact: Fact) -> bool:
    return isinstance(fact, ControlReceived) and fact.verb == "reset"


def _in_backoff(state: State) -> list[Task]:
    return [task for task in state.order if isinstance(task.status, Backoff)]


def _rearmed(task: Task, now: float) -> StartTimer:
    """Return the timer of a back-off with what is left of it."""
    status = task.status
    assert isinstance(status, Backoff)
    return StartTimer(RETRY_KEY + task.id, max(0.0, status.since + status.delay - now))


def _terminate(tasks: list[Task]) -> list[Instruction]:
    return [
        TerminateWorker(task.id, task.status.attempt, task.status.stopping)
        for task in tasks
        if isinstance(task.status, Running) and task.status.stopping
    ]


def _consequences(decision: Decision) -> list[Instruction]:
    match decision:
        case WorkerDispatched(task, attempt, number, nonce):
            return [LaunchWorker(task, attempt, number, nonce)]
        case StopDecided(task, attempt, reason):
            return [TerminateWorker(task, attempt, reason)]
        case AttemptEnded(task, attempt):
            return [CloseAttempt(task, attempt)]
        case RetryScheduled(task, _, delay):
            return [StartTimer(RETRY_KEY + task, delay)]
        case _:
            return []
