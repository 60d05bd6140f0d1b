"""What attempts hold and wait for, and what is known of their lives: the values that the state keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bus.wire import AttemptId, TaskId

DEADLOCK_VICTIM = "deadlock_victim"
"""Class of an attempt that was stopped to end a deadlock."""

STALE_TOKEN = "stale_token"
"""Class of an attempt one of whose grants was taken from it by force: nothing that it achieved may count."""

HUNG = "hung"
"""Class of an attempt that was quiet for longer than its task allows."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A lock that an attempt holds, on all its keys at once."""

    id: str
    task: TaskId
    attempt: AttemptId
    keys: tuple[str, ...]
    """Canonical: relative to the project."""
    shared: bool
    token: int
    """Grows with each grant of the bus."""
    since: float
    """Wall clock when it was seen first; for people."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Something that an attempt waits for."""

    id: str
    task: TaskId
    attempt: AttemptId
    kind: str
    """`lock`, `task`, or `question` (the answer of a person)."""
    what: tuple[str, ...]
    """Keys of files, ids of tasks; empty for a question."""
    shared: bool
    """Of a lock: whether it lets others hold the same keys shared."""
    ticket: int
    """Who waits for a lock stands behind all older waiters for its keys."""
    text: str
    """The question."""
    since: float
    """Wall clock when it was seen first; for people."""


@dataclass(frozen=True, slots=True)
class Life:
    """What the evidence says of a running attempt: see `conductor.core.liveness`."""

    life: str
    """starting | working | quiet | stuck | finished | unkillable."""
    detail: str
    """In words for people."""
    evidence: Mapping[str, Any]
    since: float
    """Wall clock; for people."""


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Attempts that wait for each other, from when that was found until the victim's attempt has ended."""

    id: str
    victim: AttemptId
    victim_task: TaskId
    members: tuple[Mapping[str, Any], ...]
    """`{"task", "attempt", "waits_for": [{"kind", "what", "holder"}]}` of each, the victim among them."""
    rule: str
    """By which the victim was chosen: `youngest`, `oldest` or `fewest-locks`."""
    since: float
    """Wall clock; for people."""


def name_of(attempt: AttemptId, id: str) -> str:
    """Return the key under which the state keeps a grant or a wait: the stem of its file on the bus."""
    return f"{attempt}.{id}"
