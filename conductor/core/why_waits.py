"""Sentences about attempts: what they wait for, what the evidence says of them, and how a deadlock came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductor.core.liveness import FINISHED, QUIET, STARTING, STUCK, UNKILLABLE
from conductor.core.wait_view import WaitView
from conductor.core.waits import Deadlock, Life
from conductor.core.wording import duration, few

_LIVES: Mapping[str, str] = {
    STARTING: "It is starting",
    QUIET: "It is quiet",
    STUCK: "Its worker is stuck",
    FINISHED: "It has finished, and its worker lives on",
    UNKILLABLE: "It cannot be ended, and keeps what it holds",
}

_CHOSEN: Mapping[str, str] = {"youngest": "the youngest", "oldest": "the oldest", "fewest-locks": "with fewest locks"}
"""Which attempt is stopped for a deadlock, by the rule that chose it."""


def attempt_wait_text(wait: WaitView, status: str | None) -> str:
    """Say what an attempt waits for; `status` is that of the task in its way: `for the lock of src/a.py, after 1.2`."""
    match wait.kind:
        case "answer":
            return f'for an answer to "{wait.text}" (question {wait.what})'
        case "task":
            return f"for task {wait.what}" + (f", which is {status}" if status else "")
        case "pool":
            return f"for {wait.what}, and all of them wait themselves"
        case _:
            return f"for the lock of {wait.what}" + (f", after {wait.holder}" if wait.holder else "")


def life_text(life: Life, now: float) -> str | None:
    """Say what was found of an attempt, and how long ago (`now` is the wall clock); None where it just works."""
    if life.life not in _LIVES:
        return None
    detail = f": {life.detail}" if life.detail else ""
    return f"{_LIVES[life.life]}{detail} (seen {duration(now - life.since)} ago)."


def deadlock_text(members: Sequence[Mapping[str, Any]], victim: str, rule: str) -> str:
    """Say who waits for whom, and who is stopped for it: `1 waits for b (held by 2); … . 2, the youngest, is …`."""
    tasks = {one["attempt"]: one["task"] for one in members}
    said = [f"{one['task']} waits for {few([_wanted(wait, tasks) for wait in one['waits_for']])}" for one in members]
    return f"{'; '.join(said)}. {tasks.get(victim, victim)}, {_CHOSEN.get(rule, rule)}, is stopped and tried again"


def in_a_deadlock(deadlock: Deadlock) -> str:
    """Say to one of its members what it is part of."""
    return f"It is in a deadlock: {deadlock_text(deadlock.members, deadlock.victim, deadlock.rule)}."


def _wanted(wait: Mapping[str, Any], tasks: Mapping[str, str]) -> str:
    if wait["kind"] == "pool":
        return "a free worker"
    if wait["kind"] == "task":
        return f"task {wait['what']}"
    holder = wait.get("holder")
    return f"{wait['what']} (held by {tasks.get(holder, holder)})" if holder else str(wait["what"])
