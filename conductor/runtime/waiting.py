"""What attempts hold and wait for, as facts. The files of grants and waits are the truth; each pass compares them with
the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from bus import layout
from bus.contract import Grant, Host, WaitFile
from bus.errors import ENDED
from bus.wire import AttemptId, TaskId
from conductor.core.events import Fact
from conductor.core.state import State
from conductor.core.wait_events import GrantGone, GrantSeen, WaitBegan, WaitEnded
from conductor.core.waits import name_of


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different from what the state knows."""

    gone: tuple[Fact, ...] = ()
    """What is not held, or waited for, any more: to be recorded before all else of a pass."""
    come: tuple[Fact, ...] = ()
    """What is new: to be recorded behind all else."""


class Waiting:
    """Looks into `locks/` and `waits/`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._taken: set[str] = set()
        """Grants that were taken by force, as long as they lie there."""
        self.unreadable = False
        """Whether the last look failed: nothing is known then, and nothing is concluded."""

    def take(self, gone: Iterable[GrantGone]) -> None:
        """End grants that are recorded as taken by force, now or later."""
        self._taken.update(name_of(fact.attempt, fact.grant) for fact in gone)
        if self._taken:
            with suppress(OSError):  # the next look does it
                self._end_taken({name_of(grant.attempt, grant.id): grant for grant in self._host.grants()})

    def _end_taken(self, grants: dict[str, Grant]) -> None:
        self._taken &= grants.keys()
        if self._taken:
            self._host.take_grants([grants.pop(name) for name in sorted(self._taken)])

    def look(self, state: State, open: Mapping[TaskId, AttemptId]) -> Changes:
        """Compare; `open` are the attempts that may hold and wait. Those of others are put an end to."""
        try:
            grants, waits = self._read()
        except OSError:
            self.unreadable = True
            return Changes()
        self.unreadable = False
        tasks = {attempt: task for task, attempt in open.items()}
        self._end_taken(grants)
        self._end_strays(state, tasks, grants, waits)
        gone: list[Fact] = [
            GrantGone(
                known.task, known.attempt, known.id, "released" if known.attempt in tasks else "closed", known.keys
            )
            for name, known in state.grants.items()
            if name not in grants
        ]
        gone += [
            WaitEnded(known.task, known.attempt, known.id, "over" if known.attempt in tasks else "closed")
            for name, known in state.waits.items()
            if name not in waits
        ]
        come: list[Fact] = [
            GrantSeen(tasks[one.attempt], one.attempt, one.id, one.keys, one.shared, one.token)
            for name, one in grants.items()
            if name not in state.grants and one.attempt in tasks
        ]
        come += [
            WaitBegan(tasks[one.attempt], one.attempt, one.id, one.kind, one.what, one.shared, one.ticket, one.text)
            for name, one in waits.items()
            if name not in state.waits and one.attempt in tasks
        ]
        return Changes(tuple(gone), tuple(come))

    def _read(self) -> tuple[dict[str, Grant], dict[str, WaitFile]]:
        """Return what lies there, by the stem of its name.

        Waits are looked at before and behind the grants, and only those count that were there both times: who waits all
        the while releases nothing, so what is seen together was true together, and no cycle is seen that never was.
        """
        before = self._host.waits()
        grants = self._host.grants()
        still = {name_of(one.attempt, one.id) for one in self._host.waits()} if before else set()
        waits = ((name_of(one.attempt, one.id), one) for one in before)
        return (
            {name_of(one.attempt, one.id): one for one in grants},
            {name: one for name, one in waits if name in still},
        )

    def _end_strays(
        self,
        state: State,
        open: Mapping[AttemptId, TaskId],
        grants: Mapping[str, Grant],
        waits: Mapping[str, WaitFile],
    ) -> None:
        """Remove what a process made for an attempt whose end is journaled: nobody would ever release it. And tell that
        process, as nobody else may: an attempt that is lost has no result which would."""
        owners = {grant.attempt for grant in grants.values()} | {wait.attempt for wait in waits.values()}
        for attempt in sorted(owners):
            if attempt not in open and _has_ended(state, attempt):
                self._host.close_attempt(attempt)
                self._host.revoke(attempt, ENDED)


def _has_ended(state: State, attempt: AttemptId) -> bool:
    """Tell whether the journal knows that the attempt is over, and that nothing of it is left."""
    if attempt in state.unkillable:
        return False
    name, number, _ = layout.parse_attempt(attempt)
    try:
        task = layout.decode_task_id(name)
    except layout.LayoutError:  # a name that was cut: it stays until the next start
        return False
    known = state.tasks.get(task)
    if known is None:
        return number <= state.retired.get(task, 0)
    return number <= known.number and attempt not in state.open_attempts()
