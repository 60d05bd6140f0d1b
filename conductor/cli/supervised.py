"""What a run holds, asks and waits for beside its tasks: locks, questions, gates, deadlocks, kinds of workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from bus.times import utc
from bus.wire import TaskId
from conductor.cli.escape import one_line, shortened
from conductor.cli.load import OPEN_STATES, Loaded
from conductor.cli.questions import LONGEST, questions_of
from conductor.cli.questions import lines_of as questions_lines
from conductor.cli.track import Track
from conductor.core.giving_up import WAITS_FOR_PEOPLE
from conductor.core.health import BREAKER, Health, ProviderPause
from conductor.core.state import State
from conductor.core.view import RunView, TaskView
from conductor.core.waits import Deadlock, Grant
from conductor.core.why_waits import deadlock_text
from conductor.core.wording import duration, few, person, plural, sentence

MOST = 5
"""Things of one kind that are told of one by one."""


def supervised_data(state: State) -> dict[str, Any]:
    """Return the keys that `status --json` has for them."""
    kinds = dict.fromkeys([*state.health, *state.providers])
    return {
        "locks": [_lock_data(grant) for grant in _held(state)],
        "questions": [
            {"id": one.id, "task": one.task, "attempt": one.attempt, "text": one.text, "asked_at": utc(one.since)}
            for one in questions_of(state)
        ],
        "deadlocks": [_deadlock_data(one) for one in state.deadlocks.values()],
        "kinds": {kind: _kind_data(state.health.get(kind, Health()), state.providers.get(kind)) for kind in kinds},
    }


def _held(state: State) -> Iterator[Grant]:
    open = set(state.open_attempts())
    return (grant for grant in state.grants.values() if grant.attempt in open)


def _lock_data(grant: Grant) -> dict[str, Any]:
    return {
        "keys": list(grant.keys),
        "shared": grant.shared,
        "task": grant.task,
        "attempt": grant.attempt,
        "held_since": utc(grant.since),
    }


def _deadlock_data(one: Deadlock) -> dict[str, Any]:
    return {
        "id": one.id,
        "members": [dict(member) for member in one.members],
        "victim": one.victim_task,
        "rule": one.rule,
        "found_at": utc(one.since),
    }


def _kind_data(health: Health, pause: ProviderPause | None) -> dict[str, Any]:
    return {
        "attempts": health.attempts,
        "failures": dict(health.failures),
        "failures_in_a_row": health.in_a_row,
        "median_seconds": health.median,
        "held_back": None if pause is None else {"class": pause.error_class, "seconds": pause.seconds},
    }


def lines_of(track: Track, loaded: Loaded) -> list[str]:
    """Say them to people, with what to type."""
    state, view = loaded.state, loaded.view
    if view.state not in OPEN_STATES | {"interrupted"}:
        return [*gates(track, view), *_health_lines(state.health)]
    return [
        *_paused_line(track, view),
        *(
            f"Deadlock: {shortened(deadlock_text(one.members, one.victim, one.rule))}"
            for one in list(state.deadlocks.values())[:MOST]
        ),
        *gates(track, view),
        *questions_lines(track, questions_of(state)),
        *_locks_line(state),
        *(line for kind, pause in state.providers.items() for line in _held_back(track, kind, pause)),
        *_health_lines(state.health),
    ]


def _locks_line(state: State) -> list[str]:
    """Say who holds which files."""
    held = [
        f"{few([one_line(key) for key in grant.keys])} by {one_line(grant.task)}{' (shared)' if grant.shared else ''}"
        for grant in _held(state)
    ]
    more = f"; and {len(held) - MOST} more" if len(held) > MOST else ""
    return [f"Locked: {shortened('; '.join(held[:MOST]))}{more}"] if held else []


def _paused_line(track: Track, view: RunView) -> list[str]:
    if view.paused_by is None:
        return []
    by = person(view.paused_by)
    return [f"Paused by {shortened(by)}: nothing new is started.", f"  Go on: {track.command('resume')}"]


_ASKS = {
    "approval": ("waits for approval", ("Approve:", "approve"), ("Reject:", "reject")),
    "manual": ("is for a person", ("Done:", "complete"), ("Failed:", "fail")),
}
"""What is said of a task that a person is waited for, and which verbs let it go on."""


def gates(track: Track, view: RunView) -> list[str]:
    """Say what waits for a person, what is to be done, and on lines of their own which commands let it go on."""
    lines = []
    done = {task.id for task in view.tasks if task.status == "done"}
    for kind, (what, *verbs) in _ASKS.items():
        tasks = [task for task in view.tasks if not task.ordered and _asks(task, kind, done)]
        for task in tasks[:MOST]:
            first = f": {shortened(task.to_do.splitlines()[0], LONGEST)}" if task.to_do else ""
            lines.append(f"{one_line(task.id)} {what}{first}")
            lines += [one_line(f"  {label:<8} {track.command(verb, task.id)}") for label, verb in verbs]
        if len(tasks) > MOST:
            lines.append(f"And {plural(len(tasks) - MOST, 'more task')} like these")
    return lines


def _asks(task: TaskView, kind: str, done: Set[TaskId]) -> bool:
    """Tell whether a person can let a task go on now, also one that a run gave up as nobody did."""
    if any(wait.kind == kind for wait in task.waits_for):
        return True
    return task.asks == kind and task.reason == WAITS_FOR_PEOPLE and all(need in done for need in task.depends_on)


def for_people(track: Track, loaded: Loaded) -> list[str]:
    """Say what waits for a person now, and how the run goes on where it is paused."""
    return [
        *_paused_line(track, loaded.view),
        *gates(track, loaded.view),
        *questions_lines(track, questions_of(loaded.state)),
    ]


def _held_back(track: Track, kind: str, pause: ProviderPause) -> list[str]:
    why = "too many of its attempts failed in a row" if pause.error_class == BREAKER else pause.error_class
    until = "until somebody says so" if pause.seconds is None else f"for {duration(pause.seconds)} in all"
    return [f"{sentence(one_line(kind))} is held back {until} ({why}).", f"  Try it now: {track.command('resume')}"]


def _health_lines(health: Mapping[str, Health]) -> list[str]:
    """A line for each kind of workers of which attempts failed."""
    return [_health_text(kind, one) for kind, one in health.items() if one.failures][:MOST]


_CLASSES = {"exit": "by exit status", "timeout": "over their time limit", "signal": "by a signal"}
"""Why attempts fail, in words."""


def _health_text(kind: str, health: Health) -> str:
    failed = sum(health.failures.values())
    said = {name: _CLASSES.get(name, name.replace("_", " ")) for name in health.failures}
    classes = few([f"{number} {said[name]}" for name, number in health.failures.items()])
    row = f", {health.in_a_row} in a row" if health.in_a_row > 1 else ""
    median = "" if health.median is None else f"; an attempt takes {duration(health.median)} (median)"
    attempts = plural(health.attempts, "attempt")
    return f"Workers for {one_line(kind.replace(':', ' ', 1))}: {attempts}, {failed} failed ({classes}){row}{median}"


def ways_on(track: Track, task: TaskView, state: State) -> list[str]:
    """Return the verbs that let a task go on that waits for a person, or can be taken up again: `Approve:  …`."""
    kinds = set() if task.ordered else {wait.kind for wait in task.waits_for}
    verbs = []
    if "approval" in kinds:
        verbs += [("Approve:", "approve"), ("Reject:", "reject")]
    if "manual" in kinds:
        verbs += [("It is done:", "complete"), ("It failed:", "fail")]
    if task.status in ("failed", "cancelled"):
        verbs.append(("Again:", "retry"))
    lines = [one_line(f"{label:<9} {track.command(verb, task.id)}") for label, verb in verbs]
    lines += [f"Go on:    {track.command('resume')}"] if kinds & {"paused", "provider"} else []
    asked = [one for one in questions_of(state) if one.task == task.id]
    return lines + [f"Answer:   {track.command('answer', one.id, 'TEXT')}" for one in asked[:MOST]]
