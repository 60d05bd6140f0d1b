"""The words of the journal about what attempts hold, what they wait for, and whether they live.

The files of grants and waits are the truth; each pass of the conductor lists them, and what is new or gone becomes a
fact. `conductor.core.events` has all other words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bus.wire import AttemptId, TaskId

# --- facts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GrantSeen:
    """An attempt holds a lock on these keys."""

    TYPE: ClassVar[str] = "GRANT_SEEN"
    task: TaskId
    attempt: AttemptId
    grant: str
    """The grant's id."""
    keys: tuple[str, ...]
    shared: bool
    token: int


@dataclass(frozen=True, slots=True)
class GrantGone:
    """A lock is held no longer. Also of an attempt that is over by now."""

    TYPE: ClassVar[str] = "GRANT_GONE"
    task: TaskId
    attempt: AttemptId
    grant: str
    how: str
    """`released` by its holder, `closed` with its attempt, or `taken` by an operator."""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitBegan:
    """A process of an attempt waits for a lock, for tasks, or for the answer to a question."""

    TYPE: ClassVar[str] = "WAIT_BEGAN"
    task: TaskId
    attempt: AttemptId
    wait: str
    """The wait's id."""
    kind: str
    """`lock`, `task` or `question`."""
    what: tuple[str, ...]
    """Keys, or ids of tasks."""
    shared: bool = False
    ticket: int = 0
    text: str = ""
    """The question."""


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """It waits no longer, whatever came of it. Also of an attempt that is over by now."""

    TYPE: ClassVar[str] = "WAIT_ENDED"
    task: TaskId
    attempt: AttemptId
    wait: str
    how: str


@dataclass(frozen=True, slots=True)
class AttemptLife:
    """The evidence says something else of a running attempt than before. Recorded on change only."""

    TYPE: ClassVar[str] = "ATTEMPT_LIFE"
    task: TaskId
    attempt: AttemptId
    life: str
    """starting | working | quiet | stuck | finished | unkillable."""
    detail: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


# --- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeadlockDetected:
    """Attempts wait for each other, and none of them can go on. `task` and `attempt` are the victim's."""

    TYPE: ClassVar[str] = "DEADLOCK_DETECTED"
    task: TaskId
    attempt: AttemptId
    id: str
    victim: AttemptId
    members: tuple[Mapping[str, Any], ...]
    """`{"task", "attempt", "waits_for": [{"kind", "what", "holder"}]}` of each; kind is lock, task or pool."""
    rule: str


@dataclass(frozen=True, slots=True)
class DeadlockResolved:
    """The victim's attempt has ended; what it held is free. `task` and `attempt` are the victim's."""

    TYPE: ClassVar[str] = "DEADLOCK_RESOLVED"
    task: TaskId
    attempt: AttemptId
    id: str
    victim: AttemptId


WaitFact = GrantSeen | GrantGone | WaitBegan | WaitEnded | AttemptLife
WaitDecision = DeadlockDetected | DeadlockResolved
