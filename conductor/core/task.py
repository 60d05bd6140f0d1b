"""The values that the core thinks in: the plan, the options of a run, the statuses of a task.

Frozen, without behaviour. A status carries exactly the data that makes sense in it, so that a start time without a
running attempt, or a failure without a class, cannot be written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bus.wire import AttemptId, ExitRecord, TaskId

PURE_READ = "pure_read"
"""The effect of a task that changes nothing."""

MAX_GROUP_WORKERS = 5
"""Workers of one parallel group that may run side by side, unless the group or `--max-workers` says otherwise."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task as the plan says it. None means "not said here": flags, defaults and built-in values fill in."""

    id: TaskId
    name: str
    index: int
    """Place in the plan, from 0: plan order."""
    type: str = "code"
    depends_on: tuple[TaskId, ...] = ()
    files: tuple[str, ...] = ()
    """Patterns, relative to the project, that the task writes (exclusive)."""
    reads: tuple[str, ...] = ()
    """Patterns that the task reads (shared)."""
    resources: tuple[str, ...] = ()
    """Other keys that two tasks must not hold at once."""
    estimate: float | None = None
    """Expected seconds; None is unknown."""
    phase: str | None = None
    locks: tuple[str, ...] | None = None
    """What its worker locks before its command starts, beside `files` (exclusive) and `reads` (shared); None: nothing,
    also no files, unless the run says `on_conflict="lock"`."""
    run: tuple[str, ...] | None = None
    """Argument list; None where the task has no command of its own."""
    agent: Mapping[str, Any] | None = None
    """`{"name": …, "model": …, "args": […]}`."""
    verify: tuple[tuple[str, ...], ...] = ()
    outputs: tuple[str, ...] = ()
    changes: str | None = None
    acceptance: str | None = None
    instructions: str | None = None
    timeout: float | None = None
    """Seconds; 0 means no limit."""
    stale_after: float | None = None
    """Seconds of silence after which its attempt is ended as hung; 0 is never, None is shown and not acted on."""
    retries: int | None = None
    leftovers: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    effect: str = "write"
    """`pure_read`, `write` or `external`: what a run with `parallel="pure-read"` may do side by side."""
    approve: str | None = None
    """`before` (a person lets it begin) or `after` (a person accepts its result); None is no gate."""
    manual: bool = False
    """A task for a person: it takes no slot, and is completed or failed from outside."""
    prose: str = ""
    """The section or check box of `plan.md` that belongs to the task, as text."""
    ticked: bool = False
    """Whether its check box is ticked."""
    line: int = 0
    """Line of its definition in the plan file, from 1; 0 where it has none."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys that we do not know, and known ones that nothing acts on yet, as text-preserving JSON data."""


@dataclass(frozen=True, slots=True)
class Group:
    """A parallel group: a cap on workers, otherwise a hint."""

    id: str
    tasks: tuple[TaskId, ...]
    max_workers: int | None = None
    timeout: float | None = None
    conflict_free: bool | None = None
    shared_resources: tuple[str, ...] = ()
    coordination_strategy: str | None = None
    note: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys that we do not know, as text-preserving JSON data."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that are checked before any work. None is unlimited."""

    max_workers: int | None = None
    max_fan_out: int | None = None
    """Tasks that may depend directly on one task."""
    max_join_width: int | None = None
    """Tasks that one task may depend on directly."""
    max_tasks: int | None = None
    max_plan_bytes: int | None = None
    run_timeout: float | None = None
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True)
class PlanWarning:
    """Something odd in a plan that does not stop the run."""

    code: str
    message: str
    line: int = 0
    more: int = 0
    """Of a line that stands for others which were left out: how many."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A validated plan: ids unique, dependencies known, no cycle. Tasks are in plan order."""

    tasks: tuple[TaskSpec, ...]
    groups: tuple[Group, ...] = ()
    limits: Limits = field(default_factory=Limits)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """`{"timeout": seconds, "retries": int, "agent": …, "stale_after": …, …}` of the plan's `defaults`."""
    project: str | None = None
    """The plan's `project:` as written."""
    project_line: int = 0
    """Where it stands in `source`, from 1; 0 where it does not."""
    source: str = "plan.md"
    """File name, relative to the track, that the plan was read from."""
    warnings: tuple[PlanWarning, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the DAG that we do not know, as text-preserving JSON data."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is carried out: flags over the plan's defaults over configuration over built-in values, all resolved.

    Journaled whole with RUN_STARTED and RUN_RESUMED, because decisions depend on them. A task's own values win.
    """

    max_workers: int = 5
    group_workers: int | None = None
    """Cap for each group where `--max-workers` was given; None: the group's own, at most MAX_GROUP_WORKERS."""
    retries: int = 2
    timeout: float | None = 1800.0
    """Seconds for the command of one attempt; None is no limit."""
    stale_after: float = 600.0
    """Seconds of silence after which a worker is shown as quiet; 0 is never."""
    retry_delay: float = 1.0
    """Seconds before the first retry, doubling; the delay is drawn from [0, delay] (full jitter)."""
    retry_delay_max: float = 60.0
    on_conflict: str = "serialize"
    """Two tasks with overlapping files: `serialize` (never side by side), `lock` (side by side, each worker takes file
    locks before its command starts), or `allow`."""
    parallel: str = "any"
    """`any`, or `pure-read`: only tasks whose effect is `pure_read` run side by side, every other one alone."""
    schedule: str = "ready"
    """`ready` (whatever is ready), or `groups` (one parallel group after the other, in plan order)."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """How many tasks may hold a resource at once; one that is not named here is held by one."""
    deadlock_victim: str = "youngest"
    """Which attempt of a deadlock is stopped: `youngest`, `oldest`, `fewest-locks`."""
    breaker: int | None = None
    """Failures in a row of one kind of worker after which it is not started for `breaker_reset`; None is never."""
    breaker_reset: float = 300.0
    """Seconds of journal time until one attempt of that kind is tried again."""
    run_timeout: float | None = None
    """Seconds with a conductor after which nothing more is started; None is no limit."""
    budget_usd: float | None = None
    """US dollars, as reported by the workers, after which nothing more is started; None is no limit."""
    wait_for_people: bool = True
    """False (`--no-wait`): the run gives up once only a person, or a provider's limit, could move it on."""
    command: tuple[str, ...] | None = None
    """Template for tasks without `run`."""
    agent: str | None = None
    leftovers: str = "kill"
    only: tuple[TaskId, ...] | None = None
    ticked_done: tuple[TaskId, ...] = ()
    """Tasks that `--skip-ticked` takes as done."""
    fail_fast: bool = False
    restart_intensity: int | None = 20
    """Failed attempts with a retry left that may come within `restart_window` without a success in between; with one
    more the run gives up. None is no limit."""
    restart_window: float = 300.0
    """Seconds of journal time."""
    durability: str = "power"
    seed: int = 0
    """Nonces and jitter are drawn from it, so that a replay draws the same."""


# --- how an attempt can end ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vanished:
    """The worker is gone and left no result."""

    started: bool
    """Whether the command was exec'ed, as far as is known."""
    detail: str
    reboot: bool = False
    """Whether the machine was restarted since."""


@dataclass(frozen=True, slots=True)
class NotLaunched:
    """The launcher could not make a worker."""

    error: str
    conductor_died: bool = False
    """Whether the conductor died before it launched anything."""


Outcome = ExitRecord | Vanished | NotLaunched

# --- statuses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pending:
    """A dependency is not done."""


@dataclass(frozen=True, slots=True)
class Ready:
    """All dependencies are done; the task could start."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A retry is scheduled; the timer `retry:<task>` ends it."""

    delay: float
    since: float
    """Journal time (`JournalTime`) at which the delay began."""


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt holds a slot, from its dispatch to its journaled end."""

    attempt: AttemptId
    number: int
    stopping: str | None = None
    """The reason of STOP where one was journaled."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The attempt is over, the verdict on it is not journaled yet. Holds its slot; never outlives a pass."""

    attempt: AttemptId
    number: int
    stopping: str | None
    outcome: Outcome
    """What tells of the end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt's end is journaled, its consequence is not yet: complete, retry, or fail. Never outlives a pass."""

    attempt: AttemptId
    number: int
    error_class: str | None
    message: str
    counted: bool


@dataclass(frozen=True, slots=True)
class AwaitsApproval:
    """Stands at its gate: a person is to approve or reject it. No slot, no files."""

    when: str
    """`before` its first attempt, or `after` its work was done: that work outlives the round."""
    attempt: AttemptId | None
    """The attempt whose work is to be approved."""


@dataclass(frozen=True, slots=True)
class Manual:
    """A person is to do it: no slot, no files, and no time limit unless the task has one."""

    since: float
    """Seconds with a conductor in this round (`Run.clock`) at which it could be done."""


@dataclass(frozen=True, slots=True)
class Done:
    """Complete."""

    attempt: AttemptId | None
    """None where a ticked box was taken as done."""


@dataclass(frozen=True, slots=True)
class Failed:
    """No attempt is left, or another is not worth it."""

    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """A dependency, near or far, is failed or cancelled."""

    by: tuple[TaskId, ...]
    """The tasks that failed or were cancelled, in plan order; not the blocked ones in between."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Not started when the run ended, or not named by `--only`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Called off by an operator."""

    who: str


Status = (
    Pending
    | Ready
    | Backoff
    | Running
    | Exited
    | Ended
    | Done
    | Failed
    | Blocked
    | Skipped
    | Cancelled
    | AwaitsApproval
    | Manual
)

IDLE: tuple[type[Status], ...] = (Pending, Ready, Backoff, AwaitsApproval, Manual)
"""Statuses without an end and without an attempt that is alive."""
