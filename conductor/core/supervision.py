"""The words of supervision: gates and manual tasks, cancelled tasks, pauses of providers, giving up, usage, reload.

They belong to `conductor.core.events`, which joins all words of the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bus.wire import AttemptId, TaskId
from conductor.core.task import Plan

# --- facts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UsageReported:
    """What an attempt has used so far: `input_tokens`, `output_tokens`, `cost_usd`. The newest report counts."""

    TYPE: ClassVar[str] = "USAGE"
    task: TaskId
    attempt: AttemptId
    usage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlanReloaded:
    """An operator had the edited plan read again, and this round goes on with it."""

    TYPE: ClassVar[str] = "PLAN_RELOADED"
    plan_sha: str
    plan: Plan = field(compare=False, repr=False)
    """Not in the payload: the codec finds it by `plan_sha`."""
    source_sha: str
    """SHA-256 of the file that the plan was read from."""
    changes: tuple[str, ...]
    """What is different, in words."""


# --- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskCancelled:
    """Final for this round: called off."""

    TYPE: ClassVar[str] = "TASK_CANCELLED"
    task: TaskId
    task_id: TaskId
    who: str


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """The task waits at its gate until somebody approves or rejects it."""

    TYPE: ClassVar[str] = "APPROVAL_ASKED"
    task: TaskId
    when: str
    """`before` its first attempt, or `after` its work was done."""
    attempt: AttemptId | None
    """The attempt whose work is to be approved."""


@dataclass(frozen=True, slots=True)
class ManualOpened:
    """The task is for a person, and could be done now."""

    TYPE: ClassVar[str] = "MANUAL_OPENED"
    task: TaskId


@dataclass(frozen=True, slots=True)
class ProviderPaused:
    """No worker of this kind is started for a while."""

    TYPE: ClassVar[str] = "PROVIDER_PAUSED"
    provider: str
    """The worker kind: an agent's name, or `command:<program>`."""
    error_class: str
    """A provider's class, or `breaker`: too many failures in a row."""
    seconds: float | None
    """How long; None until an operator says `resume`."""


@dataclass(frozen=True, slots=True)
class ProviderResumed:
    """Workers of this kind are started again."""

    TYPE: ClassVar[str] = "PROVIDER_RESUMED"
    provider: str
    why: str


@dataclass(frozen=True, slots=True)
class RunGaveUp:
    """Nothing new is started any more in this round, although nobody asked for an end.

    It holds from its cause on, whether recorded or not: this tells people when. Only where the round cannot be done
    any more, and once for each conductor."""

    TYPE: ClassVar[str] = "RUN_GAVE_UP"
    reason: str
    """`fail_fast`, `restart_intensity`, `run_timeout`, `budget_exceeded`, `waits_for_people`, `provider_limit` or
    `unkillable`."""
    text: str = ""
    """The same in words, with the limit; older records lack it."""
    again: bool = False
    """Whether that was told before: by a conductor that this one took the round over from."""
