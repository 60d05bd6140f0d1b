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
    AwaitsApproval,
    Backoff,
    Blocked,
    Cancelled,
    Done,
    Ended,
    Exited,
    Failed,
    Manual,
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
    AwaitsApproval,
    Manual,
)

DEPENDENCIES_DONE: Final = "DEPENDENCIES_DONE"
"""Part of the TASK_COMPLETE of the last open dependency; no record of its own."""

ATTEMPT_STOPPED: Final = "ATTEMPT_STOPPED"
"""An ATTEMPT_ENDED of class `stopped`, `conductor_died` or `shortage`: the task goes back, as if the attempt had not
been made."""

RESET: Final = "RESET"
"""A CONTROL `reset` that names tasks, for each of them."""

ATTEMPT_GIVEN_UP: Final = "ATTEMPT_GIVEN_UP"
"""An ATTEMPT_ENDED of class `unkillable`: what cannot be ended is left behind, and nothing else is left to wait for."""

RETRY: Final = "RETRY"
"""A CONTROL `retry`, for each task that it takes back."""

APPROVE: Final = "APPROVE"
"""A CONTROL `approve` of a task that has not begun."""

RELOADED: Final = "RELOADED"
"""A PLAN_RELOADED, for each task that it leaves with an open dependency."""

RESET_ALL: Final = "RESET_ALL"
"""A CONTROL `reset` that names none: the run is forgotten."""

_: Final = IGNORED
X: Final = ILLEGAL


def _row(otherwise: Cell, *targets: tuple[Cell, *tuple[StatusType, ...]]) -> tuple[Cell, ...]:
    """Return a row: of each target, what follows and the statuses in which it does; `otherwise` in all others."""
    cells = {status: cell for cell, *statuses in targets for status in statuses}
    return tuple(cells.get(status, otherwise) for status in STATUSES)


_ROWS: Final[Mapping[str, tuple[Cell, ...]]] = {
    "RUN_STARTED": _row(
        X, (Pending, Pending, Ready, Failed, Blocked, Skipped, Cancelled, AwaitsApproval, Manual), (_, Done)
    ),
    DEPENDENCIES_DONE: _row(_, (Ready, Pending)),
    "WORKER_DISPATCHED": _row(X, (Running, Ready)),
    "ATTEMPT_ADOPTED": _row(X, (Running, Running)),
    "REPORT": _row(_, (Running, Running)),
    "PROGRESS": _row(_, (Running, Running)),
    "USAGE": _row(_, (Running, Running)),
    "STOP": _row(X, (Running, Running)),
    "RESULT": _row(_, (Exited, Running)),
    "WORKER_GONE": _row(_, (Exited, Running)),
    "LAUNCH_FAILED": _row(_, (Exited, Running)),
    "ATTEMPT_ENDED": _row(X, (Ended, Exited)),
    ATTEMPT_STOPPED: _row(X, (Ready, Exited)),
    ATTEMPT_GIVEN_UP: _row(X, (Ended, Running)),
    "RETRY_SCHEDULED": _row(X, (Backoff, Ended)),
    "TIMER_FIRED": _row(_, (Ready, Backoff)),
    "APPROVAL_ASKED": _row(X, (AwaitsApproval, Ready, Ended, Manual)),
    "MANUAL_OPENED": _row(X, (Manual, Ready)),
    "TASK_COMPLETE": _row(X, (Done, Pending, Ready, Backoff, Ended, AwaitsApproval, Manual)),
    "TASK_FAILED": _row(X, (Failed, Ended, AwaitsApproval, Manual)),
    "TASK_BLOCKED": _row(X, (Blocked, Pending)),
    "TASK_SKIPPED": _row(X, (Skipped, Pending, Ready, Backoff, Ended, AwaitsApproval, Manual)),
    "TASK_CANCELLED": _row(X, (Cancelled, Pending, Ready, Backoff, Ended, AwaitsApproval, Manual)),
    "RUN_ENDED": _row(_, (Ready, Backoff), (X, Running, Exited, Ended)),
    "GRANT_SEEN": _row(_, (Running, Running)),
    "GRANT_GONE": STATUSES,
    "WAIT_BEGAN": _row(_, (Running, Running)),
    "WAIT_ENDED": STATUSES,
    "ATTEMPT_LIFE": _row(_, (Running, Running)),
    "DEADLOCK_DETECTED": _row(X, (Running, Running)),
    "DEADLOCK_RESOLVED": STATUSES,
    APPROVE: _row(_, (Ready, AwaitsApproval)),
    RETRY: _row(_, (Ready, Backoff), (Pending, Failed, Blocked, Skipped, Cancelled)),
    RELOADED: _row(_, (Pending, Pending, Ready, Backoff, Blocked, AwaitsApproval, Manual), (X, Exited, Ended)),
    RESET: _row(X, (Pending, Pending, Ready, Done, Failed, Blocked, Skipped, Cancelled, AwaitsApproval, Manual)),
}

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
    "PLAN_RELOADED": (_, Phase.RUNNING, Phase.DRAINING, _),
    "RUN_GAVE_UP": (X, Phase.RUNNING, Phase.DRAINING, X),
    RESET_ALL: (_, _, _, Phase.NEVER),
}
RUN_EVENTS: Final = tuple(_RUN_ROWS)
RUN_TABLE: Final[Mapping[tuple[Phase, str], Phase | Verdict]] = {
    (phase, event): cell for event, row in _RUN_ROWS.items() for phase, cell in zip(Phase, row, strict=True)
}
"""(phase, event) → what follows; DRAIN, STOP and RESET are verbs of CONTROL."""


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
