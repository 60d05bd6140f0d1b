"""Events to journal payloads and back. The envelope carries `task` and `attempt`, the payload all other fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args

from bus.strict import WireError
from bus.wire import AttemptId, Record, TaskId, exit_from_json, to_json
from conductor.core.events import Event, ProgressReceived, ReportReceived, ResultReceived, RunResumed, RunStarted
from conductor.core.supervision import PlanReloaded, UsageReported
from conductor.core.task import Plan, RunOptions

Encoded = tuple[str, TaskId | None, AttemptId | None, dict[str, Any]]
"""(type, task, attempt, payload)."""

EVENTS: Mapping[str, type[Event]] = {event.TYPE: event for event in get_args(Event)}
"""All types that the machine knows, by their word in the journal."""

_ENVELOPE = ("task", "attempt")
_INLINE: Mapping[type[Event], str] = {
    ResultReceived: "exit",
    ReportReceived: "report",
    UsageReported: "usage",
}
"""Events whose payload is what the worker handed in, as it is, and the field that holds it."""

_PAYLOAD = {
    event: tuple(f.name for f in fields(event) if f.name not in (*_ENVELOPE, "plan")) for event in EVENTS.values()
}
_OPTIONS = RunOptions.__dataclass_fields__
_TUPLES = frozenset(
    {"files_modified", "unblocks", "blocked_by", "command", "only", "ticked_done", "tasks", "changes"}
    | {"keys", "what", "members"}
)
"""Fields that are tuples here and arrays in JSON."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where the fields of an event are found, by name."""

    envelope: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    tuples: tuple[str, ...]


def _shape(kind: type[Event]) -> _Shape:
    payload = [one for one in fields(kind) if one.name in _PAYLOAD[kind]]
    return _Shape(
        envelope=tuple(one.name for one in fields(kind) if one.name in _ENVELOPE),
        required=tuple(one.name for one in payload if one.default is MISSING),
        optional=tuple(one.name for one in payload if one.default is not MISSING),
        tuples=tuple(one.name for one in payload if one.name in _TUPLES),
    )


_SHAPES = {kind: _shape(kind) for kind in EVENTS.values()}


def encode(event: Event) -> Encoded:
    """Return type, task, attempt and payload. The payload is JSON data that may share containers with the event."""
    kind = type(event)
    inline = _INLINE.get(kind)
    if inline is None:
        payload = {name: getattr(event, name) for name in _PAYLOAD[kind]}
        if isinstance(event, (RunStarted, RunResumed)):
            payload["options"] = {name: _plain(getattr(event.options, name)) for name in _OPTIONS}
        else:
            payload = {name: _plain(value) for name, value in payload.items()}
    elif isinstance(event, ResultReceived):
        payload = to_json(event.exit)
    else:
        payload = dict(getattr(event, inline))
    return event.TYPE, getattr(event, "task", None), getattr(event, "attempt", None), payload


def decode(record: Record, plan_of: Callable[[str], Plan]) -> Event | None:
    """Rebuild the event of a journal line; None for a type that the machine does not know.

    `plan_of` finds a plan by its hash. Unknown fields are ignored (a newer minor format may have them). Raises
    WireError where a field is missing or cannot be what it should be.
    """
    kind = EVENTS.get(record.type)
    if kind is None:
        return None
    try:
        return _build(kind, record, plan_of)
    except (KeyError, TypeError, AttributeError) as error:
        raise WireError(f"record {record.seq} is no {record.type}: {error!r}") from error


def _build(kind: type[Event], record: Record, plan_of: Callable[[str], Plan]) -> Event:
    payload, shape = record.payload, _SHAPES[kind]
    values: dict[str, Any] = {name: getattr(record, name) for name in shape.envelope}
    if kind is ResultReceived:
        values["exit"] = exit_from_json(payload)
    elif kind in (ReportReceived, UsageReported):
        values[_INLINE[kind]] = payload
    elif kind is ProgressReceived:  # what a worker hands in may lack either
        values["pct"], values["text"] = payload.get("pct"), payload.get("text") or ""
    else:
        for name in shape.required:
            values[name] = payload[name]
        for name in shape.optional:
            if name in payload:
                values[name] = payload[name]
        for name in shape.tuples:
            if name in values:
                values[name] = tuple(values[name])
    if "options" in values:
        values["options"] = _options(values["options"])
    if kind in (RunStarted, PlanReloaded):
        values["plan"] = plan_of(values["plan_sha"])
    return kind(**values)


def _options(data: Mapping[str, Any]) -> RunOptions:
    known = {name: value for name, value in data.items() if name in _OPTIONS}
    for name in _TUPLES & known.keys():
        known[name] = None if known[name] is None else tuple(known[name])
    return RunOptions(**known)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
