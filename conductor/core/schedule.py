"""Which ready task starts next.

The rule is a function of the state alone: *in order of priority, a ready task starts if a slot is free, its groups have
room, and it conflicts with no running task and with no ready task of higher priority.* The last clause is what keeps a
task from starving: it holds its place, so tasks of lower priority that would conflict with it cannot take turns in
front of it; those that conflict with neither go on. Priority is the critical path, then plan order.

What is kept here is only an index that makes this quick, so that no event costs more in a larger plan. A task that
cannot start is *parked* where it will be looked at again once there is a reason to: on one task that stands in its way
(the one of lowest priority, so that a line forms and only its head moves), or in the line of a full group.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from bus.wire import TaskId
from conductor.core.conflicts import Keys
from conductor.core.graph import ranks
from conductor.core.state import State, Task
from conductor.core.task import MAX_GROUP_WORKERS, Done, Group, Plan, Ready, RunOptions


def only_missing(state: State, plan: Plan, only: Iterable[TaskId]) -> list[TaskId]:
    """Return the dependencies of the tasks in `only` that are neither done in `state` nor named, in plan order."""
    named = set(only)
    wanted = {dependency for task in plan.tasks if task.id in named for dependency in task.depends_on} - named
    done = {task.id for task in state.order if isinstance(task.status, Done)}
    return [task.id for task in plan.tasks if task.id in wanted - done]


def room_of(group: Group, options: RunOptions) -> int:
    """Return how many tasks of a group may run side by side."""
    if options.group_workers is not None:
        return options.group_workers
    return MAX_GROUP_WORKERS if group.max_workers is None else group.max_workers


@dataclass(slots=True)
class _Line:
    """Who claims one key: the running ones, and the ready ones by priority, exclusive and shared apart."""

    running: dict[int, bool] = field(default_factory=dict)
    exclusive: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)


class Claims:
    """The claims of running and of waiting tasks. Tasks are named by their rank, 0 being the first."""

    def __init__(self, keys: Keys, index_of: list[int]) -> None:
        self._keys = keys
        self._index_of = index_of
        self._lines: dict[int, _Line] = {}

    def run(self, rank: int) -> None:
        """Let a task hold its keys."""
        for key, exclusive in self._keys.claims(self._index_of[rank]):
            self._lines.setdefault(key, _Line()).running[rank] = exclusive

    def end(self, rank: int) -> None:
        """Let a running task give its keys back."""
        for key, _ in self._keys.claims(self._index_of[rank]):
            line = self._lines[key]
            del line.running[rank]
            self._tidy(key, line)

    def wait(self, rank: int) -> None:
        """Let a ready task hold its place in the lines of its keys."""
        for key, exclusive in self._keys.claims(self._index_of[rank]):
            line = self._lines.setdefault(key, _Line())
            insort(line.exclusive if exclusive else line.shared, rank)

    def leave(self, rank: int) -> None:
        """Take a waiting task out of the lines."""
        for key, exclusive in self._keys.claims(self._index_of[rank]):
            line = self._lines[key]
            places = line.exclusive if exclusive else line.shared
            del places[bisect_left(places, rank)]
            self._tidy(key, line)

    def blocker(self, rank: int) -> int | None:
        """Return a task that a ready one must wait for: the last one waiting in front of it, else a running one."""
        ahead = runner = -1
        for key, exclusive in self._keys.claims(self._index_of[rank]):
            for neighbour in self._keys.neighbours(key):
                line = self._lines.get(neighbour)
                if line is None:
                    continue
                for places in (line.exclusive, line.shared) if exclusive else (line.exclusive,):
                    if place := bisect_left(places, rank):
                        ahead = max(ahead, places[place - 1])
                rivals = [other for other, theirs in line.running.items() if exclusive or theirs]
                runner = max(runner, max(rivals, default=-1))
        found = ahead if ahead >= 0 else runner
        return found if found >= 0 else None

    def _tidy(self, key: int, line: _Line) -> None:
        if not (line.running or line.exclusive or line.shared):
            del self._lines[key]


class Schedule:
    """The ready tasks of a state, indexed. Follows the state by `add`, `start`, `release` and `remove`."""

    def __init__(self, state: State, options: RunOptions) -> None:
        self._state = state
        self._max_workers = options.max_workers
        self._rank_of = ranks(state.plan, state.graph)
        self._by_rank = [0] * len(self._rank_of)
        for index, rank in enumerate(self._rank_of):
            self._by_rank[rank] = index
        self._claims = Claims(Keys(state.plan, files=options.on_conflict == "serialize"), self._by_rank)
        self._waiting: set[int] = set()
        """Ranks that hold a place in the lines of their keys: all that are parked, and those to be looked at again."""
        self._parked: dict[int, int] = {}
        """Rank → the rank of the task it is parked on, or -1 - the number of the group."""
        self._parked_on: dict[int, list[int]] = {}
        self._groups: list[tuple[int, ...]] = [()] * len(self._rank_of)
        self._room = [room_of(group, options) for group in state.plan.groups]
        self._lines: list[list[int]] = [[] for _ in state.plan.groups]
        for number, group in enumerate(state.plan.groups):
            for task in group.tasks:
                self._groups[state.tasks[task].index] += (number,)
        self._ready = [self._rank_of[task.index] for task in state.order if isinstance(task.status, Ready)]
        heapify(self._ready)
        self._queued = set(self._ready)
        for id in state.running:
            self._occupy(state.tasks[id].index)

    def add(self, task: Task) -> None:
        """The task became ready."""
        self._push(self._rank_of[task.index])

    def remove(self, task: Task) -> None:
        """The task is not ready any more and did not start."""
        self._forget(self._rank_of[task.index])
        self._wake(self._rank_of[task.index])
        self._refill(task.index)

    def start(self, task: Task) -> None:
        """The task was dispatched. Whoever is parked on it stays so."""
        self._forget(self._rank_of[task.index])
        self._occupy(task.index)
        self._refill(task.index)

    def release(self, task: Task) -> None:
        """The task's attempt holds its slot no longer."""
        rank = self._rank_of[task.index]
        self._claims.end(rank)
        for group in self._groups[task.index]:
            self._room[group] += 1
        self._wake(rank)
        self._refill(task.index)

    def next(self) -> Task | None:
        """Return the task that starts next; None while there is none. It stays at the head until `start`."""
        while self._ready and len(self._state.running) < self._max_workers:
            rank = self._ready[0]
            index = self._by_rank[rank]
            if rank not in self._queued:
                heappop(self._ready)  # it was removed
                continue
            place = self._obstacle(rank, index)
            if place is None:
                return self._state.order[index]
            heappop(self._ready)
            self._queued.discard(rank)
            self._park(rank, place)
            self._refill(index)
        return None

    def _obstacle(self, rank: int, index: int) -> int | None:
        """Return where a task that cannot start is to be parked."""
        blocker = self._claims.blocker(rank)
        if blocker is not None:
            return blocker
        return next((-1 - group for group in self._groups[index] if self._room[group] <= 0), None)

    def _park(self, rank: int, place: int) -> None:
        self._parked[rank] = place
        if rank not in self._waiting:
            self._waiting.add(rank)
            self._claims.wait(rank)
        if place >= 0:
            self._parked_on.setdefault(place, []).append(rank)
        else:
            heappush(self._lines[-1 - place], rank)

    def _forget(self, rank: int) -> None:
        self._queued.discard(rank)
        self._parked.pop(rank, None)
        if rank in self._waiting:
            self._waiting.discard(rank)
            self._claims.leave(rank)

    def _occupy(self, index: int) -> None:
        self._claims.run(self._rank_of[index])
        for group in self._groups[index]:
            self._room[group] -= 1

    def _wake(self, rank: int) -> None:
        """Look again at all that is parked on a task."""
        for other in self._parked_on.pop(rank, ()):
            if self._parked.get(other) == rank:
                del self._parked[other]
                self._push(other)

    def _refill(self, index: int) -> None:
        """Look again at the first in line of each group of a task that has room.

        Called whenever a task of the group started, ended, or was looked at and parked elsewhere. So a group with room
        and a line always has one of its tasks among those to be looked at.
        """
        for group in self._groups[index]:
            line = self._lines[group]
            while line and self._room[group] > 0:
                rank = heappop(line)
                if self._parked.get(rank) == -1 - group:
                    del self._parked[rank]
                    self._push(rank)
                    break

    def _push(self, rank: int) -> None:
        self._queued.add(rank)
        heappush(self._ready, rank)
