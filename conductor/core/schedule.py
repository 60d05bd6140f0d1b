"""Which ready task starts next.

The rule is a function of the state alone: *in order of priority, a ready task starts if a slot is free, its groups have
room, and it conflicts with no running task and with no ready task of higher priority.* The last clause is what keeps a
task from starving: it holds its place, so tasks of lower priority that would conflict with it cannot take turns in
front of it; those that conflict with neither go on. First come tasks that a running attempt waits for, near or far:
else each slot that becomes free could be taken by another one that waits for them. Behind that, priority is the
critical path, then plan order.

What is kept here is only an index that makes this quick, so that no event costs more in a larger plan. A task that
cannot start is *parked* where it will be looked at again once there is a reason to: on one task that stands in its way
(the one of lowest priority, so that a line forms and only its head moves), or in the line of a full group.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from bus.wire import TaskId
from conductor.core.awaited import closure, targets
from conductor.core.claims import Claims
from conductor.core.conflicts import Keys
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


class Schedule:
    """The ready tasks of a state, indexed. Follows the state by `add`, `start`, `release`, `remove` and `expect`.

    A ready task is named by its turn, a running one by its rank: see `claims`.
    """

    def __init__(self, state: State, options: RunOptions) -> None:
        self._state = state
        self._max_workers = options.max_workers
        self._rank_of, self._by_rank = state.ranks()
        self.keys = Keys(state.plan, files=options.on_conflict == "serialize")
        self._claims = Claims(self.keys, self._by_rank)
        self._targets = targets(state)
        self._awaited = closure(state, self._targets)
        """Places in the plan of the tasks that go first."""
        self._waiting: set[int] = set()
        """Turns that hold a place in the lines of their keys: all that are parked, and those to be looked at again."""
        self._parked: dict[int, int] = {}
        """Turn → the rank of the task it is parked on, or -1 - the number of the group."""
        self._parked_on: dict[int, list[int]] = {}
        self._groups: list[tuple[int, ...]] = [()] * len(self._rank_of)
        self._room = [room_of(group, options) for group in state.plan.groups]
        self._lines: list[list[int]] = [[] for _ in state.plan.groups]
        for number, group in enumerate(state.plan.groups):
            for task in group.tasks:
                self._groups[state.tasks[task].index] += (number,)
        self._ready = [self._turn(task.index) for task in state.order if isinstance(task.status, Ready)]
        heapify(self._ready)
        self._queued = set(self._ready)
        for id in state.running:
            self._occupy(state.tasks[id].index)

    def add(self, task: Task) -> None:
        """The task became ready."""
        self._push(self._turn(task.index))

    def remove(self, task: Task) -> None:
        """The task is not ready any more and did not start."""
        self._forget(self._turn(task.index))
        self._wake(self._rank_of[task.index])
        self._refill(task.index)

    def start(self, task: Task) -> None:
        """The task was dispatched. Whoever is parked on it stays so."""
        self._forget(self._turn(task.index))
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

    def expect(self) -> None:
        """Let those go first that are waited for now."""
        named = targets(self._state)
        if named == self._targets:
            return
        self._targets = named
        for index in sorted(closure(self._state, named) ^ self._awaited):
            task = self._state.order[index]
            if isinstance(task.status, Ready):
                self.remove(task)
            self._awaited ^= {index}
            if isinstance(task.status, Ready):
                self.add(task)

    def is_awaited(self, task: Task) -> bool:
        """Tell whether somebody waits for the task, near or far."""
        return task.index in self._awaited

    def turn(self, task: Task) -> int:
        """Return the task's place in line: see `claims`."""
        return self._turn(task.index)

    def crowds(self, index: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return what has no room for a task: (number, places in the plan of the tasks one of which must end)."""
        return [
            (
                number,
                tuple(
                    self._state.tasks[id].index
                    for id in self._state.plan.groups[number].tasks
                    if id in self._state.running
                ),
            )
            for number in self._groups[index]
            if self._room[number] <= 0
        ]

    def next(self) -> Task | None:
        """Return the task that starts next; None while there is none. It stays at the head until `start`."""
        while self._ready and len(self._state.running) < self._max_workers:
            turn = self._ready[0]
            index = self._by_rank[turn]
            if turn not in self._queued:
                heappop(self._ready)  # it was removed
                continue
            place = self._obstacle(turn, index)
            if place is None:
                return self._state.order[index]
            heappop(self._ready)
            self._queued.discard(turn)
            self._park(turn, place)
            self._refill(index)
        return None

    def _turn(self, index: int) -> int:
        rank = self._rank_of[index]
        return rank - len(self._by_rank) if index in self._awaited else rank

    def _obstacle(self, turn: int, index: int) -> int | None:
        """Return where a task that cannot start is to be parked."""
        blocker = self._claims.blocker(turn)
        if blocker is not None:
            return blocker
        return next((-1 - group for group in self._groups[index] if self._room[group] <= 0), None)

    def _park(self, turn: int, place: int) -> None:
        self._parked[turn] = place
        if turn not in self._waiting:
            self._waiting.add(turn)
            self._claims.wait(turn)
        if place >= 0:
            self._parked_on.setdefault(place, []).append(turn)
        else:
            heappush(self._lines[-1 - place], turn)

    def _forget(self, turn: int) -> None:
        self._queued.discard(turn)
        self._parked.pop(turn, None)
        if turn in self._waiting:
            self._waiting.discard(turn)
            self._claims.leave(turn)

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
                turn = heappop(line)
                if self._parked.get(turn) == -1 - group:
                    del self._parked[turn]
                    self._push(turn)
                    break

    def _push(self, turn: int) -> None:
        self._queued.add(turn)
        heappush(self._ready, turn)
