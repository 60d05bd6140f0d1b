"""Deadlocks: attempts that wait for each other so that none of them can ever go on.

One graph holds every kind of wait: for locks (also behind an older wait in the queue), for tasks (and all that must
happen before these can start: their dependencies, what they conflict with, room in their groups), and for the pool
itself. A wait for a person, or for time to pass, is no edge: it ends without any of us.

Found by reduction: who waits for nothing can finish and frees what he holds. An attempt that is being stopped can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bus.wire import TaskId
from conductor.core import reduction
from conductor.core.awaited import closure, in_vain, targets
from conductor.core.claims import Claims
from conductor.core.contest import Contest, live_grants, live_waits
from conductor.core.ends import needs_a_person
from conductor.core.health import BREAKER, kind_of
from conductor.core.policy import UNCOUNTED_CEILING
from conductor.core.schedule import Schedule
from conductor.core.state import ALIVE, FINAL, Run, State, Task
from conductor.core.task import AwaitsApproval, Done, Manual, Ready, Running, Skipped
from conductor.core.transitions import Phase
from conductor.core.waits import DEADLOCK_VICTIM, Wait

SLOT = -1
"""The node of the pool: it gives a slot once any attempt ends. The one of a crowd is `SLOT - 1 - number`."""

MOST_TRIED = 20
"""Members that are tried as victims, before the rule alone decides."""

NEVER: tuple[int, ...] = ()
"""No node gives it."""


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
    waits = live_waits(state)
    if all(wait.kind == "question" for several in waits.values() for wait in several):
        return None
    graph = _Graph(state, run, schedule, waits)
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
    """Leave those out that only stand in the queue, where the others are stuck without them."""
    wanted: list[Task] = []
    others: list[Task] = []
    for task in members:
        (wanted if graph.contest.holds(task.id) or graph.done(task) in graph.needs else others).append(task)
    return wanted if wanted and graph.stuck_without(others, wanted) == len(wanted) else members


def _victim(members: list[Task], graph: _Graph, rule: str) -> Task:
    """Choose the first by the rule whose end lets another one go on; members are in order of dispatch.

    A task that would fail by it, as it was a victim too often, is spared while there is another.
    """
    first = members if rule == "oldest" else members[::-1]
    if rule == "fewest-locks":
        first = sorted(first, key=lambda task: graph.contest.holds(task.id))
    first = sorted(first, key=lambda task: task.uncounted.get(DEADLOCK_VICTIM, 0) >= UNCOUNTED_CEILING)
    helping = (task for task in first[:MOST_TRIED] if graph.stuck_without([task], members) < len(members) - 1)
    return next(helping, first[0])


class _Graph:
    """Who needs whom.

    The end of a running attempt, by which it gives back its slot and what it holds, is the node of the task's place in
    the plan. The end of a task is another one: who is stopped ends, and his task is not done by that.
    """

    def __init__(self, state: State, run: Run, schedule: Schedule, waits: Mapping[TaskId, list[Wait]]) -> None:
        """`waits` are those of running attempts."""
        self._state = state
        self._schedule = schedule
        self._size = len(state.order)
        self._held, self._wanted = live_grants(state), [wait for several in waits.values() for wait in several]
        self._waits = {id: several for id, several in waits.items() if _goes_on(state.tasks[id])}
        self.contest = Contest(self._held, self._wanted)
        self._run = run
        self._starts_nothing = run.phase is not Phase.RUNNING or run.gave_up is not None
        self._pool_is_full = len(state.running) >= run.options.max_workers
        self.needs: dict[int, list[tuple[int, ...]]] = {}
        if self._may_be_tied():
            for id in state.running:
                if id in self._waits:
                    self.needs[state.tasks[id].index] = list(self._wait_needs(self._waits[id], self.contest))
            self._add_awaited()

    def _may_be_tied(self) -> bool:
        """Tell whether there can be a deadlock at all: an attempt that waits for one lock and holds none stands in
        nobody's way but in the queue, where all look in one direction."""
        return any(
            wait.kind == "task" or (wait.kind == "lock" and (self.contest.holds(wait.task) or wait.ticket != first))
            for several in self._waits.values()
            for first in [several[0].ticket]
            for wait in several
        )

    def done(self, task: Task) -> int:
        """Return the node of the end of a task."""
        return self._size + task.index

    def _wait_needs(self, waits: list[Wait], contest: Contest) -> Iterator[tuple[int, ...]]:
        tasks = self._state.tasks
        for wait in waits:
            if wait.kind == "lock":
                yield from ((tasks[id].index,) for id in contest.blockers(wait))
            elif wait.kind == "task" and not in_vain(self._state, self._run, wait):
                named = (tasks[TaskId(id)] for id in wait.what if id in tasks)
                yield from ((self.done(task),) for task in named if not isinstance(task.status, FINAL))

    def _add_awaited(self) -> None:
        """Add what tasks need that somebody waits for, near or far: the end of an attempt, or all before one starts."""
        state, schedule = self._state, self._schedule
        rank_of, by_rank = state.ranks()
        claims = Claims(schedule.keys, by_rank)
        for id in state.running:
            claims.run(rank_of[state.tasks[id].index])
        awaited = [state.order[index] for index in sorted(closure(state, targets(state)))]
        for task in sorted(awaited, key=lambda task: (isinstance(task.status, Ready), schedule.turn(task))):
            if isinstance(task.status, ALIVE):
                self.needs[self.done(task)] = [(task.index,)]
                continue
            rivals = [state.order[by_rank[rank]] for rank in claims.rivals(schedule.turn(task))]
            self.needs[self.done(task)] = list(self._start_needs(task, rivals))
            if isinstance(task.status, Ready) and not needs_a_person(task):
                claims.wait(schedule.turn(task))

    def _start_needs(self, task: Task, rivals: list[Task]) -> Iterator[tuple[int, ...]]:
        """Yield what must happen before a task can run to its end; what is up to people, or to time, is nothing."""
        if isinstance(task.status, (AwaitsApproval, Manual)) or needs_a_person(task):
            return
        before = [other for other in self._state.dependencies(task) if not isinstance(other.status, Done)]
        if self._starts_nothing:  # whoever waits hears that it will not be started, and waits no more
            return
        if any(isinstance(other.status, Skipped) for other in before):
            yield NEVER
            return
        yield from ((self.done(other),) for other in before if not isinstance(other.status, FINAL))
        if task.spec.manual:
            return
        yield from ((index,) for index in self._prober(task))
        yield from ((one.index if isinstance(one.status, ALIVE) else self.done(one),) for one in rivals)
        if self._pool_is_full:
            self.needs.setdefault(SLOT, [tuple(self._state.tasks[id].index for id in self._state.running)])
            yield (SLOT,)
        for number, inside in self._schedule.crowds(task.index):
            self.needs.setdefault(SLOT - 1 - number, [inside])
            yield (SLOT - 1 - number,)

    def _prober(self, task: Task) -> Iterator[int]:
        """Yield the place of the attempt that a half-open breaker lets through, where a task's kind waits for it."""
        pause = self._state.providers.get(kind_of(task.spec, self._run.options))
        if pause is not None and pause.error_class == BREAKER:
            running = (self._state.tasks[id] for id in self._state.running)
            yield from (one.index for one in running if one.attempt == pause.probe)

    def stuck_without(self, ended: Iterable[Task], of: Iterable[Task]) -> int:
        """Return how many of some tasks are stuck still if the attempts of others end, and these are tried again."""
        needs, over = dict(self.needs), {task.id: task for task in ended}
        contest = Contest(
            (one for one in self._held if one.task not in over), (one for one in self._wanted if one.task not in over)
        )
        for id, waits in self._waits.items():
            index = self._state.tasks[id].index
            if id in over:
                needs[index], needs[self.done(over[id])] = [], needs[index]
            else:
                needs[index] = list(self._wait_needs(waits, contest))
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
                if self.done(awaited) in left:
                    alive = isinstance(awaited.status, ALIVE)
                    yield {"kind": "task", "what": awaited.id, "holder": awaited.attempt if alive else None}
                    if lacking := self._lacks_a_slot(awaited, left):
                        yield {"kind": "pool", "what": lacking.id, "holder": None}

    def _lacks_a_slot(self, awaited: Task, left: Collection[int]) -> Task | None:
        """Return the task that would have to start first and finds no slot; None where that is not what is missing."""
        todo = [self.done(awaited)] if SLOT in left else []
        seen = set(todo)
        for node in todo:  # grows while it is walked
            needs = self.needs[node]
            if (SLOT,) in needs:
                return self._state.order[node - self._size]
            fresh = {one for choice in needs for one in choice if one >= self._size and one in left} - seen
            seen |= fresh
            todo += sorted(fresh)
        return None


def _goes_on(task: Task) -> bool:
    return isinstance(task.status, Running) and task.status.stopping is None
