"""Which ready task starts next.

The rule is a function of the state alone: *in order of priority, a ready task starts if no door is closed to it (see
`doors`), a slot is free, its rooms (groups, and resources with a count) have a place, and it conflicts with no running
task and with no ready task of higher priority that stands before no closed door.* The last clause is what keeps a
task from starving: it holds its place, so tasks of lower priority that would conflict with it cannot take turns in
front of it; those that conflict with neither go on. First come tasks that a running attempt waits for, near or far:
else each slot that becomes free could be taken by another one that waits for them. Behind that, priority is the
critical path, then plan order.

What is kept here is only an index that makes this quick, so that no event costs more in a larger plan. A task that
cannot start is *parked* where it will be looked at again once there is a reason to: on one task that stands in its way
(the one of lowest priority, so that a line forms and only its head moves), or in the line of a full room.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from bus.wire import TaskId
from conductor.core.awaited import closure, targets
from conductor.core.claims import Claims
from conductor.core.conflicts import Keys
from conductor.core.doors import STAGE, Door, Doors
from conductor.core.ends import may_start
from conductor.core.rooms import rooms_of
from conductor.core.state import State, Task
from conductor.core.task import Done, Plan, Ready, RunOptions


def only_missing(state: State, plan: Plan, only: Iterable[TaskId]) -> list[TaskId]:
    """Return the dependencies of the tasks in `only` that are neither done in `state` nor named, in plan order."""
    named = set(only)
    wanted = {dependency for task in plan.tasks if task.id in named for dependency in task.depends_on} - named
    done = {task.id for task in state.order if isinstance(task.status, Done)}
    return [task.id for task in plan.tasks if task.id in wanted - done]


class Schedule:
    """The ready tasks of a state, indexed. Follows the state by `add`, `start`, `release`, `remove` and `expect`.

    A ready task is named by its turn, a running one by its rank: see `claims`.
    """

    def __init__(self, state: State, options: RunOptions) -> None:
        self._state = state
        self._max_workers = options.max_workers
        self._rank_of, self._by_rank = state.ranks()
        self.keys = Keys(state.plan, options)
        self._claims = Claims(self.keys, self._by_rank)
        self._targets = targets(state)
        self._awaited = closure(state, self._targets)
        """Places in the plan of the tasks that go first."""
        self._waiting: set[int] = set()
        """Turns that hold a place in the lines of their keys: all that are parked, and those to be looked at again."""
        self._parked: dict[int, int] = {}
        """Turn → the rank of the task it is parked on, or -1 - the number of the room."""
        self._parked_on: dict[int, list[int]] = {}
        self._rooms: list[tuple[int, ...]] = [()] * len(self._rank_of)
        """Numbers of the rooms that a task takes a place in."""
        self._all_rooms = rooms_of(state.plan, options)
        self._room = [room.size for room in self._all_rooms]
        """Free places of each."""
        self._lines: list[list[int]] = [[] for _ in self._all_rooms]
        for number, room in enumerate(self._all_rooms):
            for id in room.tasks:
                self._rooms[state.tasks[id].index] += (number,)
        self._doors = Doors(state, options)
        self._behind: dict[Door, list[int]] = {}
        """Who came to a closed door, and may stand behind it still."""
        self._door_of: dict[int, Door] = {}
        """Turn → the closed door that it stands behind."""
        self._ready = [self._turn(task.index) for task in state.order if may_start(task)]
        heapify(self._ready)
        self._queued = set(self._ready)
        for id in state.running:
            self._occupy(state.tasks[id].index)

    def add(self, task: Task) -> None:
        """The task became ready. One that a person has to see first is not one of ours yet."""
        if may_start(task):
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
        for room in self._rooms[task.index]:
            self._room[room] += 1
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
        """Return what has no place for a task: (number, places in the plan of the tasks one of which must end)."""
        full = [number for number in self._rooms[index] if self._room[number] <= 0]
        return [(number, self._occupants(number)) for number in full]

    def _occupants(self, number: int) -> tuple[int, ...]:
        running = (id for id in self._all_rooms[number].tasks if id in self._state.running)
        return tuple(self._state.tasks[id].index for id in running)

    def next(self) -> Task | None:
        """Return the task that starts next; None while there is none. It stays at the head until `start`."""
        self._heed_doors()
        while self._ready and len(self._state.running) < self._max_workers:
            turn = self._ready[0]
            index = self._by_rank[turn]
            if turn not in self._queued:
                heappop(self._ready)  # it was removed
                continue
            door = self._closed_door(index)
            place = self._obstacle(turn, index) if door is None else None
            if door is None and place is None:
                return self._state.order[index]
            heappop(self._ready)
            self._queued.discard(turn)
            if door is not None:
                self._door_of[turn] = door
                self._behind.setdefault(door, []).append(turn)
            else:
                assert place is not None
                self._park(turn, place)
            self._refill(index)
        return None

    def _closed_door(self, index: int) -> Door | None:
        """A task that somebody waits for does not wait for the time of its group: else both might wait for good."""
        door = self._doors.closed(index)
        return None if door and door[0] == STAGE and index in self._awaited else door

    def _heed_doors(self) -> None:
        """Let those look again who stood behind a door that was opened; who stands behind one that was closed since
        gives up its place in every line."""
        opened, closed = self._doors.look()
        for door in opened:
            for turn in self._behind.pop(door, ()):
                if self._door_of.get(turn) == door:
                    del self._door_of[turn]
                    self._push(turn)
        for turn in list(self._waiting) if closed else ():
            index = self._by_rank[turn]
            if self._closed_door(index) is not None:
                self.remove(self._state.order[index])
                self._push(turn)

    def _turn(self, index: int) -> int:
        rank = self._rank_of[index]
        return rank - len(self._by_rank) if index in self._awaited else rank

    def _obstacle(self, turn: int, index: int) -> int | None:
        """Return where a task that cannot start is to be parked."""
        blocker = self._claims.blocker(turn)
        if blocker is not None:
            return blocker
        return next((-1 - room for room in self._rooms[index] if self._room[room] <= 0), None)

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
        self._door_of.pop(turn, None)
        if turn in self._waiting:
            self._waiting.discard(turn)
            self._claims.leave(turn)

    def _occupy(self, index: int) -> None:
        self._claims.run(self._rank_of[index])
        for room in self._rooms[index]:
            self._room[room] -= 1

    def _wake(self, rank: int) -> None:
        """Look again at all that is parked on a task."""
        for other in self._parked_on.pop(rank, ()):
            if self._parked.get(other) == rank:
                del self._parked[other]
                self._push(other)

    def _refill(self, index: int) -> None:
        """Look again at the first in line of each room of a task that has places.

        Called whenever a task of the room started, ended, or was looked at and parked elsewhere. So a room with places
        and a line always has one of its tasks among those to be looked at.
        """
        for room in self._rooms[index]:
            line = self._lines[room]
            while line and self._room[room] > 0:
                turn = heappop(line)
                if self._parked.get(turn) == -1 - room:
                    del self._parked[turn]
                    self._push(turn)
                    break

    def _push(self, turn: int) -> None:
        self._queued.add(turn)
        heappush(self._ready, turn)
