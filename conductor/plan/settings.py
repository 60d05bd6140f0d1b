"""The plan's `defaults` and `limits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.core.task import Limits
from conductor.plan import fields
from conductor.plan.errors import shown
from conductor.plan.fields import field_error
from conductor.plan.manual import MANUAL
from conductor.plan.near import is_misspelt, meant_key
from conductor.plan.tasks import read_agent, read_env
from conductor.plan.unknown_keys import TASK_KEYS, not_supported
from conductor.plan.warnings import Warnings
from conductor.plan.yaml_text import Node, Text, as_json


def read_defaults(node: Node, warnings: Warnings) -> dict[str, Any]:
    """Return the values that hold for tasks which do not say otherwise, durations in seconds."""
    found: dict[str, Any] = {}
    if fields.is_null(node):
        return found
    for key, value in fields.mapping("defaults", node).items():
        reader = DEFAULTS.get(key)
        if fields.is_null(value):
            continue
        if reader is not None:
            found[str(key)] = reader(key, value)
            not_supported(key, value, warnings)
            continue
        found[str(key)] = as_json(value)
        if not not_supported(key, value, warnings):
            _unknown_default(key, warnings)
    return found


def _unknown_default(key: Text, warnings: Warnings) -> None:
    """Judge a key that is no default: what was probably meant to limit the tasks is an error."""
    meant = meant_key(key, tuple(DEFAULTS))
    if meant in _GUARDS and is_misspelt(key, meant):
        hint = f'Did you mean "{meant}"?'
        raise field_error("defaults", f"{shown(key)} is not a default, and the tasks would run without it", key, hint)
    hint = (
        " Put it under limits."
        if key in LIMITS
        else f' Did you mean "{meant}"?'
        if meant
        else " Put it into the tasks."
        if key in TASK_KEYS
        else ""
    )
    code = "did_you_mean" if key in LIMITS or meant else "key_without_effect"
    warnings.add(code, f"defaults: {shown(key)} is not a default and has no effect.{hint}", key.line)


def read_limits(node: Node) -> Limits:
    """Return the limits; an unknown one is an error, because it would not be kept."""
    if fields.is_null(node):
        return Limits()
    found: dict[str, Any] = {}
    for key, value in fields.mapping("limits", node).items():
        reader = LIMITS.get(key)
        if reader is None:
            meant = meant_key(key, tuple(LIMITS))
            hint = f'Did you mean "{meant}"?' if meant else f"Known limits: {', '.join(LIMITS)}."
            raise field_error("limits", f"{shown(key)} is not a limit", key, hint)
        if not (fields.is_null(value) or value == "none"):
            found[str(key)] = reader(key, value)
    return Limits(**found)


def _agent(key: str, node: Node) -> str | dict[str, Any]:
    """Return the name alone where nothing else is said."""
    agent = read_agent(key, node)
    if agent["name"] == MANUAL:
        hint = "Write agent: manual in each task that is for a person."
        raise field_error(key, "not every task without a command can be for a person", node, hint)
    return str(agent["name"]) if len(agent) == 1 else agent


def _choice(*words: str) -> Callable[[str, Node], str]:
    return lambda key, node: fields.choice(key, node, words)


def _count(key: str, node: Node) -> int:
    return fields.integer(key, node, least=1)


def _run_timeout(key: str, node: Node) -> float | None:
    return fields.duration(key, node) or None


DEFAULTS: dict[str, Callable[[str, Node], Any]] = {
    "agent": _agent,
    "timeout": fields.duration,
    "stale_after": fields.duration,
    "retries": lambda key, node: fields.integer(key, node, most=1000),
    "leftovers": _choice("kill", "keep", "fail"),
    "env": read_env,
    "changes": _choice("required", "optional"),
    "effect": _choice("write", "pure_read", "external"),
    "type": fields.text,
    "approve": _choice("before", "after"),
}
LIMITS: dict[str, Callable[[str, Node], Any]] = {
    "max_workers": _count,
    "max_fan_out": fields.integer,
    "max_join_width": fields.integer,
    "max_tasks": fields.integer,
    "max_plan_bytes": fields.integer,
    "run_timeout": _run_timeout,
    "budget_usd": fields.amount,
}
_GUARDS = frozenset(("timeout", "retries", "stale_after", "approve"))
"""Defaults without which the tasks run without a limit that was asked for."""
TASK_DEFAULTS = ("env", "changes", "effect", "type", "stale_after", "approve")
"""Defaults that no flag can override: they are written into the tasks when the plan is read."""
