"""What a simulation checks, from outside: by what workers did and by the lines of the journal, not by the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from types import MappingProxyType

from bus.wire import AttemptId, Record, TaskId
from conductor.core.conflicts import overlap
from conductor.core.task import Plan, RunOptions, TaskSpec
from conductor.testing.story import FINAL, LedgerBroken, Story, demand

__all__ = ["FINAL", "Ledger", "LedgerBroken", "conflict", "demand"]


class Ledger:
    """Follows workers and results."""

    def __init__(self, plan: Plan, options: RunOptions) -> None:
        """`plan` is that of all rounds whose own is not told."""
        self._plan = plan
        self._options = options
        self.succeeded: dict[AttemptId, TaskId] = {}
        """Attempts whose command did its work and said so."""
        self.done: set[TaskId] = set()
        """Tasks that are complete and were not taken back since, as of the last check."""
        self.shown: set[TaskId] = set()
        """Tasks of which the newest word is TASK_COMPLETE."""
        self.void: set[AttemptId] = set()
        """Attempts whose work does not count any more: their task was reset, or taken out of the plan."""

    def finished(self, task: TaskId, attempt: AttemptId, *, success: bool) -> None:
        """A worker handed in its result."""
        if success:
            self.succeeded[attempt] = task

    def started(self, task: TaskId, alive: Iterable[TaskId], plan: Plan | None = None) -> None:
        """A worker was launched, in a round with this plan, while those of the tasks `alive` lived. Raises LedgerBroken
        where it must not be."""
        plan = plan or self._plan
        specs = {spec.id: spec for spec in plan.tasks}
        running = [*alive, task]
        demand(len(set(running)) == len(running), f"two workers of {task} live")
        demand(specs.keys() >= set(running), f"{task} started beside a worker of a task that is not in the plan")
        done = {of for attempt, of in self.succeeded.items() if attempt not in self.void}
        for dependency in specs[task].depends_on:
            by_hand = dependency in specs and specs[dependency].manual  # the records tell: see `Story`
            demand(by_hand or dependency in done, f"{task} started before {dependency} was done")
        demand(len(running) <= self._options.max_workers, f"{len(running)} workers live")
        for group in plan.groups:
            cap = group.max_workers or self._options.max_workers
            demand(sum(one in group.tasks for one in running) <= cap, f"group {group.id} is too full")
        for resource, room in self._options.resources.items():
            users = [one for one in running if resource in specs[one].resources]
            demand(len(users) <= room, f"{users} use {resource} side by side")
        for a, b in combinations(running, 2):
            shared = conflict(specs[a], specs[b], self._options)
            demand(not shared, f"{a} and {b} run side by side with {shared}")

    def check(self, records: list[Record], *, ended: bool, plans: Mapping[str, Plan] = MappingProxyType({})) -> None:
        """Check a whole journal; `plans` are those of its rounds, by hash. Raises LedgerBroken."""
        self.check_some(records)
        dispatched = Counter(one.attempt for one in records if one.type == "WORKER_DISPATCHED")
        judged = Counter(one.attempt for one in records if one.type == "ATTEMPT_ENDED")
        demand(judged.keys() <= dispatched.keys(), "an attempt was judged that was never dispatched")
        demand(not ended or judged == dispatched, "the run ended with an attempt that was not judged")
        story = Story(self._plan, plans)
        for record in records:
            story.take(record)
        self.done, self.shown, self.void = story.done, story.shown, story.void

    def check_some(self, records: list[Record]) -> None:
        """Check what must hold of any records of a journal. Raises LedgerBroken."""
        for type, what in (("WORKER_DISPATCHED", "dispatched"), ("ATTEMPT_ENDED", "judged")):
            attempts = Counter(one.attempt for one in records if one.type == type)
            demand(max(attempts.values(), default=1) == 1, f"an attempt was {what} twice")
        complete = [one.attempt for one in records if one.type == "TASK_COMPLETE"]
        demand(self.succeeded.keys() >= set(filter(None, complete)), "a task is complete without a success")


def conflict(a: TaskSpec, b: TaskSpec, options: RunOptions) -> str | None:
    """Find what keeps two tasks from running side by side, the plain way: every pattern of the one against every
    pattern of the other. None where nothing does."""
    if options.parallel == "pure-read" and not a.effect == b.effect == "pure_read":
        return f"effects {a.effect} and {b.effect}"
    for resource in a.resources:
        if resource in b.resources and options.resources.get(resource, 1) < 2:
            return resource
    exclusive = [(x, y) for x in a.files for y in (*b.files, *b.reads)] + [(x, y) for x in a.reads for y in b.files]
    files = exclusive if options.on_conflict == "serialize" else []
    return next((x for x, y in files if overlap(x, y)), None)
