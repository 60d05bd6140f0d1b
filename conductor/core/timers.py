"""The machine's timers: what each key means when it fires, which ones an event starts, which a new conductor arms.

A timer holds no state: everything follows from when something began, so one that was lost is armed again with the rest.
"""

from __future__ import annotations

from typing import Final

from bus.wire import TaskId
from conductor.core import gates, providers
from conductor.core.awaited import waits_in_vain
from conductor.core.changes import Moment, cell, ignore, let_go, set_status, tell
from conductor.core.events import (
    ControlReceived,
    Event,
    RetryScheduled,
    RunResumed,
    RunStarted,
    TimerFired,
    WorkerDispatched,
)
from conductor.core.gates import MANUAL_KEY
from conductor.core.instructions import StartTimer
from conductor.core.providers import PROVIDER_KEY
from conductor.core.state import Run, State, Task
from conductor.core.supervision import ManualOpened, ProviderPaused, RunGaveUp
from conductor.core.task import Backoff, Group, Manual
from conductor.core.transitions import IGNORED, Phase
from conductor.core.wait_events import WaitBegan

RETRY_KEY: Final = "retry:"
"""Timers of this prefix end the back-off of the task named behind it."""

GROUP_KEY: Final = "group:"
"""Timers of this prefix end the time of the group named behind it."""

RUN_KEY: Final = "run_timeout"
"""Ends the time of the run."""

HEED_KEY: Final = "heed"
"""Ends the time for those who wait for what is not started any more to hear of it."""

HEED: Final = 10.0
"""Seconds for that. A worker of ours hears within one; this is for others, and for a program that hangs."""

RUN_TIMEOUT: Final = "run_timeout"
"""Why a run gave up that has run out of time."""


def fired(state: State, event: TimerFired, moment: Moment) -> None:
    """Follow a timer, if it still means something."""
    prefix, separator, name = event.key.partition(":")
    if not _follow(state, prefix + separator, name, moment):
        ignore(state, event.TYPE)


def _follow(state: State, prefix: str, name: str, moment: Moment) -> bool:
    run, task = state.run, state.tasks.get(TaskId(name))
    if run is None or run.phase is Phase.ENDED:
        return False
    if prefix == RETRY_KEY and task is not None:
        return _retry(state, task, moment)
    if prefix == MANUAL_KEY and task is not None:
        return gates.manual_timer_fired(state, task, moment)
    if prefix == PROVIDER_KEY:
        return providers.timer_fired(state, name, moment)
    if prefix == GROUP_KEY:
        return _group(state, run, name, moment)
    if prefix == RUN_KEY:
        run.gave_up = run.gave_up or RUN_TIMEOUT
        return True
    if prefix == HEED_KEY:
        run.heard = True
        for id in state.running:
            moment.listener.suspect(state.tasks[id])
        return True
    return False


def _retry(state: State, task: Task, moment: Moment) -> bool:
    if cell(task, TimerFired.TYPE) is IGNORED:
        return False
    let_go(state, task, moment)
    tell(task, TimerFired.TYPE)
    return True


def _group(state: State, run: Run, name: str, moment: Moment) -> bool:
    group = next((group for group in state.plan.groups if group.id == name), None)
    if group is None or name not in run.groups_since or name in run.groups_expired:
        return False
    run.groups_expired = [*run.groups_expired, name]
    for id in group.tasks:
        set_status(state, state.tasks[id], state.tasks[id].status, moment)
        moment.listener.suspect(state.tasks[id])
    return True


def started_by(state: State, event: Event, now: float) -> list[StartTimer]:
    """Return the timers that an event starts, which is applied already."""
    run = state.run
    match event:
        case RunStarted(options=options) if options.run_timeout is not None:
            return [StartTimer(RUN_KEY, options.run_timeout)]
        case RunResumed():
            return resumed(state, now)
        case RetryScheduled(task, _, delay):
            return [StartTimer(RETRY_KEY + task, delay)]
        case WorkerDispatched(id) if run is not None:
            begun = [group for group in state.timed.get(id, ()) if group.id not in run.groups_expired]
            return [_group_timer(run, group, now) for group in begun if run.groups_since[group.id] == run.clock(now)]
        case ControlReceived() | RunGaveUp() | WaitBegan() if run is not None:
            vain = any(waits_in_vain(state, run, state.tasks[id]) for id in state.running)
            return [StartTimer(HEED_KEY, HEED)] if vain else []
        case ManualOpened(id) if limit := state.tasks[id].spec.timeout:
            return [StartTimer(MANUAL_KEY + id, limit)]
        case ProviderPaused(kind):
            return _provider_timer(state, kind, now)
        case TimerFired(key) if key.startswith(PROVIDER_KEY):
            return _provider_timer(state, key.removeprefix(PROVIDER_KEY), now)
        case _:
            return []


def resumed(state: State, now: float) -> list[StartTimer]:
    """Return all timers that a conductor needs which takes a round over, with what is left of them."""
    run = state.run
    assert run is not None
    found: list[StartTimer] = []
    for task in state.order:
        if isinstance(task.status, Backoff):
            found.append(StartTimer(RETRY_KEY + task.id, max(0.0, task.status.since + task.status.delay - now)))
        elif isinstance(task.status, Manual) and (limit := task.spec.timeout):
            found.append(StartTimer(MANUAL_KEY + task.id, max(0.0, task.status.since + limit - run.clock(now))))
    timed = (group for group in state.plan.groups if group.timeout and group.id in run.groups_since)
    found += [_group_timer(run, group, now) for group in timed if group.id not in run.groups_expired]
    for kind in state.providers:
        found += _provider_timer(state, kind, now)
    if run.options.run_timeout is not None:
        found.append(StartTimer(RUN_KEY, max(0.0, run.options.run_timeout - run.clock(now))))
    return found


def _group_timer(run: Run, group: Group, now: float) -> StartTimer:
    assert group.timeout is not None
    return StartTimer(GROUP_KEY + group.id, max(0.0, run.groups_since[group.id] + group.timeout - run.clock(now)))


def _provider_timer(state: State, kind: str, now: float) -> list[StartTimer]:
    pause = state.providers.get(kind)
    seconds = None if pause is None else providers.next_look(pause, now)
    return [] if seconds is None else [StartTimer(PROVIDER_KEY + kind, seconds)]
