"""The next decision that is due: read from the state, taken one at a time, in a fixed order.

First what is over is judged and settled, then tasks get their ends, then running ones their stops, then new ones start;
when nothing of that is left and nothing runs, the round ends.
"""

from __future__ import annotations

from bus.layout import attempt_id
from bus.wire import ExitRecord
from conductor.core import policy, providers, stops
from conductor.core.agenda import Agenda
from conductor.core.awaited import needs_itself
from conductor.core.deadlock import Found
from conductor.core.ends import as_ordered, completed, expired_group, opened, out_of_time, work_done
from conductor.core.events import (
    AttemptEnded,
    Decision,
    RetryScheduled,
    RunEnded,
    StopDecided,
    TaskBlocked,
    TaskFailed,
    TaskSkipped,
    WorkerDispatched,
)
from conductor.core.giving_up import ESCALATED, can_come, finished, give_up, goes_on, keeps_work, left_behind, untold
from conductor.core.health import PROVIDER_CLASSES
from conductor.core.orders import NOT_NAMED
from conductor.core.policy import STOPPED
from conductor.core.state import Run, State, Task
from conductor.core.supervision import ProviderResumed, TaskCancelled
from conductor.core.task import Backoff, Done, Ended, Exited, Failed, Ready
from conductor.core.transitions import Phase
from conductor.core.wait_events import DeadlockDetected, DeadlockResolved
from conductor.core.waits import DEADLOCK_VICTIM, STALE_TOKEN
from conductor.core.words import WORD_OF, counts


def next_decision(state: State, agenda: Agenda) -> Decision | None:
    """Return the decision that is due first; None where there is none."""
    run = state.run
    if run is None or run.phase is Phase.ENDED:
        return None
    if gave_up := untold(state, run):
        return gave_up
    if task := agenda.exited.first(state):
        return _judge(state, task, run)
    if task := agenda.ended.first(state):
        return _settle(state, task, run)
    if ended := stops.ended_victim(state):
        return DeadlockResolved(ended.victim_task, ended.victim, ended.id, ended.victim)
    if task := agenda.ordered.first(state):
        return as_ordered(state, task)
    if task := agenda.ticked.first(state):
        return completed(state, task)
    if task := agenda.doomed.first(state):
        return _block(state, agenda, task)
    if task := agenda.unnamed.first(state):
        return TaskSkipped(task.id, task.id, NOT_NAMED)
    if task := agenda.expired.first(state):
        return out_of_time(state, task)
    if found := agenda.to_stop():
        return _stop(*found)
    if over := next(((kind, pause.over) for kind, pause in state.providers.items() if pause.over), None):
        return ProviderResumed(*over)
    if goes_on(run) and not state.reconciling:
        if task := agenda.gates.first(state):
            return opened(task)
        if run.paused_by is None and (task := agenda.schedule.next()):
            return _dispatch(task, run)
    if deadlock := agenda.deadlock():
        return _deadlock(deadlock, run)
    return give_up(state, run) or left_behind(state, run) or _end(state, agenda, run)


def _judge(state: State, task: Task, run: Run) -> AttemptEnded:
    status = task.status
    assert isinstance(status, Exited)
    leftovers = task.spec.leftovers or run.options.leftovers
    outcome = status.outcome
    stopping = STALE_TOKEN if task.stale else status.stopping
    because = stops.because(state, task, stopping) if stopping else ""
    verdict = policy.judge(outcome, stopping, because=because, fail_on_leftovers=leftovers == "fail")
    exit = outcome if isinstance(outcome, ExitRecord) else None
    return AttemptEnded(
        task=task.id,
        attempt=status.attempt,
        number=status.number,
        error_class=verdict.error_class,
        message=verdict.message,
        started=verdict.started,
        counted=verdict.error_class is not None and verdict.counted,
        exit=exit.command if exit else None,
        evidence=policy.evidence(outcome),
        seconds=exit.seconds if exit else None,
    )


def _settle(state: State, task: Task, run: Run) -> Decision:
    """Give an ended attempt its consequence."""
    ended = task.status
    assert isinstance(ended, Ended)
    if task.ordered and task.ordered[0] == "cancel":
        return TaskCancelled(task.id, task.id, task.ordered[1])
    if ended.error_class is None:
        return work_done(state, task)
    if pause := providers.due(state, run, task, ended):
        return pause
    worth_it = policy.may_retry(task.spec, run.options, ended, task.used, task.uncounted)
    worth_it = worth_it and not (ended.error_class == DEADLOCK_VICTIM and needs_itself(state, task))
    if not worth_it or expired_group(state, task):
        return TaskFailed(task.id, ended.attempt, task.id, ended.message, ended.error_class)
    if run.gave_up:
        return TaskSkipped(task.id, task.id, run.gave_up)
    failures = task.used + sum(task.uncounted.values())
    number = task.number + 1
    held = ended.error_class in PROVIDER_CLASSES  # by the pause of its kind, which says when
    delay = 0.0 if held else policy.delay(run.options, run.id, task.id, number, failures)
    return RetryScheduled(task.id, number, delay, ended.error_class)


def _block(state: State, agenda: Agenda, task: Task) -> TaskBlocked:
    by = agenda.causes(task)
    return TaskBlocked(task.id, task.id, by, "; ".join(because_of(state.tasks[cause]) for cause in by))


def because_of(cause: Task) -> str:
    """Say that a failed or cancelled task is what others wait for: `needs 1.2, which failed (exit 1)`."""
    if isinstance(cause.status, Failed):
        return f"needs {cause.id}, which failed ({policy.brief(cause.status.message)})"
    return f"needs {cause.id}, which was cancelled"


def _stop(task: Task, reason: str) -> StopDecided:
    assert task.attempt is not None
    return StopDecided(task.id, task.attempt, reason)


def _deadlock(found: Found, run: Run) -> DeadlockDetected:
    task = found.victim
    assert task.attempt is not None
    id = policy.deadlock_id(run.options, run.id, task.attempt)
    return DeadlockDetected(task.id, task.attempt, id, task.attempt, found.members, run.options.deadlock_victim)


def _dispatch(task: Task, run: Run) -> WorkerDispatched:
    number = task.number + 1
    nonce = policy.nonce(run.options, run.id, task.id, number)
    return WorkerDispatched(task.id, attempt_id(task.id, number, nonce), number, nonce)


def _end(state: State, agenda: Agenda, run: Run) -> Decision | None:
    """End the round if nothing can run any more; before that, give the tasks that never started their end."""
    if state.running or can_come(state, run):
        return None
    task = agenda.leftover()
    if (task or keeps_work(state)) and run.phase is Phase.DRAINING and not run.gave_up:
        return RunEnded("stopped", STOPPED, _last_counts(state))
    if task:
        return TaskSkipped(task.id, task.id, run.gave_up or _skipped_dependency(state, task))
    end = "done" if finished(state) == len(state.order) else "escalated" if run.gave_up in ESCALATED else "failed"
    return RunEnded(end, run.gave_up, _last_counts(state))


def _last_counts(state: State) -> dict[str, int]:
    """Count the tasks as they are once the round has ended: what was in back-off is ready again."""
    found = counts(state)
    found[WORD_OF[Backoff]] -= state.tally[Backoff]
    found[WORD_OF[Ready]] += state.tally[Backoff]
    return found


def _skipped_dependency(state: State, task: Task) -> str:
    """Say which dependency will not be done in this round although it neither failed nor was cancelled."""
    missing = next(other for other in state.dependencies(task) if not isinstance(other.status, Done))
    return f"needs {missing.id}, which was skipped"
