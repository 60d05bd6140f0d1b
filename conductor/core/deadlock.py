"""Deadlocks: attempts that wait for each other so that none of them can ever go on.

One graph holds every kind of wait: for locks (also behind an older wait in the queue), for tasks (and all that must
happen before these can start: their dependencies, what they conflict with, room in their groups), and for the pool
itself. A wait for a person, or for time to pass, is no edge: it ends without any of us.

Found by reduction: who waits for nothing can finish and frees what he holds. An attempt that is being stopped can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bus.wire import TaskId
from conductor.core import reduction
from conductor.core.awaited import closure, targets
from conductor.core.claims import Claims
from conductor.core.contest import Contest, live_waits
from conductor.core.ends import needs_a_person
from conductor.core.policy import UNCOUNTED_CEILING
from conductor.core.schedule import Schedule
from conductor.core.state import ALIVE, FINAL, Run, State, Task
from conductor.core.task import AwaitsApproval, Done, Manual, Ready, Running, Skipped
from conductor.core.transitions import Phase
from conductor.core.waits import DEADLOCK_VICTIM, Wait

SLOT = -1
"""The node of the pool: it gives a slot once any attempt ends. The one of a crowd is `SLOT - 1 - number`."""

NEVER: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A deadlock."""

    victim: Task
    members: tuple[dict[str, Any], ...]
    """As in DEADLOCK_DETECTED."""


def find(state: State, schedule: Schedule) -> Found | None:
    """Return a deadlock of running attempts; None where there is none. Of several, one that no other holds up."""
    run = state.run
    if run is None or run.phase is Phase.ENDED or state.reconciling:
        return None
    graph = _Graph(state, run, schedule)
    left = reduction.stuck(graph.needs)
    starts = [state.tasks[id].index for id in state.running if state.tasks[id].index in left]
    for knot in reduction.knots(graph.needs, left, starts):
        inside = set(knot)
        members = [state.order[index] for index in starts if index in inside]
        if members:
            members = _without_bystanders(members, graph)
            victim = _victim(members, graph, run.options.deadlock_victim)
            return Found(victim, tuple(graph.told(task, left) for task in members))
    return None


def _without_bystanders(members: list[Task], graph: _Graph) -> list[Task]:
    """Leave those out that hold nothing and only stand in the queue, where the others are stuck without them."""
    holders = [task for task in members if graph.contest.holds(task.id)]
    others = [task for task in members if not graph.contest.holds(task.id)]
    return holders if holders and graph.stuck_without(others, holders) == len(holders) else members


def _victim(members: list[Task], graph: _Graph, rule: str) -> Task:
    """Choose the first by the rule whose end lets another one go on; members are in order of dispatch.

    A task that would fail by it, as it was a victim too often, is spared while there is another.
    """
    first = members if rule == "oldest" else members[::-1]
    if rule == "fewest-locks":
        first = sorted(first, key=lambda task: graph.contest.holds(task.id))
    first = sorted(first, key=lambda task: task.uncounted.get(DEADLOCK_VICTIM, 0) >= UNCOUNTED_CEILING)
    helping = (task for task in first if graph.stuck_without([task], members) < len(members) - 1)
    return next(helping, first[0])


class _Graph:
    """Who needs whom, by place in the plan: running attempts that wait, and tasks that must start before they go on."""

    def __init__(self, state: State, run: Run, schedule: Schedule) -> None:
        self._state = state
        self._schedule = schedule
        self._waits = {id: waits for id, waits in live_waits(state).items() if _goes_on(state.tasks[id])}
        self.contest = Contest(state, (wait for waits in live_waits(state).values() for wait in waits))
        self._starts_nothing = run.phase is not Phase.RUNNING or run.gave_up is not None
        self._pool_is_full = len(state.running) >= run.options.max_workers
        self.needs: dict[int, list[tuple[int, ...]]] = {}
        for id in state.running:
            if id in self._waits:
                self.needs[state.tasks[id].index] = list(self._wait_needs(self._waits[id]))
        self._add_tasks_to_start()

    def _wait_needs(self, waits: list[Wait]) -> Iterator[tuple[int, ...]]:
        tasks = self._state.tasks
        for wait in waits:
            if wait.kind == "lock":
                yield from ((tasks[id].index,) for id, _ in self.contest.obstacles(wait))
            elif wait.kind == "task":
                named = (tasks[TaskId(id)] for id in wait.what if id in tasks)
                yield from ((task.index,) for task in named if not isinstance(task.status, FINAL))

    def _add_tasks_to_start(self) -> None:
        state, schedule = self._state, self._schedule
        rank_of, by_rank = state.ranks()
        claims = Claims(schedule.keys, by_rank)
        for id in state.running:
            claims.run(rank_of[state.tasks[id].index])
        unstarted = [state.order[index] for index in sorted(closure(state, targets(state)))]
        unstarted = [task for task in unstarted if not isinstance(task.status, ALIVE)]
        for task in sorted(unstarted, key=lambda task: (isinstance(task.status, Ready), schedule.turn(task))):
            turn = schedule.turn(task)
            self.needs[task.index] = list(self._start_needs(task, (by_rank[rank] for rank in claims.rivals(turn))))
            if isinstance(task.status, Ready) and not needs_a_person(task):
                claims.wait(turn)

    def _start_needs(self, task: Task, rivals: Iterator[int]) -> Iterator[tuple[int, ...]]:
        """Yield what must happen before a task can run to its end; what is up to people, or to time, is nothing."""
        if isinstance(task.status, (AwaitsApproval, Manual)) or needs_a_person(task):
            return
        before = [other for other in self._state.dependencies(task) if not isinstance(other.status, Done)]
        if self._starts_nothing or any(isinstance(other.status, Skipped) for other in before):
            yield NEVER
            return
        yield from ((other.index,) for other in before if not isinstance(other.status, FINAL))
        if task.spec.manual:
            return
        yield from ((rival,) for rival in rivals)
        if self._pool_is_full:
            self.needs.setdefault(SLOT, [self._running()])
            yield (SLOT,)
        for number, inside in self._schedule.crowds(task.index):
            self.needs.setdefault(SLOT - 1 - number, [inside])
            yield (SLOT - 1 - number,)

    def _running(self) -> tuple[int, ...]:
        return tuple(self._state.tasks[id].index for id in self._state.running)

    def stuck_without(self, ended: Iterable[Task], of: Iterable[Task]) -> int:
        """Return how many of some tasks are stuck still if others end."""
        needs = {**self.needs, **{task.index: [] for task in ended}}
        return len(reduction.stuck(needs) & {task.index for task in of})

    def told(self, task: Task, left: Collection[int]) -> dict[str, Any]:
        """Return a member as DEADLOCK_DETECTED tells it."""
        waits_for = [one for wait in self._waits[task.id] for one in self._told(wait, left)]
        return {"task": task.id, "attempt": task.attempt, "waits_for": waits_for}

    def _told(self, wait: Wait, left: Collection[int]) -> Iterator[dict[str, Any]]:
        tasks = self._state.tasks
        if wait.kind == "lock":
            for id, key in self.contest.obstacles(wait):
                if tasks[id].index in left:
                    yield {"kind": "lock", "what": key, "holder": tasks[id].attempt}
        elif wait.kind == "task":
            for awaited in (tasks[TaskId(id)] for id in wait.what if id in tasks):
                if awaited.index in left:
                    alive = isinstance(awaited.status, ALIVE)
                    yield {"kind": "task", "what": awaited.id, "holder": awaited.attempt if alive else None}
                    if lacking := self._lacks_a_slot(awaited.index, left):
                        yield {"kind": "pool", "what": lacking.id, "holder": None}

    def _lacks_a_slot(self, index: int, left: Collection[int]) -> Task | None:
        """Return the task that would have to start first and finds no slot; None where that is not what is missing."""
        seen: dict[int, None] = {index: None}
        todo = [index]
        for node in todo:  # grows while it is walked
            needs = self.needs.get(node, ())
            if node < 0 or SLOT not in left or isinstance(self._state.order[node].status, ALIVE):
                continue
            if (SLOT,) in needs:
                return self._state.order[node]
            fresh = [one for choice in needs for one in choice if one in left and one not in seen]
            seen |= dict.fromkeys(fresh)
            todo += fresh
        return None


def _goes_on(task: Task) -> bool:
    return isinstance(task.status, Running) and task.status.stopping is None
