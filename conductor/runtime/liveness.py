"""Gathers the evidence on which running attempts are judged; `conductor.core.liveness` judges.

Heartbeats are polled, never watched. An age counts from when this conductor saw a thing change, on the clock of
`Attempts`, which leaves gaps out. Only a change of the judgement becomes a fact, so an attempt that simply works costs
no record, however long it takes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass

from bus.contract import Host
from bus.strict import number
from bus.wire import LOCKS, AttemptId, JsonObject, beat_period
from conductor.core.liveness import FINISHED, STUCK, UNKILLABLE, WORKING, Signs, judge
from conductor.core.state import State, Task
from conductor.core.task import RunOptions
from conductor.core.wait_events import AttemptLife
from conductor.runtime.attempts import Attempts, Standing
from conductor.runtime.command import stale_after, timeout_of

SHORTEST, LONGEST = 0.5, 5.0
"""Seconds between two looks at the heartbeats: as often as they come, within these bounds."""

BACKSTOP = 60.0
"""Seconds beyond the limit of its phase and the ladder after which a worker that gives no sign of life is ended."""


@dataclass(slots=True)
class _Watched:
    """What was seen of one attempt. Times are on the clock of `Attempts`."""

    seen_at: float
    """When its heartbeat was seen to change; when it was first looked at, before that."""
    heartbeat: int | None = None
    beat: JsonObject | None = None
    heard_at: float | None = None
    """When it last said something, or waited for something."""
    started: bool = False
    overdue: bool = False
    """Whether it was told that it is beyond its backstop."""


@dataclass(frozen=True, slots=True)
class _Pace:
    """How often an attempt should say something, in seconds."""

    stale_after: float | None
    period: float
    whole: float | None
    """All that its limits allow; None where it has none."""


class Liveness:
    """Watches the open attempts."""

    def __init__(self, host: Host, attempts: Attempts, *, heartbeat: float, stop_grace: float) -> None:
        """`heartbeat`: seconds between two beats, as workers are told; `stop_grace`: seconds that a stop may take."""
        self._host = host
        self._attempts = attempts
        self._heartbeat = heartbeat
        self._stop_grace = stop_grace
        self._watched: dict[AttemptId, _Watched] = {}
        self._look_at = 0.0

    def heard(self, attempts: Iterable[AttemptId | None]) -> None:
        """These attempts said something."""
        for attempt in attempts:
            if (one := self._watched.get(attempt) if attempt else None) is not None:
                one.heard_at = self._attempts.clock

    def next_look(self, now: float) -> float | None:
        """Return when to look next, in monotonic time; None where nobody is watched."""
        return now + max(self._look_at - self._attempts.clock, 0.0) if self._attempts.by_task() else None

    def look(self, state: State, over: Container[AttemptId | None] = ()) -> list[AttemptLife]:
        """Return which attempts, but for those that are over, are found to be something else than before."""
        open_ones, clock = self._attempts.by_task(), self._attempts.clock
        due = clock >= self._look_at
        if state.run is None or not open_ones or not (due or self._attempts.unsettled):
            return []
        if self._attempts.late:
            self._begin_again(clock)
        waiting = {wait.attempt for wait in state.waits.values()}
        found: list[AttemptLife] = []
        period = LONGEST
        for task_id, attempt in open_ones.items():
            task, standing = state.tasks.get(task_id), self._attempts.standing(attempt)
            if task is None or task.attempt != attempt or attempt in over or not (due or _is_at_its_end(standing)):
                continue
            pace = self._pace(task, state.run.options)
            period = min(period, pace.period or LONGEST)
            with suppress(OSError, ArithmeticError, TypeError, ValueError):  # it cannot be told now, or nobody can tell
                found += self._judge(task, attempt, standing, pace, waits=attempt in waiting)
        if due:
            self._look_at = clock + max(period, SHORTEST)
            self._watched = {
                attempt: self._watched[attempt] for attempt in open_ones.values() if attempt in self._watched
            }
        return found

    def _begin_again(self, clock: float) -> None:
        """This look came late: whoever is watched may have stood still as long, so nothing is held against anybody."""
        for one in self._watched.values():
            one.seen_at = clock

    def _pace(self, task: Task, options: RunOptions) -> _Pace:
        stale = stale_after(task.spec, options)
        timeout = timeout_of(task.spec, options)
        whole = timeout * (1 + len(task.spec.verify)) if timeout else None
        return _Pace(stale, beat_period(self._heartbeat, stale), whole)

    def _judge(
        self, task: Task, attempt: AttemptId, standing: Standing, pace: _Pace, *, waits: bool
    ) -> list[AttemptLife]:
        clock = self._attempts.clock
        one = self._see(attempt, standing, waits=waits)
        signs = Signs(
            opened=standing.age,
            claimed=one.started or self._host.read_proc(attempt) is not None,
            started=one.started,
            beat=one.beat,
            beat_age=clock - one.seen_at if pace.period else 0.0,
            message_age=None if one.heard_at is None else clock - one.heard_at,
            period=pace.period,
            finished=standing.finished,
            left=standing.left,
            waits=waits,
        )
        was = task.life.life if task.life else WORKING
        judged = judge(signs, pace.stale_after, was)
        if judged.life == STUCK and self._attempts.waits(attempt):
            return []  # it says so by its name, which is all that it can say then
        if standing.ending and judged.life not in (FINISHED, UNKILLABLE):
            return []  # it is being ended, by limits of their own
        overdue = judged.life == STUCK and self._is_overdue(one, standing, pace)
        if judged.life == was and not (overdue and not one.overdue):
            return []
        one.overdue = overdue
        evidence = {**judged.evidence, "overdue": True} if overdue else judged.evidence
        return [AttemptLife(task.id, attempt, judged.life, judged.detail, evidence)]

    def _see(self, attempt: AttemptId, standing: Standing, *, waits: bool) -> _Watched:
        """Look at the heartbeat, and whether the command was started."""
        clock = self._attempts.clock
        one = self._watched.get(attempt)
        if one is None:
            one = self._watched[attempt] = _Watched(max(clock - standing.age, 0.0))
        heartbeat = self._host.heartbeat(attempt)
        if heartbeat != one.heartbeat:
            one.heartbeat, one.seen_at, one.beat = heartbeat, clock, self._host.beat_of(attempt)
        if waits:
            one.heard_at = clock
        if not one.started:
            speaks = one.beat is not None and one.beat.get("phase") != LOCKS
            one.started = speaks or self._host.read_command(attempt) is not None
        return one

    def _is_overdue(self, one: _Watched, standing: Standing, pace: _Pace) -> bool:
        """Tell whether whoever is stuck had all the time that its limits allow, and that their ladder takes."""
        clock = self._attempts.clock
        if one.beat is None:
            left, since = pace.whole, clock - standing.age
        else:
            left = None if one.beat.get("stands") else number(one.beat.get("left"))
            since = one.seen_at
        return left is not None and clock - since >= left + self._stop_grace + BACKSTOP


def _is_at_its_end(standing: Standing) -> bool:
    return standing.finished is not None or standing.left is not None
