"""How pauses of worker kinds begin and end, and how their health follows from the ends of attempts."""

from __future__ import annotations

from dataclasses import replace

from conductor.core.changes import Moment
from conductor.core.events import AttemptEnded
from conductor.core.health import (
    BREAKER,
    MOST_DURATIONS,
    PROBE_EVERY,
    PROVIDER_CLASSES,
    Health,
    ProviderPause,
    kind_of,
    pause_seconds,
)
from conductor.core.policy import BLAMELESS, FREE
from conductor.core.state import Run, State, Task
from conductor.core.supervision import ProviderPaused, ProviderResumed
from conductor.core.task import Ended

_NOT_ITS_OWN = FREE | BLAMELESS | {"cancelled"}
"""Ends that tell nothing of a kind."""

PROVIDER_KEY = "provider:"
"""Timers of this prefix say that a pause is over, or that a probe may be made."""


def paused(state: State, event: ProviderPaused, moment: Moment) -> None:
    """Start no worker of the kind for a while."""
    until = None if event.seconds is None else moment.wall + event.seconds
    state.providers[event.provider] = ProviderPause(event.error_class, moment.now, event.seconds, until)
    if event.error_class != BREAKER:
        state.health.setdefault(event.provider, Health()).strikes += 1


def resumed(state: State, event: ProviderResumed, moment: Moment) -> None:
    """Start workers of the kind again."""
    state.providers.pop(event.provider, None)
    state.health.setdefault(event.provider, Health()).in_a_row = 0


def timer_fired(state: State, kind: str, moment: Moment) -> bool:
    """Let one attempt through, or end the pause; tell whether it means anything now."""
    pause = state.providers.get(kind)
    if pause is None or pause.seconds is None or pause.over is not None:
        return False
    if pause.error_class != BREAKER and rest(pause, moment.now) == 0:
        state.providers[kind] = replace(pause, over="its time is up")
    elif pause.probe is None:
        state.providers[kind] = replace(pause, probe="")
    return True


def rest(pause: ProviderPause, now: float) -> float:
    """Return the seconds that a pause has left; meaningful only for one with an end."""
    assert pause.seconds is not None
    return max(0.0, pause.since + pause.seconds - now)


def next_look(pause: ProviderPause, now: float) -> float | None:
    """Return the seconds until the timer of a pause is to fire; None where it needs none."""
    if pause.seconds is None or pause.over is not None or (pause.error_class == BREAKER and pause.probe is not None):
        return None
    return min(rest(pause, now), PROBE_EVERY)


def dispatched(state: State, run: Run, task: Task) -> None:
    """Note that an attempt is the probe that a pause lets through."""
    kind = kind_of(task.spec, run.options)
    pause = state.providers.get(kind)
    if pause is not None and pause.probe == "" and task.attempt is not None:
        state.providers[kind] = replace(pause, probe=task.attempt)


def attempt_ended(state: State, run: Run, task: Task, event: AttemptEnded) -> None:
    """Learn from the end of an attempt how its kind does."""
    kind = kind_of(task.spec, run.options)
    health = state.health.setdefault(kind, Health())
    if event.started:
        health.attempts += 1
        if event.seconds is not None:
            health.seconds = [*health.seconds[1 - MOST_DURATIONS :], event.seconds]
    if event.error_class is None:
        health.in_a_row = health.strikes = 0
    elif event.error_class not in _NOT_ITS_OWN:
        health.failures = {**health.failures, event.error_class: health.failures.get(event.error_class, 0) + 1}
        health.in_a_row += event.counted
    pause = state.providers.get(kind)
    if pause is not None and pause.probe == event.attempt:
        again = run.options.breaker is not None and health.in_a_row >= run.options.breaker
        state.providers[kind] = _probed(pause, event, again)


def _probed(pause: ProviderPause, event: AttemptEnded, again: bool) -> ProviderPause:
    """Return what a probe says of a pause. `again`: the breaker is to stay open. Where the pause begins anew, the probe
    keeps its name: see `due`."""
    if event.error_class is None:
        return replace(pause, over="a probe succeeded")
    if event.error_class in PROVIDER_CLASSES or (event.counted and again):
        return pause
    if event.counted:
        return replace(pause, over="a probe got through")
    return replace(pause, probe="")


def free_of_charge(state: State, run: Run, task: Task, error_class: str | None) -> bool:
    """Tell whether an end by a provider's class is nobody's: its kind is paused already, and this attempt ran beside
    the one that met the limit first, or was the probe of a pause that the provider said would last."""
    return error_class in PROVIDER_CLASSES and kind_of(task.spec, run.options) in state.providers


def due(state: State, run: Run, task: Task, ended: Ended) -> ProviderPaused | None:
    """Return the pause that follows from a failed attempt; None where there is none, or it is recorded."""
    kind = kind_of(task.spec, run.options)
    pause, health = state.providers.get(kind), state.health.get(kind, Health())
    if pause is not None and pause.probe != ended.attempt:
        return None
    failed = ended.error_class
    if failed is not None and failed in PROVIDER_CLASSES:
        named = (task.report or {}).get("retry_after")
        return ProviderPaused(kind, failed, pause_seconds(failed, named, health.strikes, run.options))
    limit = run.options.breaker
    if limit is not None and ended.counted and health.in_a_row >= limit:
        return ProviderPaused(kind, BREAKER, pause_seconds(BREAKER, None, 0, run.options))
    return None
