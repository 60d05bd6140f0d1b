"""The frozen plan: canonical JSON of a validated `Plan`, kept in the bus while a run lasts.

Equal plans give equal bytes, and `parse(dump(plan)) == plan`. Values that are as by default are left out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from conductor.core.task import Group, Limits, Plan, PlanWarning, TaskSpec
from conductor.errors import PlanError
from conductor.plan.collector import without_collector

FORMAT = 1
_HINT = "The bus was written by another version, or damaged: use that version, or an empty bus (--bus-dir)."
_PARTS: dict[str, type[Any]] = {"tasks": TaskSpec, "groups": Group, "warnings": PlanWarning}


def dump(plan: Plan) -> bytes:
    """Return the plan as JSON in UTF-8: sorted keys, no spaces, a newline at the end."""
    body = _written(plan, _PLAIN[Plan])
    body["limits"] = _written(plan.limits, _PLAIN[Limits])
    for name, kind in _PARTS.items():
        body[name] = [_written(part, _PLAIN[kind]) for part in getattr(plan, name)]
    body["format"] = FORMAT
    text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def parse(body: bytes) -> Plan:
    """Return the plan that was dumped; raises PlanError `plan_field` where the bytes are not that."""
    try:
        with without_collector():
            return _plan(json.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PlanError("plan_field", f"not a frozen plan: {error}", hint=_HINT) from None


def _plan(data: Any) -> Plan:
    if data["format"] != FORMAT:
        message = f"the frozen plan has format {data['format']!r}; this version reads {FORMAT}"
        raise PlanError("plan_field", message, hint=_HINT)
    del data["format"]
    parts: dict[str, Any] = {name: tuple(_read(kind, part) for part in data.pop(name)) for name, kind in _PARTS.items()}
    return Plan(limits=_read(Limits, data.pop("limits")), **parts, **data)


def _defaults(kind: type[Any]) -> dict[str, Any]:
    """Return the fields that are written as they are, with their defaults (MISSING where there is none)."""
    nested = (*_PARTS, "limits") if kind is Plan else ()
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(kind)
        if field.name not in nested
    }


_PLAIN: dict[type[Any], dict[str, Any]] = {
    kind: _defaults(kind) for kind in (TaskSpec, Group, Limits, Plan, PlanWarning)
}


def _tuples(kind: type[Any]) -> dict[str, Callable[[Any], Any]]:
    """Return the fields that are lists in JSON, with what makes tuples of them: of `verify` also within."""
    types = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    return {name: _of_tuples if "tuple[tuple[" in type else tuple for name, type in types.items() if "tuple[" in type}


def _of_tuples(value: Any) -> Any:
    return tuple(map(tuple, value))


_TUPLES = {kind: _tuples(kind) for kind in (TaskSpec, Group, Limits, PlanWarning)}


def _written(value: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: found for name, default in defaults.items() if (found := getattr(value, name)) != default}


def _read(kind: type[Any], data: dict[str, Any]) -> Any:
    for name, make in _TUPLES[kind].items():
        if name in data:
            data[name] = make(data[name])
    return kind(**data)
