"""Short ways to plans and results."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from bus.wire import ExitRecord, TaskId
from conductor.core.task import Group, Plan, RunOptions, TaskSpec

ENDINGS: dict[str, dict[str, Any]] = {
    "ok": {},
    "fails": {"command": {"code": 1, "signal": None}, "tail": "boom\n"},
    "missing": {"started": False, "why": "spawn: [Errno 2] No such file or directory: 'x'", "command": None},
    "short": {"started": False, "why": "shortage: /bin/x: Resource temporarily unavailable", "command": None},
    "revoked": {"started": False, "why": "revoked", "command": None},
    "stopped": {"ended_by": "stop", "command": {"code": None, "signal": 15}},
}
"""Short names for what `exit.json` says."""


def ending(name: str = "ok", **fields: Any) -> ExitRecord:
    """Return the exit record of a short name, with fields replaced."""
    base: dict[str, Any] = {"started": True, "ended_by": "self", "command": {"code": 0, "signal": None}}
    return ExitRecord(**{**base, **ENDINGS[name], **fields})


def task_of(line: str, /, **fields: Any) -> TaskSpec:
    """Make a task of `id`, or of `id < dependency dependency`."""
    id, _, after = line.partition("<")
    return TaskSpec(TaskId(id.strip()), f"Task {id.strip()}", 0, depends_on=tuple(map(TaskId, after.split())), **fields)


def plan_of(*tasks: str | TaskSpec, groups: tuple[Group, ...] = ()) -> Plan:
    """Make a plan of task lines or specs, in this order."""
    specs = (task_of(one) if isinstance(one, str) else one for one in tasks)
    return Plan(tuple(replace(spec, index=index) for index, spec in enumerate(specs)), groups)


def random_plan(random: Random, size: int) -> Plan:
    """Make a plan with dependencies, shared files, resources, groups, and estimates."""
    files = ["src/a.py", "src/b.py", "src/*.py", "docs/", "docs/x.md", "lib/**"]
    tasks = []
    for index in range(size):
        before = random.sample(range(index), k=min(index, random.choice([0, 0, 1, 1, 2, 3])))
        tasks.append(
            TaskSpec(
                id=TaskId(f"t{index}"),
                name=f"Task {index}",
                index=index,
                depends_on=tuple(TaskId(f"t{other}") for other in sorted(before)),
                files=tuple(random.sample(files, k=random.choice([0, 0, 1, 2]))),
                reads=tuple(random.sample(files, k=random.choice([0, 0, 0, 1]))),
                resources=("db",) if random.random() < 0.1 else (),
                estimate=random.choice([None, 60.0, 600.0]),
                retries=random.choice([None, 0, 1]),
            )
        )
    members = [task.id for task in tasks]
    random.shuffle(members)  # plan order need not be the order of dependencies
    half = tuple(members[: size // 2])
    order = sorted(tasks, key=lambda task: members.index(task.id))
    return Plan(
        tuple(replace(task, index=index) for index, task in enumerate(order)),
        (Group("pg-1", half, max_workers=random.choice([1, 2, None])),) if half else (),
    )


def random_options(random: Random, odd: Random, *, supervised: bool, **fixed: Any) -> RunOptions:
    """Draw how a plan is carried out; with `supervised`, by rules that keep tasks apart or end a run early too."""
    options = RunOptions(max_workers=random.choice((1, 2, 5)), retries=random.choice((0, 1, 2)), **fixed)
    if not supervised:
        return options
    return replace(
        options,
        on_conflict=odd.choice(("serialize", "lock", "lock", "allow")),
        parallel=odd.choice(("any", "any", "pure-read")),
        schedule=odd.choice(("ready", "ready", "groups")),
        resources={"db": odd.choice((1, 2))},
        deadlock_victim=odd.choice(("youngest", "oldest", "fewest-locks")),
        breaker=odd.choice((None, None, 2)),
        run_timeout=odd.choice((None, None, None, 2000.0)),
        fail_fast=odd.random() < 0.1,
    )


def supervised_plan(odd: Random, plan: Plan) -> Plan:
    """Give some tasks of a plan gates, a person, locks, an effect, limits of silence."""
    return replace(plan, tasks=tuple(_supervised(odd, task) for task in plan.tasks))


def _supervised(odd: Random, task: TaskSpec) -> TaskSpec:
    reads = not task.files and odd.random() < 0.5
    return replace(
        task,
        approve=odd.choice((None, None, None, "before", "after")),
        manual=odd.random() < 0.1,
        locks=odd.choice((None, None, None, ("src",))),
        effect="pure_read" if reads else odd.choice(("write", "external")),
        resources=task.resources or odd.choice(((), (), ("db",))),
        stale_after=odd.choice((None, None, 60.0)),
    )


def side_by_side(plan: Plan) -> Plan:
    """Take away what keeps the tasks of a plan apart."""
    free = (replace(task, depends_on=(), files=(), reads=(), resources=(), effect="pure_read") for task in plan.tasks)
    return replace(plan, tasks=tuple(free), groups=())


def edited(random: Random, plan: Plan) -> Plan:
    """Make the plan that somebody made of one of `random_plan`, with a few edits: it may have other tasks, less of
    them, other dependencies, another order."""
    tasks = {task.id: task for task in plan.tasks}
    for _ in range(random.choice((1, 1, 2, 4))):
        _edit(random, tasks)
    specs = [replace(task, index=index) for index, task in enumerate(tasks.values())]
    groups = (replace(group, tasks=tuple(one for one in group.tasks if one in tasks)) for group in plan.groups)
    return replace(plan, tasks=tuple(specs), groups=tuple(group for group in groups if group.tasks))


def _edit(random: Random, tasks: dict[TaskId, TaskSpec]) -> None:
    id = random.choice(list(tasks))
    kind = random.choice(("add", "remove", "move", "files", "needs", "name"))
    if kind == "add":  # perhaps one that was there before
        free = [TaskId(f"t{number}") for number in range(len(tasks) + 2) if f"t{number}" not in tasks]
        id = random.choice(free)
        tasks[id] = TaskSpec(id, f"Task {id}", 0, depends_on=_needs(random, tasks, id))
    elif kind == "remove" and len(tasks) > 1:
        del tasks[id]
        for other in [one for one in tasks.values() if id in one.depends_on]:
            tasks[other.id] = replace(other, depends_on=tuple(one for one in other.depends_on if one != id))
    elif kind == "move":
        tasks[id] = tasks.pop(id)
    elif kind == "files":
        tasks[id] = replace(tasks[id], files=(random.choice(("src/a.py", "docs/", "lib/**")),))
    elif kind == "needs":
        tasks[id] = replace(tasks[id], depends_on=_needs(random, tasks, id))
    else:
        tasks[id] = replace(tasks[id], name=f"{tasks[id].name}, edited", retries=random.choice((0, 1, 2)))


def _needs(random: Random, tasks: dict[TaskId, TaskSpec], id: TaskId) -> tuple[TaskId, ...]:
    """Draw what a task depends on: tasks of a lower number, so that there is no cycle."""
    lower = [one for one in tasks if int(one[1:]) < int(id[1:])]
    return tuple(random.sample(lower, k=min(len(lower), random.choice((0, 1, 2)))))
