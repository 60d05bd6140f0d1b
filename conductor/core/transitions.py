"""The transition tables: what each event means in each status. Total by construction, one row per event.

A cell is the status that follows, `IGNORED` (late or repeated, without meaning here: counted) or `ILLEGAL` (impossible:
`IllegalTransition`, and nothing has changed). The state diagram in `docs/states.md` is made from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from bus.wire import TaskId
from conductor.core.task import (
    Backoff,
    Blocked,
    Cancelled,
    Done,
    Ended,
    Exited,
    Failed,
    Pending,
    Ready,
    Running,
    Skipped,
    Status,
)


class Verdict(Enum):
    """A cell that is no target."""

    IGNORED = "ignored"
    ILLEGAL = "illegal"


IGNORED: Final = Verdict.IGNORED
ILLEGAL: Final = Verdict.ILLEGAL

StatusType = type[Status]
Cell = StatusType | Verdict

STATUSES: Final[tuple[StatusType, ...]] = (
    Pending,
    Ready,
    Backoff,
    Running,
    Exited,
    Ended,
    Done,
    Failed,
    Blocked,
    Skipped,
    Cancelled,
)

DEPENDENCIES_DONE: Final = "DEPENDENCIES_DONE"
"""Part of the TASK_COMPLETE of the last open dependency; no record of its own."""

ATTEMPT_STOPPED: Final = "ATTEMPT_STOPPED"
"""An ATTEMPT_ENDED of class `stopped`, `conductor_died` or `shortage`: the task goes back, as if the attempt had not
been made."""

RESET: Final = "RESET"
"""A CONTROL `reset` that names tasks, for each of them."""

RESET_ALL: Final = "RESET_ALL"
"""A CONTROL `reset` that names none: the run is forgotten."""

_ = IGNORED
X = ILLEGAL

# fmt: off
_ROWS: Final[Mapping[str, tuple[Cell, ...]]] = {
    #                    Pending  Ready    Backoff  Running  Exited  Ended    Done  Failed   Blocked  Skipped  Cancelled
    "RUN_STARTED":      (Pending, Pending, X,       X,       X,      X,       _,    Pending, Pending, Pending, Pending),
    DEPENDENCIES_DONE:  (Ready,   X,       X,       X,       X,      X,       _,    X,       X,       _,       _),
    "WORKER_DISPATCHED":(X,       Running, X,       X,       X,      X,       X,    X,       X,       X,       X),
    "ATTEMPT_ADOPTED":  (X,       X,       X,       Running, X,      X,       X,    X,       X,       X,       X),
    "REPORT":           (_,       _,       _,       Running, _,      _,       _,    _,       _,       _,       _),
    "PROGRESS":         (_,       _,       _,       Running, _,      _,       _,    _,       _,       _,       _),
    "STOP":             (X,       X,       X,       Running, X,      X,       X,    X,       X,       X,       X),
    "RESULT":           (_,       _,       _,       Exited,  _,      _,       _,    _,       _,       _,       _),
    "WORKER_GONE":      (_,       _,       _,       Exited,  _,      _,       _,    _,       _,       _,       _),
    "LAUNCH_FAILED":    (_,       _,       _,       Exited,  _,      _,       _,    _,       _,       _,       _),
    "ATTEMPT_ENDED":    (X,       X,       X,       X,       Ended,  X,       X,    X,       X,       X,       X),
    ATTEMPT_STOPPED:    (X,       X,       X,       X,       Ready,  X,       X,    X,       X,       X,       X),
    "RETRY_SCHEDULED":  (X,       X,       X,       X,       X,      Backoff, X,    X,       X,       X,       X),
    "TIMER_FIRED":      (_,       _,       Ready,   _,       _,      _,       _,    _,       _,       _,       _),
    "TASK_COMPLETE":    (Done,    Done,    Done,    X,       X,      Done,    X,    X,       X,       X,       X),
    "TASK_FAILED":      (X,       X,       X,       X,       X,      Failed,  X,    X,       X,       X,       X),
    "TASK_BLOCKED":     (Blocked, X,       X,       X,       X,      X,       X,    X,       X,       X,       X),
    "TASK_SKIPPED":     (Skipped, Skipped, Skipped, X,       X,      Skipped, X,    X,       X,       X,       X),
    "RUN_ENDED":        (_,       _,       Ready,   X,       X,      X,       _,    _,       _,       _,       _),
    "GRANT_SEEN":       (_,       _,       _,       Running, _,      _,       _,    _,       _,       _,       _),
    "GRANT_GONE":       STATUSES,
    "WAIT_BEGAN":       (_,       _,       _,       Running, _,      _,       _,    _,       _,       _,       _),
    "WAIT_ENDED":       STATUSES,
    "ATTEMPT_LIFE":     (_,       _,       _,       Running, _,      _,       _,    _,       _,       _,       _),
    "DEADLOCK_DETECTED":(X,       X,       X,       Running, X,      X,       X,    X,       X,       X,       X),
    "DEADLOCK_RESOLVED":STATUSES,
    RESET:              (Pending, Pending, X,       X,       X,      X,    Pending, Pending, Pending, Pending, Pending),
}
# fmt: on

TASK_EVENTS: Final = tuple(_ROWS)
TASK_TABLE: Final[Mapping[tuple[StatusType, str], Cell]] = {
    (status, event): cell for event, row in _ROWS.items() for status, cell in zip(STATUSES, row, strict=True)
}
"""(status, event) → what follows."""


class Phase(Enum):
    """Where a run stands."""

    NEVER = "never_run"
    RUNNING = "running"
    DRAINING = "draining"
    """Nothing new starts; running attempts end, by themselves or because they are stopped."""
    ENDED = "ended"


_RUN_ROWS: Final[Mapping[str, tuple[Phase | Verdict, ...]]] = {
    "RUN_STARTED": (Phase.RUNNING, X, X, Phase.RUNNING),
    "RUN_RESUMED": (X, Phase.RUNNING, Phase.RUNNING, X),
    "RUN_ENDED": (X, Phase.ENDED, Phase.ENDED, X),
    "DRAIN": (_, Phase.DRAINING, Phase.DRAINING, _),
    "STOP": (_, Phase.DRAINING, Phase.DRAINING, _),
    RESET: (_, _, _, Phase.ENDED),
    RESET_ALL: (_, _, _, Phase.NEVER),
}
RUN_EVENTS: Final = tuple(_RUN_ROWS)
RUN_TABLE: Final[Mapping[tuple[Phase, str], Phase | Verdict]] = {
    (phase, event): cell for event, row in _RUN_ROWS.items() for phase, cell in zip(Phase, row, strict=True)
}
"""(phase, event) → what follows; DRAIN, STOP and RESET are the verbs of CONTROL."""


class IllegalTransition(Exception):
    """An event that cannot happen now. The state is as before.

    `story` is the filtered history of the task, oldest first: the last events that concerned it.
    """

    def __init__(self, event: str, where: str, *, task: TaskId | None = None, story: Sequence[str] = ()) -> None:
        told = f"; before it: {', '.join(story)}" if story else ""
        super().__init__(f"{event} is impossible for {f'task {task}' if task else 'the run'} in {where}{told}")
        self.event = event
        self.where = where
        self.task = task
        self.story = tuple(story)
