"""The state as JSON data and back, to begin from without reading the whole journal.

Tasks are kept by column, in plan order, so that a hundred thousand of them are written and read by a few loops, and a
column in which nothing has happened yet takes no room. The plan is not in it: it is frozen under its own hash.

A snapshot is a saving, never a source: whatever is not exactly what this build writes is not understood, and the
journal is read instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import Any, TypeVar

from bus.wire import AttemptId, JsonObject
from conductor.core.events import AttemptEnded
from conductor.core.health import Health, ProviderPause
from conductor.core.state import Run, State, Task
from conductor.core.task import (
    AwaitsApproval,
    Backoff,
    Blocked,
    Cancelled,
    Done,
    Ended,
    Exited,
    Failed,
    Manual,
    Pending,
    Plan,
    Ready,
    Running,
    RunOptions,
    Skipped,
    Status,
    TaskSpec,
)
from conductor.core.transitions import Phase, StatusType
from conductor.core.waits import Deadlock, Grant, Life, Wait, name_of

FORMAT = 1

Kept = TypeVar("Kept", Grant, Wait, Deadlock)


class NotUnderstood(ValueError):
    """Data that this build did not write."""


def dump(state: State) -> JsonObject | None:
    """Return the state as JSON data, to be written before the state changes; None in the middle of a pass."""
    if state.tally[Exited] or state.tally[Ended]:
        return None
    return {
        "fingerprint": FINGERPRINT,
        "run": None if state.run is None else _run(state.run),
        "tasks": _columns(state.order),
        "running": [state.tasks[id].index for id in state.running],
        "reconciling": [state.tasks[id].index for id in state.reconciling],
        "retired": dict(state.retired),
        "unkillable": dict(state.unkillable),
        "reset_at": state.reset_at,
        "ignored": dict(state.ignored),
        "wanted": {id: list(tasks) for id, tasks in state.wanted.items()},
        "grants": [_row(one) for one in state.grants.values()],
        "waits": [_row(one) for one in state.waits.values()],
        "deadlocks": [_row(one) for one in state.deadlocks.values()],
        "paused_ahead": state.paused_ahead,
        "health": {kind: _values(one) for kind, one in state.health.items()},
        "providers": {kind: _values(one) for kind, one in state.providers.items()},
    }


def plan_of(data: JsonObject) -> str | None:
    """Return the hash of the plan that belongs to dumped data; None where there was no run. Raises NotUnderstood."""
    if data.get("fingerprint") != FINGERPRINT:
        raise NotUnderstood("the snapshot was written by another build")
    return None if data["run"] is None else str(data["run"]["plan_sha"])


def load(data: JsonObject, plan: Plan) -> State:
    """Return the state that was dumped. Raises NotUnderstood.

    What the state only ever replaces as a whole (reports, evidence) is shared with `data`.
    """
    plan_of(data)
    try:
        order = _tasks(data["tasks"], plan)
        state = State(
            run=None if data["run"] is None else _read_run(data["run"]),
            tasks={task.id: task for task in order},
            running={order[index].id: None for index in data["running"]},
            reconciling={order[index].id: None for index in data["reconciling"]},
            retired=dict(data["retired"]),
            unkillable=dict(data["unkillable"]),
            reset_at=data["reset_at"],
            ignored=dict(data["ignored"]),
            wanted={id: tuple(tasks) for id, tasks in data["wanted"].items()},
            grants={name_of(one.attempt, one.id): one for one in _rows(Grant, data["grants"])},
            waits={name_of(one.attempt, one.id): one for one in _rows(Wait, data["waits"])},
            deadlocks={one.id: one for one in _rows(Deadlock, data["deadlocks"])},
            paused_ahead=data["paused_ahead"],
            health={kind: Health(**one) for kind, one in data["health"].items()},
            providers={kind: ProviderPause(**one) for kind, one in data["providers"].items()},
            order=order,
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise NotUnderstood(f"the snapshot is not what was written: {error!r}") from error
    state.follow(plan)
    state.recount()
    return state


def _values(one: Health | ProviderPause) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in fields(one)}


# --- the run --------------------------------------------------------------------------------------------------------


def _run(run: Run) -> dict[str, Any]:
    options = {one.name: getattr(run.options, one.name) for one in fields(RunOptions)}
    return {**{one.name: getattr(run, one.name) for one in fields(Run)}, "options": options, "phase": run.phase.value}


def _read_run(data: Mapping[str, Any]) -> Run:
    options = RunOptions(**{name: _frozen(value) for name, value in data["options"].items()})
    restarts, edited = list(data["restarts"]), tuple(data["edited"])
    return Run(**{**data, "options": options, "phase": Phase(data["phase"]), "restarts": restarts, "edited": edited})


# --- tasks ----------------------------------------------------------------------------------------------------------

_KEPT: tuple[StatusType, ...] = (
    Pending,
    Ready,
    Backoff,
    Running,
    Done,
    Failed,
    Blocked,
    Skipped,
    Cancelled,
    AwaitsApproval,
    Manual,
)
"""Statuses that outlive a pass. The number of one is its place here."""

_VALUES = {kind: tuple(one.name for one in fields(kind)) for kind in _KEPT}
_NUMBER = {kind: number for number, kind in enumerate(_KEPT)}
_EMPTY: dict[int, Status] = {_NUMBER[kind]: kind() for kind in (Pending, Ready)}
"""Statuses that hold nothing: one object serves all tasks."""

_NEWEST = 0
"""Stands for the task's newest attempt where an attempt is named."""

_ORDER = tuple(one.name for one in fields(Task) if one.name != "spec")
_AS_THEY_ARE = tuple(one for one in fields(Task) if one.name not in ("spec", "status", "last", "story", "life"))
"""Fields whose values are JSON data already."""

_OF_THE_END = attrgetter(*(one.name for one in fields(AttemptEnded) if one.name not in ("task", "attempt")))


def _columns(order: Sequence[Task]) -> dict[str, list[Any]]:
    """Return a column for each field that differs from its default somewhere; equal stories are kept once."""
    stories = {story: number for number, story in enumerate(dict.fromkeys(task.story for task in order))}
    columns: dict[str, list[Any]] = {
        "status": [_status(task.status, task.attempt) for task in order],
        "life": [task.life and _row(task.life) for task in order],
        "last": [task.last and _end(task.last, task.attempt) for task in order],
        "story": [stories[task.story] for task in order],
        "stories": list(stories),
    }
    for one in _AS_THEY_ARE:
        column = [getattr(task, one.name) for task in order]
        if column.count(_default(one)) < len(column):
            columns[one.name] = column
    return columns


def _tasks(columns: Mapping[str, list[Any]], plan: Plan) -> list[Task]:
    of = {one.name: columns.get(one.name) or [_default(one) for _ in plan.tasks] for one in _AS_THEY_ARE}
    attempts = of["attempt"]
    stories = [tuple(story) for story in columns["stories"]]
    of["status"] = [_read_status(*one) for one in zip(columns["status"], attempts, strict=True)]
    of["last"] = [_read_end(*one) for one in zip(columns["last"], attempts, plan.tasks, strict=True)]
    of["life"] = [one and Life(*one) for one in columns["life"]]
    of["story"] = [stories[number] for number in columns["story"]]
    of["progress"] = [_frozen(one) for one in of["progress"]]
    of["ordered"] = [_frozen(one) for one in of["ordered"]]
    return [Task(*row) for row in zip(plan.tasks, *(of[name] for name in _ORDER), strict=True)]


def _default(field: Field[Any]) -> Any:
    """Return the value for which a column is left out; `open` has no default, and is 0 in the end."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return 0 if field.default is MISSING else field.default


def _status(status: Status, attempt: AttemptId | None) -> int | list[Any]:
    """A status is its number, with what it holds behind it."""
    kind = type(status)
    names = _VALUES[kind]
    if not names:
        return _NUMBER[kind]
    return [_NUMBER[kind], *(_brief(getattr(status, name), attempt, name) for name in names)]


def _brief(value: Any, attempt: AttemptId | None, name: str) -> Any:
    return _NEWEST if name == "attempt" and value == attempt else value


def _full(value: Any, attempt: AttemptId | None, name: str) -> Any:
    return attempt if name == "attempt" and value == _NEWEST else _frozen(value)


def _read_status(data: int | list[Any], attempt: AttemptId | None) -> Status:
    if isinstance(data, int):
        return _EMPTY[data]
    kind: Callable[..., Status] = _KEPT[data[0]]
    names = _VALUES[_KEPT[data[0]]]
    return kind(*(_full(value, attempt, name) for value, name in zip(data[1:], names, strict=True)))


def _end(end: AttemptEnded, attempt: AttemptId | None) -> list[Any]:
    return [_brief(end.attempt, attempt, "attempt"), *_OF_THE_END(end)]


def _read_end(data: Any, attempt: AttemptId | None, spec: TaskSpec) -> AttemptEnded | None:
    return data and AttemptEnded(spec.id, _full(data[0], attempt, "attempt"), *data[1:])


def _row(value: Grant | Wait | Deadlock | Life) -> list[Any]:
    return [getattr(value, one.name) for one in fields(value)]


def _rows(kind: Callable[..., Kept], rows: Sequence[Sequence[Any]]) -> list[Kept]:
    return [kind(*map(_frozen, row)) for row in rows]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def fingerprint(*kinds: type[Any]) -> str:
    """Return a hash of the names and types of all fields of these classes."""
    shape = [(kind.__name__, [(one.name, str(one.type)) for one in fields(kind)]) for kind in kinds]
    return hashlib.sha256(repr((FORMAT, shape)).encode()).hexdigest()[:16]


FINGERPRINT = fingerprint(
    State, Run, RunOptions, Task, AttemptEnded, Grant, Wait, Deadlock, Life, Health, ProviderPause, *_KEPT
)
"""Names and types of everything that is written: another build's differ."""
