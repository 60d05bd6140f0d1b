"""What attempts hold and wait for, as they themselves know it: the truth with which grants and deadlocks are compared.

An attempt holds what it was granted until it begins to give it back, until nothing of it writes any more, or until that
was taken from it by force. It waits from before it stands in the queue until it knows that it need not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from bus.contract import Grant
from bus.wire import AttemptId, TaskId
from conductor.core.conflicts import overlap
from conductor.core.health import kind_of
from conductor.core.state import State, Task
from conductor.core.task import Backoff, Done, Pending, Ready, Running
from conductor.testing.ledger import conflict, demand

Wanted = tuple[tuple[str, bool], ...]
"""Keys, each with whether it is shared."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What an attempt waits for."""

    kind: str
    """`lock`, `task` or `question`."""
    wanted: Wanted = ()
    tasks: tuple[TaskId, ...] = ()
    place: int | None = None
    """Of a lock: its ticket; None before it has one."""


@dataclass(slots=True)
class Traffic:
    """Holders and waiters."""

    is_taken: Callable[[AttemptId, str], bool]
    """Tells whether, by the journal, a key was taken from an attempt by force."""
    held: dict[AttemptId, dict[str, bool]] = field(default_factory=dict)
    """Keys that each attempt holds, with whether they are shared."""
    waits: dict[AttemptId, Waiting] = field(default_factory=dict)
    _leaving: dict[AttemptId, dict[str, bool]] = field(default_factory=dict)
    """Keys that each attempt began to give up, and may still hold."""
    _excused: dict[AttemptId, int] = field(default_factory=dict)
    """When an attempt last stopped to wait without getting what it waited for: it gave up, was stopped, or was killed.
    What was seen of it before may be a deadlock that is none any more."""

    # --- what attempts tell -----------------------------------------------------------------------------------------

    def granted(self, attempt: AttemptId, grants: Iterable[Grant]) -> None:
        """It was told that it holds these. Raises LedgerBroken where another holds any of it."""
        self.waits.pop(attempt, None)
        wanted = [(key, grant.shared) for grant in grants for key in grant.keys]
        for other, held in self.held.items():
            if other != attempt and _meet(wanted, held.items()):
                wanted = [(key, shared) for key, shared in wanted if not self.is_taken(attempt, key)]
                left = [(key, shared) for key, shared in held.items() if not self.is_taken(other, key)]
                demand(not _meet(wanted, left), f"{attempt} holds {wanted} while {other} holds {left}")
        mine = self.held.setdefault(attempt, {})
        for key, shared in wanted:
            mine[key] = shared and mine.get(key, True)

    def gives_back(self, attempt: AttemptId, keys: Collection[str] | None = None) -> None:
        """It begins to give up these keys, or all."""
        held = self.held.get(attempt, {})
        for key in list(held) if keys is None else keys:
            if key in held:
                self._leaving.setdefault(attempt, {})[key] = held.pop(key)

    def gave_back(self, attempt: AttemptId) -> None:
        """It was told that it holds that no more."""
        self._leaving.pop(attempt, None)

    def gives_up(self, attempt: AttemptId, moment: int) -> None:
        """It begins to leave the place where it waits."""
        if self.waits.pop(attempt, None):
            self._excused[attempt] = moment

    def ended(self, attempt: AttemptId, moment: int) -> None:
        """Nothing of it writes any more."""
        self.held.pop(attempt, None)
        self._leaving.pop(attempt, None)
        self.gives_up(attempt, moment)

    # --- what the journal tells -------------------------------------------------------------------------------------

    def check_deadlock(self, members: Collection[AttemptId], state: State, *, since: int) -> None:
        """Attempts were found to wait for each other, by a conductor that looked at `since` at the earliest.

        Raises LedgerBroken where one of them could go on although none of the others does.
        """
        if any(self._excused.get(member, -1) >= since for member in members):
            return
        jam = _Jam(self, frozenset(members), state)
        for member in members:
            demand(member in self.waits, f"a deadlock that is none: {member} waits for nothing")
            demand(jam.holds_up(member), f"a deadlock that is none: {member} waits for none of {sorted(members)}")


class _Jam:
    """A set of attempts, and whom they keep from going on if none of them ever moves."""

    def __init__(self, traffic: Traffic, members: Collection[AttemptId], state: State) -> None:
        self._traffic = traffic
        self._members = members
        self._state = state
        self._tasks = [task for task in state.order if task.attempt in members]

    def holds_up(self, member: AttemptId) -> bool:
        """Tell whether others in it, or itself, keep a member from what it waits for."""
        waiting = self._traffic.waits[member]
        if waiting.kind == "task":
            return any(self._is_stuck(id) for id in waiting.tasks)
        others = (other for other in self._members if other != member)
        return waiting.kind == "lock" and any(self._is_in_the_way(other, waiting) for other in others)

    def _may_hold(self, attempt: AttemptId) -> list[tuple[str, bool]]:
        """What it holds, also what it could not give back."""
        traffic = self._traffic
        return [*traffic.held.get(attempt, {}).items(), *traffic._leaving.get(attempt, {}).items()]

    def _is_in_the_way(self, other: AttemptId, waiting: Waiting) -> bool:
        wish = self._traffic.waits.get(other)
        ahead = wish is not None and (wish.place is None or waiting.place is None or wish.place < waiting.place)
        wanted = wish.wanted if wish is not None and ahead else ()
        return _meet(waiting.wanted, self._may_hold(other)) or _meet(waiting.wanted, wanted)

    def _is_stuck(self, id: TaskId) -> bool:
        """Tell whether a task cannot be done before the members move."""
        task = self._state.tasks.get(id)
        if task is None or isinstance(task.status, Done):
            return False
        if isinstance(task.status, Running):
            return task.attempt in self._members
        if not isinstance(task.status, (Pending, Ready, Backoff)):  # a person moves it; or it is over
            return False
        return self._has_no_room(task) or any(self._is_stuck(one.id) for one in self._state.dependencies(task))

    def _has_no_room(self, task: Task) -> bool:
        run, plan = self._state.run, self._state.plan
        assert run is not None
        stuck = {one.id for one in self._tasks}
        caps = [(stuck.intersection(one.tasks), one.max_workers) for one in plan.groups if task.id in one.tasks]
        full = any(len(inside) >= (cap or run.options.max_workers) for inside, cap in caps)
        alone = any(conflict(task.spec, one.spec, run.options) for one in self._tasks)
        used = Counter(name for one in self._tasks for name in one.spec.resources)
        used_up = any(used[name] >= run.options.resources.get(name, 1) for name in task.spec.resources)
        pause = self._state.providers.get(kind_of(task.spec, run.options))
        tried = pause is not None and pause.probe in self._members  # its kind waits for how that one ends
        return alone or full or used_up or tried or len(stuck) >= run.options.max_workers


def _meet(wanted: Iterable[tuple[str, bool]], others: Iterable[tuple[str, bool]]) -> bool:
    theirs = list(others)
    return any(not (a and b) and overlap(key, other) for key, a in wanted for other, b in theirs)
