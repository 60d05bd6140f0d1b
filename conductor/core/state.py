"""All that the machine knows. It changes in `conductor.core.apply` alone, by events of the journal alone.

Everything here follows from the journal, so that replay(journal) == state, compared by `digest`. What can be computed
from it (what is due, which task is next) lives in `agenda` and `schedule` and is thrown away at will.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from bus.wire import AttemptId, TaskId
from conductor.core import graph
from conductor.core.events import AttemptEnded
from conductor.core.graph import Graph
from conductor.core.health import Health, ProviderPause
from conductor.core.task import (
    Blocked,
    Cancelled,
    Done,
    Exited,
    Failed,
    Group,
    Pending,
    Plan,
    Running,
    RunOptions,
    Skipped,
    Status,
    TaskSpec,
)
from conductor.core.transitions import STATUSES, Phase, StatusType
from conductor.core.waits import Deadlock, Grant, Life, Wait

MAX_STORY = 24
"""Events that a task's story keeps."""

MAX_PROGRESS = 1000
"""Characters that are kept of what a worker reports of its progress; all of it is in the journal."""

ALIVE: tuple[StatusType, ...] = (Running, Exited)
"""Statuses that hold a slot."""

FINAL: tuple[StatusType, ...] = (Done, Failed, Blocked, Skipped, Cancelled)
"""Statuses that end a task, for this round."""


@dataclass(slots=True)
class Task:
    """One task of the plan and what became of it."""

    spec: TaskSpec
    open: int
    """Dependencies that are not done."""
    status: Status = field(default_factory=Pending)
    attempt: AttemptId | None = None
    """The newest attempt, whether alive or not. Events of any other are late."""
    number: int = 0
    """Of the newest attempt; never used twice, also not in later rounds."""
    started: int = 0
    """Ended attempts whose command was exec'ed, in all rounds since the task was set back last."""
    used: int = 0
    """Retries used up in this round: counted ends."""
    uncounted: dict[str, int] = field(default_factory=dict)
    """Ends in this round that use up no retry, by kind; each kind has a ceiling."""
    last: AttemptEnded | None = None
    """The newest verdict."""
    report: Mapping[str, Any] | None = None
    """What the newest attempt said of itself by `bus complete|fail`."""
    progress: tuple[float | None, str] | None = None
    usage: Mapping[str, Any] | None = None
    life: Life | None = None
    """What the evidence says of the newest attempt; None until it says anything else than that it works."""
    stale: bool = False
    """Whether a grant was taken from the newest attempt by force: what it achieves must not count."""
    commit: str | None = None
    started_at: float | None = None
    """Wall clock at the dispatch of the newest attempt; for people."""
    ended_at: float | None = None
    """Wall clock at the newest verdict or the task's final event; for people."""
    story: tuple[str, ...] = ()
    """The last events that concerned the task, oldest first."""
    ordered: tuple[str, str, str] | None = None
    """An operator's order that is not carried out yet: verb (`cancel`, `complete`, `fail`, `approve`, `reject`, or
    `timeout` of a manual task's own limit), who, and a text, perhaps empty. It outlives a round that is over."""
    approved: bool = False
    """Whether somebody let the task begin; holds until it fails or is cancelled."""
    letters: dict[str, str] = field(default_factory=dict)
    """What operators told the newest attempt (answers, steering), by the name of its file, to be delivered again by a
    conductor that takes over."""

    @property
    def id(self) -> TaskId:
        """The task's id."""
        return self.spec.id

    @property
    def index(self) -> int:
        """The task's place in the plan."""
        return self.spec.index


@dataclass(slots=True)
class Run:
    """The round that is going on, or was the last."""

    id: str
    plan_sha: str
    project: str
    options: RunOptions
    started_at: float
    """Wall clock; for people."""
    phase: Phase = Phase.RUNNING
    reloaded: int = 0
    """How often the plan was read again in the round."""
    resumed: int = 0
    """How often a conductor took the round over."""
    stopping: bool = False
    """Whether running attempts are to be stopped (while draining)."""
    stopped_by: str | None = None
    """Who asked for the end: `signal:TERM`, `operator:<user>`."""
    gave_up: str | None = None
    """Why nothing new starts although nobody asked for an end: `fail_fast`, `restart_intensity`."""
    told: bool = False
    """Whether the journal tells that it gave up, since a conductor began or took the round over."""
    said: str | None = None
    """The reason that it told of last, as long as that holds."""
    heard: bool = False
    """Whether all who wait for what is not started any more have had time to hear of it."""
    restarts: list[float] = field(default_factory=list)
    """Journal times at which retries were scheduled: since the last success, within the window, oldest first."""
    source_sha: str | None = None
    """SHA-256 of the file that the plan was read from, as it was last seen; None where that was not noted."""
    edited: tuple[str, ...] = ()
    """What is different in that file since the round began, in words."""
    paused_by: str | None = None
    """Who asked that nothing new is started; None while the run is not paused."""
    spent: float = 0.0
    """US dollars that ended attempts of this round reported; those of running ones come on top."""
    since: float = 0.0
    """Journal time at which the conductor of now began."""
    seen: float = 0.0
    """Journal time of the newest event."""
    worked: float = 0.0
    """Seconds that earlier conductors of this round were at work, as far as their events tell."""
    groups_since: dict[str, float] = field(default_factory=dict)
    """By group with a time limit of which a task was started: when the first one was, on `clock`."""
    groups_expired: list[str] = field(default_factory=list)
    """Groups whose time limit has run out."""
    end: str | None = None
    """done | failed | stopped | escalated, once ended."""
    reason: str | None = None
    ended_at: float | None = None

    def clock(self, now: float) -> float:
        """Return the seconds of the round with a conductor at work, at the journal time `now`."""
        return self.worked + now - self.since


@dataclass(slots=True)
class State:
    """Everything. Tasks are in plan order."""

    plan: Plan = field(default_factory=lambda: Plan(()))
    run: Run | None = None
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    running: dict[TaskId, None] = field(default_factory=dict)
    """Tasks whose attempt holds a slot, in order of dispatch."""
    reconciling: dict[TaskId, None] = field(default_factory=dict)
    """Tasks whose running attempt a new conductor has not found again yet; nothing starts before it has."""
    retired: dict[TaskId, int] = field(default_factory=dict)
    """Last attempt numbers of tasks that a later plan left out."""
    unkillable: dict[AttemptId, TaskId] = field(default_factory=dict)
    """Attempts that were given up as nothing could end them, until a round begins: before it does, they are seen gone.
    Neither a reset nor another plan makes them go."""
    reset_at: float | None = None
    """Wall clock when everything was set back, until a round begins; for people."""
    grants: dict[str, Grant] = field(default_factory=dict)
    """What attempts hold, by `waits.name_of`; those of ended attempts until they are gone."""
    waits: dict[str, Wait] = field(default_factory=dict)
    """What attempts wait for, likewise."""
    deadlocks: dict[str, Deadlock] = field(default_factory=dict)
    """Deadlocks whose victim has not ended yet, by id."""
    wanted: dict[TaskId, tuple[TaskId, ...]] = field(default_factory=dict)
    """By victim of a deadlock, until its next attempt: the tasks that it waited for. They go first."""
    ignored: dict[str, int] = field(default_factory=dict)
    """Late and repeated events, counted by type."""
    paused_ahead: str | None = None
    """Who asked, while no conductor was at work, that the next one begins paused."""
    health: dict[str, Health] = field(default_factory=dict)
    """By worker kind, over all rounds."""
    providers: dict[str, ProviderPause] = field(default_factory=dict)
    """Worker kinds that are paused."""
    tally: dict[StatusType, int] = field(default_factory=lambda: dict.fromkeys(STATUSES, 0))
    """Number of tasks in each status."""
    graph: Graph = field(default_factory=lambda: graph.build(()))
    """Follows from `plan`."""
    timed: dict[TaskId, tuple[Group, ...]] = field(default_factory=dict)
    """Groups with a time limit, by task. Follows from `plan`."""
    order: list[Task] = field(default_factory=list)
    """The tasks by place in the plan."""
    _ranks: tuple[Graph, list[int], list[int]] | None = field(default=None, compare=False, repr=False)
    """Follow from `plan`; kept for the graph that they were made for."""

    def follow(self, plan: Plan) -> None:
        """Take over a plan, and what follows from it alone; the tasks are the caller's."""
        self.plan, self.graph, self.timed = plan, graph.build(plan.tasks), {}
        for group in plan.groups:
            for id in group.tasks if group.timeout else ():
                self.timed[id] = (*self.timed.get(id, ()), group)

    @property
    def phase(self) -> Phase:
        """Where the run stands."""
        return self.run.phase if self.run else Phase.NEVER

    def ranks(self) -> tuple[list[int], list[int]]:
        """Return the rank of each task by its place in the plan (0 is the highest priority), and the place of each
        rank. Not to be changed."""
        if self._ranks is None or self._ranks[0] is not self.graph:
            rank_of = graph.ranks(self.plan, self.graph)
            by_rank = [0] * len(rank_of)
            for index, rank in enumerate(rank_of):
                by_rank[rank] = index
            self._ranks = self.graph, rank_of, by_rank
        return self._ranks[1], self._ranks[2]

    def open_attempts(self) -> list[AttemptId]:
        """Return the attempts that hold a slot, in order of dispatch."""
        found = (self.tasks[task].attempt for task in self.running)
        return [attempt for attempt in found if attempt is not None]

    def stopping_attempts(self) -> list[AttemptId]:
        """Return the attempts that were told to stop and hold a slot still, in order of dispatch."""
        statuses = (self.tasks[task].status for task in self.running)
        return [status.attempt for status in statuses if isinstance(status, (Running, Exited)) and status.stopping]

    def recount(self) -> None:
        """Make `tally` agree with the tasks."""
        self.tally = dict.fromkeys(STATUSES, 0)
        for task in self.order:
            self.tally[type(task.status)] += 1

    def reconciling_attempts(self) -> list[tuple[TaskId, AttemptId]]:
        """Return the attempts that a new conductor must find first: adopted, with a result, gone, or never launched."""
        found = ((task, self.tasks[task].status) for task in self.reconciling)
        return [(task, status.attempt) for task, status in found if isinstance(status, Running)]

    def dependencies(self, task: Task) -> Iterator[Task]:
        """Yield the direct dependencies."""
        return (self.order[index] for index in self.graph.dependencies[task.index])

    def dependants(self, task: Task) -> Iterator[Task]:
        """Yield the tasks that depend directly on this one, in plan order."""
        return (self.order[index] for index in self.graph.dependants[task.index])


def digest(state: State) -> str:
    """Return the SHA-256 of everything that follows from the journal."""
    hashed = hashlib.sha256()
    slots = (list(state.running), list(state.reconciling), state.grants, state.waits, state.deadlocks)
    head = (state.run, *slots, state.wanted, state.retired, state.unkillable, state.reset_at, state.ignored)
    hashed.update(_ENCODER.encode((*head, state.paused_ahead, state.health, state.providers)).encode())
    for task in state.order:
        values = [task.id, type(task.status).__name__, *(getattr(task, name) for name in _TASK_FIELDS)]
        hashed.update(_ENCODER.encode(values).encode())
    return hashed.hexdigest()


_TASK_FIELDS = tuple(f.name for f in fields(Task) if f.name != "spec")


def _plain(value: Any) -> Any:
    """What stands for a value that JSON has no word for."""
    if isinstance(value, Phase):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


_ENCODER = json.JSONEncoder(sort_keys=True, default=_plain)
