"""The machine: facts in, decisions and instructions out. The one owner of the state."""

from __future__ import annotations

from conductor.core import invariants, orders, reload, timers
from conductor.core.agenda import Agenda
from conductor.core.apply import apply
from conductor.core.changes import Moment, NobodyListens
from conductor.core.decide import next_decision
from conductor.core.events import (
    AttemptAdopted,
    AttemptEnded,
    ControlReceived,
    Decision,
    Event,
    Fact,
    RunEnded,
    RunResumed,
    RunStarted,
    StopDecided,
    WorkerDispatched,
)
from conductor.core.instructions import (
    CancelTimer,
    CloseAttempt,
    DeliverText,
    Instruction,
    Journal,
    LaunchWorker,
    TerminateWorker,
)
from conductor.core.policy import UNKILLABLE
from conductor.core.state import State, Task, digest
from conductor.core.supervision import PlanReloaded, ProviderPaused, ProviderResumed, RunGaveUp
from conductor.core.task import Backoff, Plan, Running, RunOptions
from conductor.core.transitions import Phase
from conductor.core.wait_events import DeadlockResolved

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

    def resolve(self, order: ControlReceived) -> ControlReceived:
        """Return an order as it is to be recorded: with the tasks that it is about and changes, or with the reason why
        it means nothing now (`refused`)."""
        return orders.resolve(self.state, order)

    def refusal(self, order: ControlReceived) -> str | None:
        """Return why an order means nothing now, in a sentence; None where it does mean something."""
        return orders.refusal(self.state, order)

    def reload_refusal(self, plan: Plan) -> str | None:
        """Return why a validated plan cannot be taken in now, in a sentence; None where PlanReloaded may be handled."""
        return reload.refusal(self.state, plan)

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
        instructions = [*self._again(fact), *timers.started_by(self.state, fact, now)]
        while decides and (decision := next_decision(self.state, self._agenda)) is not None:
            ahead = self._timers_to_cancel(decision)
            apply(self.state, decision, Moment(now, wall, self._agenda))
            instructions.append(Journal(decision))
            instructions += ahead
            instructions += [*_consequences(decision), *timers.started_by(self.state, decision, now)]
        if self._check and decides:
            invariants.check(self.state)
        return instructions

    def _again(self, fact: Fact) -> list[Instruction]:
        """Instruct once more what a conductor that died, or a second order to stop, may have left undone."""
        state = self.state
        match fact:
            case RunResumed():
                tasks = [state.tasks[id] for id in state.running]
                return [*_terminate(tasks), *(letter for task in tasks for letter in _letters(task))]
            case AttemptAdopted(id, attempt) if (task := state.tasks.get(id)) and task.attempt == attempt:
                return _terminate([task])
            case ControlReceived(verb="stop"):
                return _terminate([state.tasks[id] for id in state.running])
            case ControlReceived(verb="steer" | "answer", refused=None):
                about = orders.about(state, fact)
                return [*_letters(state.tasks[about])[-1:]] if about is not None and about in state.running else []
            case ControlReceived(verb="retry", target=str(id), refused=None):
                return [CancelTimer(timers.RETRY_KEY + id)]
            case _:
                return []

    def _timers_to_cancel(self, decision: Decision) -> list[Instruction]:
        if isinstance(decision, RunEnded):
            return [CancelTimer(timers.RETRY_KEY + task.id) for task in _in_backoff(self.state)]
        if isinstance(decision, (ProviderPaused, ProviderResumed, RunGaveUp, DeadlockResolved)):
            return []
        task = self.state.tasks[decision.task]
        return [CancelTimer(timers.RETRY_KEY + task.id)] if isinstance(task.status, Backoff) else []


def _starts_over(fact: Fact) -> bool:
    """Tell whether a fact changes more than its tasks one by one: what is due is found anew then."""
    return isinstance(fact, PlanReloaded) or (isinstance(fact, ControlReceived) and fact.verb in ("reset", "retry"))


def _in_backoff(state: State) -> list[Task]:
    return [task for task in state.order if isinstance(task.status, Backoff)]


def _letters(task: Task) -> list[DeliverText]:
    assert task.attempt is not None
    return [DeliverText(task.attempt, name, text) for name, text in task.letters.items()]


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
        case AttemptEnded(task, attempt, error_class=error_class):  # what cannot be ended keeps what it holds
            return [] if error_class == UNKILLABLE else [CloseAttempt(task, attempt)]
        case _:
            return []
