"""The plan's `defaults` and `limits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.core.task import Limits
from conductor.plan import fields
from conductor.plan.commands import CommandError, split_command
from conductor.plan.errors import shown
from conductor.plan.fields import field_error
from conductor.plan.near import meant_key
from conductor.plan.tasks import read_agent, read_env
from conductor.plan.unknown_keys import not_supported
from conductor.plan.warnings import Warnings
from conductor.plan.yaml_text import Node, Text, as_json


def read_defaults(node: Node, warnings: Warnings) -> dict[str, Any]:
    """Return the values that hold for tasks which do not say otherwise, durations in seconds."""
    found: dict[str, Any] = {}
    if fields.is_null(node):
        return found
    for key, value in fields.mapping("defaults", node).items():
        reader = _DEFAULTS.get(key)
        if fields.is_null(value):
            continue
        if reader is not None:
            found[str(key)] = reader(key, value)
            continue
        found[str(key)] = as_json(value)
        if not not_supported(key, value, "defaults", warnings):
            meant = meant_key(key, tuple(_DEFAULTS))
            hint = f' Did you mean "{meant}"?' if meant else ""
            warnings.add("did_you_mean", f"defaults: {shown(key)} is not a default and has no effect.{hint}", key.line)
    return found


def read_limits(node: Node) -> Limits:
    """Return the limits; an unknown one is an error, because it would not be kept."""
    if fields.is_null(node):
        return Limits()
    found: dict[str, Any] = {}
    for key, value in fields.mapping("limits", node).items():
        reader = _LIMITS.get(key)
        if reader is None:
            meant = meant_key(key, tuple(_LIMITS))
            hint = f'Did you mean "{meant}"?' if meant else f"Known limits: {', '.join(_LIMITS)}."
            raise field_error("limits", f"{shown(key)} is not a limit", key, hint)
        if not (fields.is_null(value) or value == "none"):
            found[str(key)] = reader(key, value)
    return Limits(**found)


def _command(key: str, node: Node) -> list[str]:
    if not isinstance(node, Text):
        return [fields.text(key, item) for item in fields.sequence(key, node)]
    try:
        return list(split_command(node))
    except CommandError as error:
        raise field_error(key, str(error), node, error.hint) from None


def _choice(*words: str) -> Callable[[str, Node], str]:
    return lambda key, node: fields.choice(key, node, words)


def _count(key: str, node: Node) -> int:
    return fields.integer(key, node, least=1)


def _run_timeout(key: str, node: Node) -> float | None:
    return fields.duration(key, node) or None


_DEFAULTS: dict[str, Callable[[str, Node], Any]] = {
    "agent": read_agent,
    "command": _command,
    "timeout": fields.duration,
    "stale_after": fields.duration,
    "retries": lambda key, node: fields.integer(key, node, most=1000),
    "leftovers": _choice("kill", "keep", "fail"),
    "on_conflict": _choice("serialize", "allow"),
    "max_workers": _count,
    "fail_fast": fields.boolean,
    "env": read_env,
    "changes": _choice("required", "optional"),
    "effect": _choice("write", "pure_read", "external"),
    "type": fields.text,
}
_LIMITS: dict[str, Callable[[str, Node], Any]] = {
    "max_workers": _count,
    "max_fan_out": fields.integer,
    "max_join_width": fields.integer,
    "max_tasks": fields.integer,
    "max_plan_bytes": fields.integer,
    "run_timeout": _run_timeout,
    "budget_usd": fields.amount,
}
TASK_DEFAULTS = ("env", "changes", "effect", "type")
"""Defaults that no flag can override: they are written into the tasks when the plan is read."""
