"""The locks that running attempts hold and wait for: who is in the way of whom, by the rule of `bus.contention`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from bus.contention import in_the_way, overlap
from bus.wire import TaskId
from conductor.core.state import ALIVE, State
from conductor.core.waits import Grant, Wait


def live_waits(state: State) -> dict[TaskId, list[Wait]]:
    """Return what running attempts wait for, by task. What an attempt that is over waited for counts no more."""
    found: dict[TaskId, list[Wait]] = {}
    for wait in state.waits.values():
        if _is_live(state, wait):
            found.setdefault(wait.task, []).append(wait)
    return found


def _is_live(state: State, one: Grant | Wait) -> bool:
    task = state.tasks.get(one.task)
    return task is not None and task.attempt == one.attempt and isinstance(task.status, ALIVE)


class Contest:
    """Indexed by key, so that only those are compared that can meet."""

    def __init__(self, state: State, waits: Iterable[Wait]) -> None:
        """`waits` are those of running attempts."""
        self._grants: dict[str, list[Grant]] = {}
        self._waits: dict[str, list[Wait]] = {}
        self._own: dict[TaskId, list[Grant]] = {}
        self._near: dict[str, list[str]] = {}
        for grant in state.grants.values():
            if _is_live(state, grant):
                self._own.setdefault(grant.task, []).append(grant)
                for key in grant.keys:
                    self._grants.setdefault(key, []).append(grant)
        self._own_waits: dict[TaskId, list[Wait]] = {}
        for wait in waits:
            if wait.kind == "lock":
                self._own_waits.setdefault(wait.task, []).append(wait)
                for key in wait.what:
                    self._waits.setdefault(key, []).append(wait)

    def holds(self, task: TaskId) -> int:
        """Return how many keys the running attempt of a task holds."""
        return sum(len(grant.keys) for grant in self._own.get(task, ()))

    def blockers(self, wait: Wait) -> set[TaskId]:
        """Return the tasks whose attempts a wait for a lock is behind."""
        held, before = self._in_the_way(wait)
        return {one.task for one in held} | {one.task for one in before}

    def obstacles(self, wait: Wait) -> list[tuple[TaskId, str]]:
        """Return them with the key that each has something of: holders first, then the queue."""
        held, before = self._in_the_way(wait)
        found: dict[TaskId, str] = {}
        for one in held:
            found.setdefault(one.task, _common(wait.what, one.keys))
        for other in before:
            found.setdefault(other.task, _common(wait.what, other.what))
        return list(found.items())

    def _in_the_way(self, wait: Wait) -> tuple[list[Grant], list[Wait]]:
        near = dict.fromkeys(chain.from_iterable(map(self._neighbours, wait.what)))
        grants = dict.fromkeys(one for key in near for one in self._grants.get(key, ()))
        grants |= dict.fromkeys(self._own.get(wait.task, ()))
        waits = dict.fromkeys(one for key in near for one in self._waits.get(key, ()))
        queue = [one for one in waits if not self._stands_behind(one, wait.task)]
        return in_the_way(wait.attempt, [(wait.what, wait.shared)], wait.ticket, grants, queue)

    def _stands_behind(self, wait: Wait, task: TaskId) -> bool:
        """Tell whether a wait stands behind another one of `task`: when its turn comes, `task` holds that already, and
        may go on although the wait is older than its own."""
        others = self._own_waits[task]
        return len(others) > 1 and any(in_the_way(wait.attempt, [(wait.what, wait.shared)], wait.ticket, (), others))

    def _neighbours(self, key: str) -> list[str]:
        found = self._near.get(key)
        if found is None:
            known = dict.fromkeys(chain(self._grants, self._waits))
            found = self._near[key] = [other for other in known if overlap(key, other)]
        return found


def _common(wanted: Iterable[str], theirs: Iterable[str]) -> str:
    """Return the key that is wanted and that somebody else has something of."""
    others = list(theirs)
    return next(key for key in wanted if any(overlap(key, other) for other in others))
