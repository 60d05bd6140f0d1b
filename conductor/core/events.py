"""What can happen, in the past tense: the facts that the conductor finds, and the decisions that the machine takes.

Each class is one word of the journal (`TYPE`); its fields are the payload, except `task` and `attempt`, which stand in
the envelope. Facts are journaled and then applied; decisions are made by `Machine.handle`, journaled right behind the
fact that caused them, and applied by a replay. `conductor.core.codec` turns both into payloads and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bus.wire import AttemptId, ExitRecord, TaskId
from conductor.core.supervision import (
    ApprovalAsked,
    ManualOpened,
    PlanReloaded,
    ProviderPaused,
    ProviderResumed,
    RunGaveUp,
    TaskCancelled,
    UsageReported,
)
from conductor.core.task import Plan, RunOptions
from conductor.core.wait_events import WaitDecision, WaitFact

# --- facts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A round begins: the first one, or a new one after RUN_ENDED. Whatever is not done goes back to pending."""

    TYPE: ClassVar[str] = "RUN_STARTED"
    run: str
    """Id of the run (of the round), 16 hex digits."""
    plan_sha: str
    project: str
    options: RunOptions
    plan: Plan = field(compare=False, repr=False)
    """Not in the payload: the codec finds it by `plan_sha`."""
    source_sha: str | None = None
    """SHA-256 of the file that the plan was read from, so that an edit is seen without reading it as a plan."""
    taken: Mapping[str, int] = field(default_factory=dict)
    """By task, the highest number of an attempt of which the journal, which lost its end, does not tell any more."""


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A conductor took over a run that has not ended (a crash). Same plan and budgets, perhaps other options."""

    TYPE: ClassVar[str] = "RUN_RESUMED"
    run: str
    options: RunOptions
    from_seq: int


@dataclass(frozen=True, slots=True)
class ResultReceived:
    """`exit.json` of an attempt was read, by its message or from the file. The first one counts."""

    TYPE: ClassVar[str] = "RESULT"
    task: TaskId
    attempt: AttemptId
    exit: ExitRecord


@dataclass(frozen=True, slots=True)
class ReportReceived:
    """`bus complete|fail`: evidence from inside the attempt, never an end."""

    TYPE: ClassVar[str] = "REPORT"
    task: TaskId
    attempt: AttemptId
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProgressReceived:
    """`bus progress`: shown, changes no decision."""

    TYPE: ClassVar[str] = "PROGRESS"
    task: TaskId
    attempt: AttemptId
    pct: float | None
    text: str


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """The worker is dead, `exit.json` does not exist, and the tree was proved empty.

    `started` is False where no command pid is known: then the attempt never started.
    """

    TYPE: ClassVar[str] = "WORKER_GONE"
    task: TaskId
    attempt: AttemptId
    started: bool
    detail: str
    reboot: bool = False
    """Whether the machine was restarted since the attempt began: its end is nobody's fault."""


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """The launcher could not make a worker; nothing of the attempt runs."""

    TYPE: ClassVar[str] = "LAUNCH_FAILED"
    task: TaskId
    attempt: AttemptId
    error: str
    conductor_died: bool = False
    """Whether the conductor died between the record and the launch: the attempt was never tried, and costs nothing."""


@dataclass(frozen=True, slots=True)
class AttemptAdopted:
    """A new conductor found the attempt alive and goes on watching it."""

    TYPE: ClassVar[str] = "ATTEMPT_ADOPTED"
    task: TaskId
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer of the machine ran out."""

    TYPE: ClassVar[str] = "TIMER_FIRED"
    key: str


@dataclass(frozen=True, slots=True)
class ControlReceived:
    """An operator's verb, or a signal: `drain` (Ctrl-C once, `stop --drain`), `stop` (Ctrl-C twice, TERM, `stop`),
    `reset`, which is recorded only while no round is under way, and the orders of `conductor.core.orders`.

    Verbs that the machine does not know are ignored by name (they are journaled and shown).
    """

    TYPE: ClassVar[str] = "CONTROL"
    verb: str
    who: str
    """`signal:INT`, `signal:TERM`, `operator:<user>`, or `claim` (a file that somebody made in `events/`)."""
    target: str | None = None
    """A task; of `answer` the question, of `unlock` a path, of `resume` the worker kind or nothing."""
    text: str | None = None
    tasks: tuple[TaskId, ...] = ()
    """The tasks that the order changes, found by `Machine.resolve` before it is recorded. Of `reset` with a target: the
    target and all that depend on it. Of `retry`: all that go back to pending. Of orders about one task: that one."""
    refused: str | None = None
    """Why it means nothing now, in a sentence; found by `Machine.resolve`. A refused order changes nothing."""
    task: TaskId | None = None
    """The task that the order is about, found by `Machine.resolve`, so that its story tells of it."""
    ahead: bool = False
    """Whether it was recorded while no conductor was at work: a `pause` then holds for the next one."""


@dataclass(frozen=True, slots=True)
class PlanEdited:
    """The file that the plan was read from is another one now. It changes nothing in this round."""

    TYPE: ClassVar[str] = "PLAN_EDITED"
    source: str
    sha256: str
    changes: tuple[str, ...] = ()
    """What is different, in words; empty where the file is too large to be read on the way."""


# --- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerDispatched:
    """The intent to start an attempt; journaled before anything of it exists."""

    TYPE: ClassVar[str] = "WORKER_DISPATCHED"
    task: TaskId
    attempt: AttemptId
    number: int
    nonce: str


@dataclass(frozen=True, slots=True)
class StopDecided:
    """An attempt is to be ended, for `reason` (a failure class)."""

    TYPE: ClassVar[str] = "STOP"
    task: TaskId
    attempt: AttemptId
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The verdict on one attempt. `error_class` None is success."""

    TYPE: ClassVar[str] = "ATTEMPT_ENDED"
    task: TaskId
    attempt: AttemptId
    number: int
    error_class: str | None
    message: str
    started: bool
    counted: bool
    """Whether it uses up one of the task's retries."""
    exit: Mapping[str, Any] | None
    """`{"code": …, "signal": …}` of the command."""
    evidence: Mapping[str, Any]
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """Another attempt will be made after `delay` seconds."""

    TYPE: ClassVar[str] = "RETRY_SCHEDULED"
    task: TaskId
    number: int
    """Of the attempt to come."""
    delay: float
    error_class: str


@dataclass(frozen=True, slots=True)
class TaskCompleted:
    """Final: done."""

    TYPE: ClassVar[str] = "TASK_COMPLETE"
    task: TaskId
    attempt: AttemptId | None
    task_id: TaskId
    commit_sha: str | None
    files_modified: tuple[str, ...]
    unblocks: tuple[TaskId, ...]
    """Tasks whose last open dependency this was, in plan order."""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """Final for this round: failed."""

    TYPE: ClassVar[str] = "TASK_FAILED"
    task: TaskId
    attempt: AttemptId | None
    task_id: TaskId
    error: str
    error_class: str


@dataclass(frozen=True, slots=True)
class TaskBlocked:
    """Final for this round: a dependency, near or far, failed or was cancelled."""

    TYPE: ClassVar[str] = "TASK_BLOCKED"
    task: TaskId
    task_id: TaskId
    blocked_by: tuple[TaskId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class TaskSkipped:
    """Final for this round: not started when the run ended, or not named by `--only`."""

    TYPE: ClassVar[str] = "TASK_SKIPPED"
    task: TaskId
    task_id: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The round is over. `state`: done | failed | stopped | escalated."""

    TYPE: ClassVar[str] = "RUN_ENDED"
    state: str
    reason: str | None
    """`stopped` where an operator or a signal ended it, `fail_fast`, …; None where the plan was worked off."""
    counts: Mapping[str, int]


Fact = (
    RunStarted
    | RunResumed
    | ResultReceived
    | ReportReceived
    | ProgressReceived
    | WorkerGone
    | LaunchFailed
    | AttemptAdopted
    | TimerFired
    | ControlReceived
    | PlanEdited
    | WaitFact
    | PlanReloaded
    | UsageReported
)
Decision = (
    WorkerDispatched
    | StopDecided
    | AttemptEnded
    | RetryScheduled
    | TaskCompleted
    | TaskFailed
    | TaskBlocked
    | TaskSkipped
    | TaskCancelled
    | ApprovalAsked
    | ManualOpened
    | ProviderPaused
    | ProviderResumed
    | RunGaveUp
    | RunEnded
    | WaitDecision
)
Event = Fact | Decision
