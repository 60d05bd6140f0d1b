"""The indexed schedule does what the rule says: compared with the rule itself, applied to the whole state each time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.wire import TaskId
from conductor.core import conflicts, graph
from conductor.core.conflicts import Keys
from conductor.core.events import WorkerDispatched
from conductor.core.instructions import Journal
from conductor.core.rooms import room_of
from conductor.core.task import Group, Plan, Ready, RunOptions
from conductor.testing import Chances, CoreSimulation, random_plan


def expected(sim: CoreSimulation, started: list[TaskId]) -> list[TaskId]:
    """Apply the rule to the state as it was before `started` were started."""
    state = sim.machine.state
    keys = Keys(sim.plan, sim.options)
    running = [state.tasks[id].index for id in state.running if id not in started]
    ranks = graph.ranks(sim.plan, state.graph)
    ready = [task for task in state.order if isinstance(task.status, Ready) or task.id in started]
    waiting: list[int] = []
    found: list[TaskId] = []
    for task in sorted(ready, key=lambda task: ranks[task.index]):
        if len(running) >= sim.options.max_workers:
            break
        rooms = [
            room_of(group, sim.options) - sum(state.order[one].id in group.tasks for one in running)
            for group in sim.plan.groups
            if task.id in group.tasks
        ]
        rooms += [
            count - sum(name in state.order[one].spec.resources for one in running)
            for name, count in sim.options.resources.items()
            if count > 1 and name in task.spec.resources
        ]
        if all(room > 0 for room in rooms) and not any(keys.shared(task.index, one) for one in [*running, *waiting]):
            running.append(task.index)
            found.append(task.id)
        else:
            waiting.append(task.index)
    return found


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 3, 8]),
    st.sampled_from(["serialize", "allow"]),
    st.sampled_from(["any", "pure-read"]),
    st.sampled_from([1, 2, 3]),
)
def test_each_start_follows_the_rule_and_no_slot_stays_free_against_it(
    seed: int, workers: int, on: str, parallel: str, count: int
) -> None:
    random = Random(seed)
    options = RunOptions(
        max_workers=workers, on_conflict=on, parallel=parallel, resources={"db": count, "gpu": 2}, seed=seed
    )
    plan = random_plan(random, random.randint(2, 25))
    tasks = (
        replace(
            task, effect=random.choice(["pure_read", "write"]), resources=random.choice([(), ("gpu",), ("db", "gpu")])
        )
        for task in plan.tasks
    )
    sim = CoreSimulation(replace(plan, tasks=tuple(tasks)), seed, options, chances=Chances(crash=0.0, control=0.0))
    while (instructions := sim.step()) is not None:
        decisions = [one.decision for one in instructions if isinstance(one, Journal)]
        started = [one.task for one in decisions if isinstance(one, WorkerDispatched)]
        if not sim.machine.ended:
            assert started == expected(sim, started)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 8]))
def test_group_by_group_no_two_groups_run_side_by_side_and_each_run_ends(seed: int, workers: int) -> None:
    random = Random(seed)
    plan = random_plan(random, random.randint(2, 25))
    ids = [task.id for task in plan.tasks]
    random.shuffle(ids)
    cuts = sorted(random.sample(range(len(ids) + 1), k=min(3, len(ids))))
    parts = [ids[a:b] for a, b in pairwise(cuts) if a < b]
    plan = replace(plan, groups=tuple(Group(f"pg-{n}", tuple(part)) for n, part in enumerate(parts)))
    options = RunOptions(max_workers=workers, schedule="groups", seed=seed)
    sim = CoreSimulation(plan, seed, options, chances=Chances(crash=0.0, control=0.0))
    while sim.step() is not None:
        state = sim.machine.state
        assert len({group.id for group in plan.groups for id in state.running if id in group.tasks}) <= 1
    sim.check()


@given(st.integers(0, 2**32), st.integers(0, 14))
def test_pairs_are_the_unordered_conflicts(seed: int, size: int) -> None:
    plan = random_plan(Random(seed), size)
    index = {task.id: task for task in plan.tasks}

    def before(a: TaskId, b: TaskId) -> bool:
        return a in index[b].depends_on or any(before(a, other) for other in index[b].depends_on)

    wanted = {
        (a.id, b.id)
        for a in plan.tasks
        for b in plan.tasks[a.index + 1 :]
        if not before(a.id, b.id) and not before(b.id, a.id) and _conflict(a, b)
    }
    found = conflicts.pairs(plan)
    assert [(a, b) for a, b, _ in found] == sorted(
        wanted, key=lambda pair: (index[pair[0]].index, index[pair[1]].index)
    )


def _conflict(a: conflicts.TaskSpec, b: conflicts.TaskSpec) -> bool:
    rivals = [(x, y) for x in a.files for y in (*b.files, *b.reads)] + [(x, y) for x in a.reads for y in b.files]
    return bool(set(a.resources) & set(b.resources)) or any(conflicts.overlap(x, y) for x, y in rivals)


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_levels_order_and_critical_path_agree_with_the_dependencies(seed: int, size: int) -> None:
    plan = random_plan(Random(seed), size)
    waves = graph.levels(plan)
    level = {id: number for number, wave in enumerate(waves) for id in wave}
    assert sorted(level) == sorted(task.id for task in plan.tasks)
    for task in plan.tasks:
        assert level[task.id] == max((level[other] + 1 for other in task.depends_on), default=0)
    assert graph.find_cycle(plan.tasks) is None
    path = graph.critical_path(plan)
    seconds = graph.durations(plan)
    index = {task.id: task for task in plan.tasks}
    assert all(a in index[b].depends_on for a, b in pairwise(path))
    longest = max(graph.tails(plan, graph.build(plan.tasks)))
    assert sum(seconds[id] for id in path) == longest


@given(st.integers(0, 2**32), st.integers(2, 15), st.data())
def test_a_cycle_is_found_and_is_one(seed: int, size: int, data: st.DataObject) -> None:
    plan = random_plan(Random(seed), size)
    last, first = (data.draw(st.sampled_from(plan.tasks)) for _ in range(2))
    tasks = [
        replace(task, depends_on=(*task.depends_on, last.id)) if task.id == first.id else task for task in plan.tasks
    ]
    cycle = graph.find_cycle(tasks)
    order = graph.build(tasks).order
    assert (cycle is None) == (len(order) == len(tasks))
    if cycle is not None:
        index = {task.id: task for task in tasks}
        assert all(b in index[a].depends_on for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_an_empty_plan_has_no_levels() -> None:
    assert graph.levels(Plan(())) == []
    assert graph.critical_path(Plan(())) == []
    assert conflicts.pairs(Plan(())) == []
