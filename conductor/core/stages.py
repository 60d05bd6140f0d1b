"""`--schedule groups`: one parallel group after the other, in plan order; ungrouped tasks whenever they are ready.

Open is the group of which a task runs; else the first in plan order that is reached and has a task which could move.
A group is *reached* when what its unfinished tasks depend on outside of it is done, so that one which needs something
of a later group is passed over until it has it. Where no group is reached, nothing runs and no ungrouped task could
move (groups that need each other), the first one that could move at all is open: a barrier never holds a run up for
good.
"""

from __future__ import annotations

from conductor.core.state import FINAL, State, Task
from conductor.core.task import Backoff, Done, Manual, Pending, Ready
from conductor.core.transitions import StatusType

_MOVES: tuple[StatusType, ...] = (Ready, Backoff, Manual)
"""Statuses of a task that something will come of without another one ending first."""


class Stages:
    """Which group is open. A task of several groups belongs to the first."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.of: list[int | None] = [None] * len(state.order)
        """Number of each task's group, by place in the plan."""
        self._members: list[list[int]] = []
        for number, group in enumerate(state.plan.groups):
            mine = [state.tasks[id].index for id in group.tasks if self.of[state.tasks[id].index] is None]
            self._members.append(mine)
            for index in mine:
                self.of[index] = number
        self._passed = 0
        """Groups before this one have no unfinished task."""

    def open(self) -> int | None:
        """Return the number of the group whose tasks may start now."""
        under_way = {self.of[self._state.tasks[id].index] for id in self._state.running} - {None}
        if under_way:
            return min(number for number in under_way if number is not None)
        groups = self._members
        while self._passed < len(groups) and all(isinstance(one.status, FINAL) for one in self._tasks(self._passed)):
            self._passed += 1
        could: int | None = None
        for number in range(self._passed, len(groups)):
            tasks = self._tasks(number)
            if not any(isinstance(task.status, _MOVES) for task in tasks):
                continue
            if self._reached(number, tasks):
                return number
            could = number if could is None else could
        return could if not self._others_move() else None

    def _tasks(self, number: int) -> list[Task]:
        return [self._state.order[index] for index in self._members[number]]

    def _reached(self, number: int, tasks: list[Task]) -> bool:
        waiting = (task for task in tasks if isinstance(task.status, Pending))
        needs = (dependency for task in waiting for dependency in self._state.dependencies(task))
        return all(isinstance(need.status, Done) or self.of[need.index] == number for need in needs)

    def _others_move(self) -> bool:
        """Tell whether something may still come that lets a group be reached."""
        if self._state.running:
            return True
        return any(self.of[task.index] is None and isinstance(task.status, _MOVES) for task in self._state.order)
