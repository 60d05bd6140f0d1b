"""When a run ends although it has tasks left: why nothing more can come, and what is told to those that still run."""

from __future__ import annotations

from typing import Final

from conductor.core.budget import BUDGET_EXCEEDED
from conductor.core.events import AttemptEnded
from conductor.core.gates import holds_work
from conductor.core.health import BREAKER, kind_of
from conductor.core.orders import NOT_NAMED
from conductor.core.policy import UNKILLABLE
from conductor.core.reasons import gave_up_text
from conductor.core.rounds import RESTART_INTENSITY
from conductor.core.state import Run, State, Task
from conductor.core.supervision import RunGaveUp
from conductor.core.task import AwaitsApproval, Backoff, Done, Ended, Manual, Ready, Running, Skipped
from conductor.core.timers import RUN_TIMEOUT
from conductor.core.transitions import Phase

WAITS_FOR_PEOPLE: Final = "waits_for_people"
"""Only a person could move the run on, and it was told not to wait for people."""

PROVIDER_LIMIT: Final = "provider_limit"
"""Only a provider's limit holds the run up, and it was told not to wait."""

ESCALATED: Final = frozenset(
    {RESTART_INTENSITY, RUN_TIMEOUT, BUDGET_EXCEEDED, WAITS_FOR_PEOPLE, PROVIDER_LIMIT, UNKILLABLE}
)
"""Reasons that a person has to look at."""


def goes_on(run: Run) -> bool:
    """Tell whether new attempts may be made in the round."""
    return run.phase is Phase.RUNNING and run.gave_up is None


def can_come(state: State, run: Run) -> bool:
    """Tell whether, without anything that runs now, another attempt or a person's work can come in this round."""
    waiting = (Ready, Backoff, AwaitsApproval, Manual)
    return goes_on(run) and any(state.tally[status] for status in waiting)


def give_up(state: State, run: Run) -> RunGaveUp | None:
    """Return why a run that was told not to wait gives up: only a provider or people could move it on."""
    if run.options.wait_for_people or not goes_on(run) or state.reconciling or state.tally[Backoff]:
        return None
    if not all(_waits(state, state.tasks[id]) for id in state.running) or state.deadlocks:
        return None
    ready = [task for task in state.order if isinstance(task.status, Ready)] if state.tally[Ready] else []
    pauses = [state.providers.get(kind_of(task.spec, run.options)) for task in ready]
    if any(pause is not None and pause.error_class == BREAKER for pause in pauses):
        return None  # that is over soon, by itself
    if not state.running and any(pauses):
        return RunGaveUp(PROVIDER_LIMIT, gave_up_text(PROVIDER_LIMIT))
    if any(isinstance(task.status, Manual) and task.spec.timeout for task in state.order if state.tally[Manual]):
        return None  # its own limit ends it, if nobody does
    asked = any(wait.kind == "question" for wait in state.waits.values())
    people = state.tally[AwaitsApproval] or state.tally[Manual] or asked or (run.paused_by and ready)
    return RunGaveUp(WAITS_FOR_PEOPLE, gave_up_text(WAITS_FOR_PEOPLE)) if people else None


def untold(state: State, run: Run) -> RunGaveUp | None:
    """Return that the run gave up, where it is not recorded yet and what does not run now keeps it from being done."""
    if run.gave_up is None or run.told:
        return None
    alive = len(state.running) + state.tally[Ended]
    if finished(state) + alive == len(state.order):
        return None
    return RunGaveUp(run.gave_up, gave_up_text(run.gave_up, run.options), run.gave_up == run.said)


def finished(state: State) -> int:
    """Count the tasks that keep no run from being done: those that are, and those that nobody named."""
    skipped = state.order if state.tally[Skipped] else ()
    named = sum(1 for task in skipped if isinstance(task.status, Skipped) and task.status.reason == NOT_NAMED)
    return state.tally[Done] + named


def _waits(state: State, task: Task) -> bool:
    return any(wait.attempt == task.attempt for wait in state.waits.values())


def left_behind(state: State, run: Run) -> AttemptEnded | None:
    """Return the end of an attempt that cannot be ended, once nothing else is left to wait for. It keeps what it holds.

    While another attempt runs, or may still come, or a person may move the run on, it can wait: it may yet go.
    """
    if not state.running or state.reconciling or any(not _unkillable(state.tasks[id]) for id in state.running):
        return None
    if goes_on(run) and (state.tally[Backoff] or state.tally[AwaitsApproval] or state.tally[Manual]):
        return None
    pauses = [pause for pause in state.providers.values() if pause.error_class != BREAKER or pause.probe is None]
    if goes_on(run) and state.tally[Ready] and (run.paused_by or pauses):
        return None
    task = state.tasks[next(iter(state.running))]
    assert isinstance(task.status, Running)
    assert task.life is not None
    return AttemptEnded(
        task=task.id,
        attempt=task.status.attempt,
        number=task.number,
        error_class=UNKILLABLE,
        message=f"cannot be ended: {task.life.detail}" if task.life.detail else "cannot be ended",
        started=True,
        counted=False,
        exit=None,
        evidence=dict(task.life.evidence),
    )


def _unkillable(task: Task) -> bool:
    return task.life is not None and task.life.life == UNKILLABLE


def keeps_work(state: State) -> bool:
    """Tell whether work that is done waits for approval: then the round is not finished."""
    return bool(state.tally[AwaitsApproval]) and any(map(holds_work, state.order))
