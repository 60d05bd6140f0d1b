"""Tasks for people: `agent: manual`. No worker is started for them, so what is for a worker means nothing there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.plan.fields import field_error
from conductor.plan.yaml_text import Map

MANUAL = "manual"
"""The agent that is a person."""

_OF_WORKERS = ("verify", "outputs", "retries", "leftovers", "stale_after", "changes", "env")
"""Keys that nothing acts on without a worker."""


def as_manual(values: Mapping[str, Any], node: Map) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a task for a person, and the keys that mean nothing there.

    Raises PlanError where it has a command, or a gate as well.
    """
    for key, value in node.items():
        if key == "run":
            hint = "Take agent: manual away, or the command."
            raise field_error(key, "a task for a person (agent: manual) has no command", value, hint)
        if key == "approve" and values.get("approve"):
            hint = "Leave approve out: the task waits for a person anyway."
            raise field_error(key, "a task for a person (agent: manual) needs no approval", value, hint)
    unheeded = [str(key) for key in node if key in _OF_WORKERS]
    return {**values, "manual": True, "agent": None, "stale_after": None, "approve": None}, unheeded
