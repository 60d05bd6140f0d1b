"""Deadlocks agree with brute force: with a solver that lets everybody who can go on finish, until nobody can, and with
runs of workers that lock and wait at random, which all come to an end."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bus.contention import in_the_way
from bus.wire import AttemptId, TaskId
from conductor.core import deadlock, reduction
from conductor.core.conflicts import overlap
from conductor.core.events import ControlReceived, TimerFired
from conductor.core.schedule import Schedule
from conductor.core.state import FINAL, State, Task
from conductor.core.task import Backoff, Group, Pending, Plan, Ready, Running, RunOptions, TaskSpec
from conductor.core.wait_events import GrantGone, WaitEnded
from conductor.core.waits import Grant, Wait
from conductor.testing import Play

# --- the reduction ----------------------------------------------------------------------------------------------------

Needs = dict[int, list[list[int]]]
NEEDS = st.dictionaries(st.integers(0, 7), st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3), max_size=8)


def never(needs: Needs) -> set[int]:
    """Take away one by one who needs nothing that is not taken away yet."""
    left, before = set(needs), set[int]()
    while left != before:
        before = set(left)
        left = {node for node in before if not all(any(one not in before for one in some) for some in needs[node])}
    return left


def reached(needs: Needs, left: Collection[int], node: int) -> set[int]:
    """Return what a stuck node lacks, near or far."""
    found: set[int] = set()
    todo = [node]
    while todo:
        lacked = [some for some in needs[todo.pop()] if all(one in left for one in some)]
        fresh = {one for some in lacked for one in some} - found
        found |= fresh
        todo += fresh
    return found


@settings(max_examples=200)
@given(NEEDS)
@example({0: [[1]], 1: [[0, 2]], 2: [[]]})
def test_the_reduction_is_that_of_brute_force(needs: Needs) -> None:
    left = reduction.stuck(needs)
    assert left == never(needs)
    found = [set(one) for one in reduction.knots(needs, left, sorted(left))]
    assert sorted(node for knot in found for node in knot) == sorted(left)
    for place, knot in enumerate(found):
        for node in knot:
            beyond = reached(needs, left, node)
            assert {other for other in beyond if node in reached(needs, left, other)} | {node} == knot
            assert beyond - knot <= {one for before in found[:place] for one in before}


# --- pictures of waits ------------------------------------------------------------------------------------------------

KEYS = ("a", "b", "c", "d/", "d/e", "d/*.py")


def world(random: Random) -> State:
    """Return a state in which running attempts hold and wait for anything."""
    size = random.randint(2, 9)
    tasks = [TaskSpec(TaskId(f"t{n}"), "", n, depends_on=_some(random, n), files=_files(random)) for n in range(size)]
    ids = [task.id for task in tasks]
    groups = (Group("g", tuple(random.sample(ids, k=min(3, size))), max_workers=random.choice([1, 2])),)
    plan = Plan(tuple(tasks), groups if random.random() < 0.5 else ())
    play = Play().start(plan, max_workers=random.choice([1, 2, 3, 8]), retries=0)
    for _ in range(random.randint(0, 3)):
        if play.running and not play.machine.ended:
            play.result(random.choice(play.running), random.choice(["ok", "ok", "ok", "fails"]))
    state = play.machine.state
    if random.random() < 0.1:
        play.machine.replay(ControlReceived("drain", "operator:me"), play.now)
    for number in range(random.randint(0, 16)):
        if state.running:
            _hold_or_wait(random, state, number, ids)
    return state


def _some(random: Random, below: int) -> tuple[TaskId, ...]:
    return tuple(TaskId(f"t{one}") for one in random.sample(range(below), k=min(below, random.choice([0, 0, 1, 2]))))


def _files(random: Random) -> tuple[str, ...]:
    return tuple(random.sample(("x", "y"), k=random.choice([0, 0, 0, 1])))


def _hold_or_wait(random: Random, state: State, number: int, ids: list[TaskId]) -> None:
    task = state.tasks[random.choice(list(state.running))]
    id, attempt = f"{number:08x}", task.attempt
    assert attempt is not None
    keys, shared = tuple(random.sample(KEYS, k=random.choice([1, 1, 2]))), random.random() < 0.3
    if random.random() < 0.5:
        grant = Grant(id, task.id, attempt, keys, shared, number, 0.0)
        if not any(one.attempt != attempt and clash(grant.keys, shared, one.keys, one.shared) for one in held(state)):
            state.grants[f"{attempt}.{id}"] = grant
    elif random.random() < 0.75:
        state.waits[f"{attempt}.{id}"] = Wait(id, task.id, attempt, "lock", keys, shared, number, "", 0.0)
    else:
        kind = random.choice(["task", "task", "task", "question"])
        what = tuple(random.sample(ids, k=random.choice([1, 1, 2]))) if kind == "task" else ()
        state.waits[f"{attempt}.{id}"] = Wait(id, task.id, attempt, kind, what, False, 0, "", 0.0)


def held(state: State) -> list[Grant]:
    return list(state.grants.values())


def clash(a: Collection[str], a_shared: bool, b: Collection[str], b_shared: bool) -> bool:
    return not (a_shared and b_shared) and any(overlap(x, y) for x in a for y in b)


class Solver:
    """Lets everybody finish who can go on, one at a time, by the plainest reading of the rules; the rest is stuck."""

    def __init__(self, state: State, ended: Collection[TaskId] = ()) -> None:
        self._state = state
        self._options = state.run.options if state.run else RunOptions()
        self._done = {task.id for task in state.order if isinstance(task.status, FINAL)}
        self._wanted = self._closure(
            {TaskId(id) for one in state.waits.values() if one.kind == "task" for id in one.what}
        )
        ranks = state.ranks()[0]
        self._line = [
            task
            for task in sorted(state.order, key=lambda task: ranks[task.index])
            if isinstance(task.status, Ready) and task.id in self._wanted
        ]
        self.alive = {id: state.tasks[id] for id in state.running}
        for id in ended:  # being stopped: that ends for sure, and what comes of it is looked at then
            del self.alive[id]
            self._done.add(id)

    def stuck(self) -> set[TaskId]:
        """Return the tasks whose attempts can never finish, whatever happens."""
        while self._step():
            pass
        return set(self.alive)

    def _step(self) -> bool:
        for id in list(self.alive):
            if all(self._is_met(wait) for wait in self._state.waits.values() if wait.task == id):
                del self.alive[id]
                self._done.add(id)
                return True
        for task in self._state.order:
            if task.id in self._wanted - self._done and task.id not in self.alive and self._may_start(task):
                self._done.add(task.id)  # it starts, and waits for nothing
                return True
        return False

    def _closure(self, ids: set[TaskId]) -> set[TaskId]:
        for task in reversed(self._state.order):  # dependencies stand before in these plans
            if task.id in ids:
                ids |= set(task.spec.depends_on)
        return ids

    def _is_met(self, wait: Wait) -> bool:
        if wait.kind == "task":
            unbegun = (isinstance(self._state.tasks[TaskId(id)].status, (Backoff, Pending, Ready)) for id in wait.what)
            if not deadlock_free_phase(self._state) and any(unbegun):
                return True  # it hears that this one will not be started
            return all(TaskId(id) in self._done for id in wait.what)
        if wait.kind == "question":
            return True
        ours = [(one.keys, one.shared) for one in held(self._state) if one.task == wait.task]
        others = [one for one in held(self._state) if one.task != wait.task and one.task in self.alive]
        older = [
            one
            for one in self._state.waits.values()
            if one.kind == "lock" and one.ticket < wait.ticket and one.task != wait.task and one.task in self.alive
        ]
        return not any(clash(wait.what, wait.shared, one.keys, one.shared) for one in others) and not any(
            clash(wait.what, wait.shared, one.what, one.shared)
            and not any(clash(keys, shared, one.what, one.shared) for keys, shared in [*ours, *self._older(wait, one)])
            for one in older
        )

    def _older(self, wait: Wait, than: Wait) -> list[tuple[tuple[str, ...], bool]]:
        """What else the same attempt waits for, and will have before a wait gets its turn."""
        waits = [one for one in self._state.waits.values() if one.kind == "lock" and one.task == wait.task]
        return [(one.what, one.shared) for one in waits if one.ticket < than.ticket]

    def _may_start(self, task: Task) -> bool:
        state = self._state
        if not deadlock_free_phase(state) or not all(other in self._done for other in task.spec.depends_on):
            return False
        ahead = self._line[: self._line.index(task)] if task in self._line else []
        rivals = [*self.alive.values(), *(one for one in ahead if one.id not in self._done)]
        crowds = [group for group in state.plan.groups if task.id in group.tasks]
        return (
            len(self.alive) < self._options.max_workers
            and not any(overlap(x, y) for other in rivals for x in other.spec.files for y in task.spec.files)
            and all(len(self.alive.keys() & set(group.tasks)) < (group.max_workers or 5) for group in crowds)
        )


def deadlock_free_phase(state: State) -> bool:
    return state.run is not None and state.phase.value == "running" and state.run.gave_up is None


def test_requirement_12_random_wait_graphs_agree_with_a_brute_force_solver() -> None:
    """Whoever is named is stuck for good, whoever is not named is not; with one victim after another nobody is."""
    kinds: dict[str, int] = {}
    for seed in range(400):
        state = world(Random(seed))
        if state.run is None or not state.running:
            continue
        ended: list[TaskId] = []
        while found := deadlock.find(state, Schedule(state, state.run.options)):
            stuck = Solver(state, ended).stuck()
            members = {TaskId(one["task"]) for one in found.members}
            assert members <= stuck, seed
            assert found.victim.id in members
            assert all(one["waits_for"] for one in found.members), seed
            for one in found.members:
                for wait in one["waits_for"]:
                    kinds[wait["kind"]] = kinds.get(wait["kind"], 0) + 1
            ended.append(found.victim.id)
            status = found.victim.status
            assert isinstance(status, Running)
            found.victim.status = Running(status.attempt, status.number, "deadlock_victim")
        assert Solver(state, ended).stuck() == set(), seed
    assert kinds.keys() == {"lock", "task", "pool"}
    assert min(kinds.values()) >= 20, kinds


# --- whole runs -------------------------------------------------------------------------------------------------------

Step = tuple[str, tuple[str, ...], bool]
"""(`lock`, keys, shared), (`unlock`, (), False), or (`task`, ids, False)."""


class Workers:
    """Attempts that lock, wait and end, by the rule of the bus; each task does the same in each attempt."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        size = self.random.randint(2, 8)
        tasks = [
            TaskSpec(TaskId(f"t{n}"), "", n, depends_on=_some(self.random, n), files=_files(self.random))
            for n in range(size)
        ]
        self._scripts = {task.id: self._script(task.index) for task in tasks}
        self._steps: dict[str, int] = {}
        """By attempt, how many steps of the script are behind it."""
        self._waits: dict[str, tuple[str, int]] = {}
        """By attempt, id and ticket of the wait for its next step."""
        self.play = Play().start(Plan(tuple(tasks)), max_workers=self.random.choice([1, 2, 3, 8]), seed=seed)

    def _script(self, index: int) -> list[Step]:
        steps: list[Step] = []
        for _ in range(self.random.choice([0, 1, 2, 3, 4])):
            match self.random.choice(["lock", "lock", "lock", "unlock", "task"]):
                case "lock":
                    keys = tuple(self.random.sample(KEYS, k=self.random.choice([1, 1, 2])))
                    steps.append(("lock", keys, self.random.random() < 0.25))
                case "task" if index:
                    steps.append(("task", (f"t{self.random.randrange(index)}",), False))
                case _:
                    steps.append(("unlock", (), False))
        return steps

    def run(self) -> Play:
        """Let one thing after another happen until the round has ended."""
        for _ in range(3000):
            if self.play.machine.ended:
                return self.play
            state = self.play.machine.state
            can = [id for id in self.play.running if self._can_move(state.tasks[TaskId(id)])]
            backoffs = [task.id for task in state.order if isinstance(task.status, Backoff)]
            assert can or backoffs, "nobody can go on, and no deadlock was named"
            if can and (not backoffs or self.random.random() < 0.7):
                self._move(state.tasks[TaskId(self.random.choice(can))])
            else:
                self.play.fact(TimerFired(f"retry:{self.random.choice(backoffs)}"))
            self._check()
        raise AssertionError("the run does not come to an end")

    def _check(self) -> None:
        state = self.play.machine.state
        if state.run is not None and not self.play.machine.ended:
            assert deadlock.find(state, Schedule(state, state.run.options)) is None, "a deadlock went unnoticed"

    def _can_move(self, task: Task) -> bool:
        assert isinstance(task.status, Running)
        attempt = task.status.attempt
        return task.status.stopping is not None or attempt not in self._waits or self._is_free(task)

    def _next(self, task: Task) -> Step | None:
        place = self._steps.get(str(task.attempt), 0)
        script = self._scripts[task.id]
        return script[place] if place < len(script) else None

    def _is_free(self, task: Task) -> bool:
        step, state = self._next(task), self.play.machine.state
        assert step is not None
        assert task.attempt is not None
        kind, what, shared = step
        if kind == "task":
            return all(isinstance(state.tasks[TaskId(id)].status, FINAL) for id in what)
        ticket = self._waits[task.attempt][1] if task.attempt in self._waits else None
        waits = [wait for wait in state.waits.values() if wait.kind == "lock"]
        return not any(in_the_way(task.attempt, [(what, shared)], ticket, state.grants.values(), waits))

    def _move(self, task: Task) -> None:
        assert isinstance(task.status, Running)
        attempt, step = str(task.attempt), self._next(task)
        if task.status.stopping is not None:
            self._end(task, "stopped")
        elif step is None:
            self._end(task, "ok")
        elif step[0] == "unlock":
            self._steps[attempt] = self._steps.get(attempt, 0) + 1
            for grant in [one for one in held(self.play.machine.state) if one.attempt == attempt]:
                self.play.lets_go(task.id, grant.id)
        elif not self._is_free(task):
            id = self.play.waits(task.id, step[0], *step[1], shared=step[2])
            self._waits[attempt] = id, int(id, 16)
        else:
            if attempt in self._waits:
                self.play.waits_no_more(task.id, self._waits.pop(attempt)[0])
            self._steps[attempt] = self._steps.get(attempt, 0) + 1
            if step[0] == "lock":
                self.play.holds(task.id, *step[1], shared=step[2])

    def _end(self, task: Task, name: str) -> None:
        """The files of an attempt are removed behind its end."""
        attempt = str(task.attempt)
        self.play.result(task.id, name)
        state = self.play.machine.state
        for grant in [one for one in held(state) if one.attempt == attempt]:
            self.play.fact(GrantGone(task.id, AttemptId(attempt), grant.id, "closed"))
        for wait in [one for one in state.waits.values() if one.attempt == attempt]:
            self.play.fact(WaitEnded(task.id, AttemptId(attempt), wait.id, "void"))
        self._waits.pop(attempt, None)


def test_requirement_12_runs_of_workers_that_lock_and_wait_at_random_all_come_to_an_end() -> None:
    deadlocks = 0
    for seed in range(150):
        play = Workers(seed).run()
        assert set(play.statuses.values()) == {"done"}, seed
        words = [event.TYPE for _, event in play.journal]
        assert words.count("DEADLOCK_DETECTED") == words.count("DEADLOCK_RESOLVED")
        deadlocks += words.count("DEADLOCK_DETECTED")
        if seed % 10 == 0:
            assert play.replayed().digest() == play.machine.digest()
    assert deadlocks >= 15
