"""`locks.json` and `worker-status.json`: what older tools and people read, at most once a second."""

from __future__ import annotations

from collections import deque
from typing import Any

from bus.contract import Host
from bus.times import utc
from bus.wire import AttemptId, Record, Stamp
from conductor.core.state import State

PERIOD = 1.0
"""Seconds between two writes."""

KEPT = 100
"""Ended workers that stay in the view, newest last."""

_ENDS = {"TASK_COMPLETE": "COMPLETE", "TASK_FAILED": "FAILED"}


class Views:
    """Writes the two views where something has changed since."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ended: deque[tuple[AttemptId, dict[str, Any]]] = deque(maxlen=KEPT)
        self._beats: dict[AttemptId, tuple[int, str]] = {}
        self._due = 0.0
        self._behind = False
        """Whether something was recorded since the last write."""

    def recorded(self, records: list[Record]) -> None:
        """Remember how workers ended."""
        self._behind = self._behind or bool(records)
        for record in records:
            if record.type in _ENDS and record.attempt is not None:
                entry = {"task_id": record.task, "status": _ENDS[record.type], "progress_pct": None}
                self._ended.append((record.attempt, {**entry, "last_heartbeat": record.timestamp}))

    def write(self, state: State, stamp: Stamp, *, at_once: bool = False) -> float | None:
        """Write the views if a second has passed, or `at_once`; return the seconds after which it is to be asked for
        again, None where that has time."""
        if stamp.mono < self._due and not at_once:
            return self._due - stamp.mono if self._behind else None
        self._due = stamp.mono + PERIOD
        self._behind = False
        workers: dict[str, Any] = dict(self._ended)
        for id in state.running:
            task = state.tasks[id]
            if task.attempt is not None:
                workers[task.attempt] = {
                    "task_id": id,
                    "status": "RUNNING",
                    "progress_pct": task.progress[0] if task.progress else None,
                    "last_heartbeat": self._last_beat(task.attempt, stamp, task.started_at),
                }
        self._beats = {attempt: beat for attempt, beat in self._beats.items() if attempt in workers}
        self._host.write_views(_locks(state), workers)
        return None

    def _last_beat(self, attempt: AttemptId, stamp: Stamp, started_at: float | None) -> str:
        """Return when we saw the heartbeat change last (the start before the first), on our own clock."""
        value = self._host.heartbeat(attempt)
        if value is None:
            return utc(started_at)
        if attempt not in self._beats or self._beats[attempt][0] != value:
            self._beats[attempt] = (value, utc(stamp.wall))
        return self._beats[attempt][1]


def _locks(state: State) -> dict[str, Any]:
    """What attempts hold locked, and the files that running tasks have declared: nobody else writes them meanwhile.

    Of what several share, the first holder is named.
    """
    declared = {
        pattern: _lock(state.tasks[id].attempt, state.tasks[id].started_at)
        for id in state.running
        for pattern in state.tasks[id].spec.files
    }
    held: dict[str, Any] = {}
    for grant in sorted(state.grants.values(), key=lambda grant: grant.token):
        for key in grant.keys:
            held.setdefault(key, {**_lock(grant.attempt, grant.since), "shared": grant.shared})
    return {**declared, **held}


def _lock(attempt: AttemptId | None, since: float | None) -> dict[str, Any]:
    """One entry in the shape of older tools. No lock ends by time."""
    return {"worker_id": attempt, "acquired_at": utc(since), "expires_at": None}
