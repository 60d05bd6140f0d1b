"""What is due. An index over the state that can be rebuilt from it at any time, and is, after every replay.

Because nothing is due that cannot be read from the state, a journal that was cut anywhere (a crash in the middle of a
batch) leads to exactly the decisions that are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from bus.wire import TaskId
from conductor.core import deadlock, stops
from conductor.core.deadlock import Found
from conductor.core.ends import expired_group, has_order, needs_a_person
from conductor.core.gates import holds_work
from conductor.core.giving_up import WAITS_FOR_PEOPLE
from conductor.core.schedule import Schedule
from conductor.core.state import ALIVE, State, Task
from conductor.core.task import (
    IDLE,
    AwaitsApproval,
    Backoff,
    Blocked,
    Cancelled,
    Ended,
    Exited,
    Failed,
    Manual,
    Pending,
    Ready,
    Running,
    RunOptions,
    Skipped,
    Status,
)
from conductor.core.transitions import Phase, StatusType

ROOTS: tuple[StatusType, ...] = (Failed, Cancelled)
"""Statuses that block whatever is downstream."""


@dataclass(slots=True)
class Queue:
    """Tasks for which one kind of decision is due, in plan order. An entry that is no longer due is passed over."""

    _heap: list[int] = field(default_factory=list)
    _due: set[int] = field(default_factory=set)

    def add(self, task: Task) -> None:
        """A decision about the task is due."""
        self._due.add(task.index)
        heappush(self._heap, task.index)

    def discard(self, task: Task) -> None:
        """It is not due any more."""
        self._due.discard(task.index)

    def first(self, state: State) -> Task | None:
        """Return the first task in plan order."""
        while self._heap and self._heap[0] not in self._due:
            heappop(self._heap)
        return state.order[self._heap[0]] if self._heap else None


class Agenda:
    """Follows a state from change to change (`Listener` of `apply`)."""

    def __init__(self, state: State, options: RunOptions) -> None:
        self._state = state
        self._named = None if options.only is None else frozenset(options.only)
        self._ticks = frozenset(options.ticked_done)
        self.schedule = Schedule(state, options)
        self.exited, self.ended, self.doomed = Queue(), Queue(), Queue()
        self.ticked, self.unnamed = Queue(), Queue()
        """Taken as done by `--skip-ticked`; not named by `--only`."""
        self.ordered, self.gates, self.expired = Queue(), Queue(), Queue()
        """To be ended as somebody ordered; ready, but a person comes first; of a group that has run out of time."""
        at_rest = (self.ticked, self.unnamed, self.ordered, self.expired)
        self._queues_of: Mapping[StatusType, tuple[Queue, ...]] = {
            Exited: (self.exited,),
            Ended: (self.ended,),
            Pending: (self.doomed, *at_rest),
            Ready: (self.gates, *at_rest),
            Backoff: at_rest,
            AwaitsApproval: at_rest,
            Manual: at_rest,
        }
        self._causes: dict[int, tuple[TaskId, ...]] = {}
        self._passed = 0
        """Tasks of plan order before this one have their end; only meaningful once nothing runs any more."""
        self._suspects: dict[TaskId, None] = dict(state.running)
        """Tasks whose attempt may have to be stopped: all that was not looked at since something changed."""
        self._settled: tuple[Phase, str | None] | None = None
        """Of the run, when it was found that nobody is in a deadlock; None where something changed since that can close
        one: a wait or a grant, or whether and when a task that is waited for can start."""
        self._stopping = False
        """Whether all were looked at since the run is being stopped."""
        for task in state.order:
            self._enqueue(task)

    def changed(self, task: Task, before: Status) -> None:
        """Follow one change."""
        status = task.status
        if isinstance(before, Ready):
            if isinstance(status, Running):
                self.schedule.start(task)
            else:
                self.schedule.remove(task)
        elif isinstance(before, ALIVE) and not isinstance(status, ALIVE):
            self.schedule.release(task)
        self.schedule.add(task)
        if isinstance(status, (Ready, Skipped)) and self.schedule.is_awaited(task):
            self._settled = None
        for queue in self._queues_of.get(type(before), ()):
            queue.discard(task)
        self._enqueue(task)
        if isinstance(status, Pending):  # behind an attempt, in a plan that was read again
            self._doom_again(task)

    def rewired(self) -> None:
        """Follow a grant or a wait that came or went."""
        self.schedule.expect()
        self._settled = None

    def causes(self, task: Task) -> tuple[TaskId, ...]:
        """Return the tasks that a doomed task is blocked by, as far as they are known at its turn."""
        return self._causes[task.index]

    def suspect(self, task: Task) -> None:
        """There may be a new reason to stop the task's attempt."""
        self._suspects[task.id] = None

    def to_stop(self) -> tuple[Task, str] | None:
        """Return a running task that is to be stopped and has no STOP yet, and the reason."""
        state = self._state
        run = state.run
        if run is not None and (run.stopping or run.gave_up == WAITS_FOR_PEOPLE) and not self._stopping:
            self._stopping = True
            self._suspects = dict(state.running)
        while self._suspects:
            task = state.tasks[next(iter(self._suspects))]
            if reason := stops.due(state, task):
                return task, reason
            del self._suspects[task.id]
        return None

    def deadlock(self) -> Found | None:
        """Return a deadlock whose victim is to be chosen."""
        run = self._state.run
        now = None if run is None else (run.phase, run.gave_up)
        if now is None or self._settled == now:
            return None
        found = deadlock.find(self._state, self.schedule)
        if found is None and not self._state.reconciling:
            self._settled = now
        return found

    def leftover(self) -> Task | None:
        """Return the first task that never started, once nothing runs and nothing more will."""
        order = self._state.order
        while self._passed < len(order) and not _at_rest(order[self._passed]):
            self._passed += 1
        return order[self._passed] if self._passed < len(order) else None

    def _enqueue(self, task: Task) -> None:
        status = task.status
        if isinstance(status, Exited):
            self.exited.add(task)
        elif isinstance(status, Ended):
            self.ended.add(task)
        elif isinstance(status, IDLE):
            self._enqueue_idle(task)
        elif isinstance(status, Blocked):
            self._doom(task, status.by)
        elif isinstance(status, ROOTS):
            self._doom(task, (task.id,))

    def _enqueue_idle(self, task: Task) -> None:
        if has_order(task):
            self.ordered.add(task)
        if holds_work(task):
            return
        if task.id in self._ticks:
            self.ticked.add(task)
        elif self._named is not None and task.id not in self._named:
            self.unnamed.add(task)
        elif expired_group(self._state, task):
            self.expired.add(task)
        elif needs_a_person(task):
            self.gates.add(task)

    def _doom_again(self, task: Task) -> None:
        for dependency in self._state.dependencies(task):
            if isinstance(dependency.status, (Blocked, *ROOTS)):
                self._enqueue(dependency)

    def _doom(self, source: Task, by: tuple[TaskId, ...]) -> None:
        """Whatever is downstream of `source` and waits for a dependency is to be blocked."""
        todo = [source]
        while todo:
            for dependant in self._state.dependants(todo.pop()):
                if isinstance(dependant.status, Pending) and dependant.index not in self._causes:
                    self._causes[dependant.index] = by
                    self.doomed.add(dependant)
                    todo.append(dependant)


def _at_rest(task: Task) -> bool:
    """Tell whether a task has neither an end nor an attempt, nor work that waits for approval."""
    return isinstance(task.status, IDLE) and not holds_work(task)
