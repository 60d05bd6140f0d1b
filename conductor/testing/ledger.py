"""What a simulation checks, from outside: by what workers did and by the lines of the journal, not by the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from itertools import combinations
from types import MappingProxyType

from bus.wire import AttemptId, Record, TaskId
from conductor.core.conflicts import overlap
from conductor.core.task import Plan, RunOptions, TaskSpec

FINAL = ("TASK_COMPLETE", "TASK_FAILED", "TASK_BLOCKED", "TASK_SKIPPED")


class LedgerBroken(AssertionError):
    """A promise about the work itself does not hold; the text says which."""


def demand(holds: bool, text: str) -> None:
    """Raise LedgerBroken with `text` unless `holds`."""
    if not holds:
        raise LedgerBroken(text)


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
        self._void: set[AttemptId] = set()
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
        done = {of for attempt, of in self.succeeded.items() if attempt not in self._void}
        for dependency in specs[task].depends_on:
            demand(dependency in done, f"{task} started before {dependency} was done")
        demand(len(running) <= self._options.max_workers, f"{len(running)} workers live")
        for group in plan.groups:
            cap = group.max_workers or self._options.max_workers
            demand(sum(one in group.tasks for one in running) <= cap, f"group {group.id} is too full")
        for a, b in combinations(running, 2):
            shared = _shared(specs[a], specs[b], files=self._options.on_conflict == "serialize")
            demand(not shared, f"{a} and {b} run side by side with {shared}")

    def check(self, records: list[Record], *, ended: bool, plans: Mapping[str, Plan] = MappingProxyType({})) -> None:
        """Check a whole journal; `plans` are those of its rounds, by hash. Raises LedgerBroken."""
        self.check_some(records)
        dispatched = Counter(one.attempt for one in records if one.type == "WORKER_DISPATCHED")
        judged = Counter(one.attempt for one in records if one.type == "ATTEMPT_ENDED")
        demand(judged.keys() <= dispatched.keys(), "an attempt was judged that was never dispatched")
        demand(not ended or judged == dispatched, "the run ended with an attempt that was not judged")
        story = _Story(self._plan, plans)
        for record in records:
            story.take(record)
        self.done, self.shown, self._void = story.done, story.shown, story.void

    def check_some(self, records: list[Record]) -> None:
        """Check what must hold of any records of a journal. Raises LedgerBroken."""
        for type, what in (("WORKER_DISPATCHED", "dispatched"), ("ATTEMPT_ENDED", "judged")):
            attempts = Counter(one.attempt for one in records if one.type == type)
            demand(max(attempts.values(), default=1) == 1, f"an attempt was {what} twice")
        complete = [one.attempt for one in records if one.type == "TASK_COMPLETE"]
        demand(self.succeeded.keys() >= set(filter(None, complete)), "a task is complete without a success")


class _Story:
    """What the records of a journal come to, one after the other."""

    def __init__(self, plan: Plan, plans: Mapping[str, Plan]) -> None:
        self._plan = plan
        self._plans = plans
        self.done: set[TaskId] = set()
        self.shown: set[TaskId] = set()
        self.void: set[AttemptId] = set()
        self._attempts: dict[TaskId, set[AttemptId]] = {}
        self._numbers: dict[TaskId, int] = {}
        self._finals: Counter[TaskId] = Counter()

    def take(self, record: Record) -> None:
        """Take in the next record. Raises LedgerBroken."""
        task, payload = record.task, record.payload
        if record.type == "RUN_STARTED":
            self._finals.clear()
            self._plan = self._plans.get(payload.get("plan_sha", ""), self._plan)
            self._take_back(self._attempts.keys() - {spec.id for spec in self._plan.tasks})
        elif record.type == "CONTROL" and payload["verb"] == "reset":
            self._reset(payload.get("target"), payload.get("tasks", ()))
        elif task is None:
            return
        elif record.type == "WORKER_DISPATCHED":
            self._dispatched(task, record.attempt, payload.get("number"))
        elif record.type in FINAL:
            self._finals[task] += 1
            demand(self._finals[task] == 1, f"{task} ended twice in a round")
            if record.type == "TASK_COMPLETE":
                self.done.add(task)
                self.shown.add(task)
            elif record.type != "TASK_SKIPPED":
                self.shown.discard(task)

    def _dispatched(self, task: TaskId, attempt: AttemptId | None, number: int | None) -> None:
        demand(task not in self.done, f"{task} was done again")
        if attempt is not None:
            self._attempts.setdefault(task, set()).add(attempt)
        if number is not None:
            demand(number > self._numbers.get(task, 0), f"attempt {number} of {task} was there before")
            self._numbers[task] = number

    def _reset(self, target: TaskId | None, tasks: Iterable[TaskId]) -> None:
        """All tasks, or a task with all that depend on it, are to be done again."""
        named = {*self._attempts, *self.done, *self.shown} if target is None else set(tasks)
        self._take_back(named)
        self.shown -= named
        behind = set(named) if target is not None else set()
        for _ in self._plan.tasks:
            behind |= {spec.id for spec in self._plan.tasks if not behind.isdisjoint(spec.depends_on)}
        demand(self.done.isdisjoint(behind), f"{target} was reset, and what depends on it counts as done")

    def _take_back(self, tasks: Set[TaskId]) -> None:
        self.done -= tasks
        for task in tasks:
            self.void |= self._attempts.get(task, set())


def _shared(a: TaskSpec, b: TaskSpec, *, files: bool) -> str | None:
    """Find a conflict the plain way: every pattern of one task against every pattern of the other."""
    for resource in a.resources:
        if resource in b.resources:
            return resource
    exclusive = [(x, y) for x in a.files for y in (*b.files, *b.reads)] + [(x, y) for x in a.reads for y in b.files]
    return next((x for x, y in exclusive if overlap(x, y)), None) if files else None
