"""What a simulation checks, from outside: by what workers did and by the lines of the journal, not by the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations

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
        self._specs = {task.id: task for task in plan.tasks}
        self._plan = plan
        self._options = options
        self.succeeded: set[AttemptId] = set()
        """Attempts whose command did its work and said so."""
        self._succeeded_tasks: set[TaskId] = set()

    def finished(self, task: TaskId, attempt: AttemptId, *, success: bool) -> None:
        """A worker handed in its result."""
        if success:
            self.succeeded.add(attempt)
            self._succeeded_tasks.add(task)

    def started(self, task: TaskId, alive: Iterable[TaskId]) -> None:
        """A worker was launched while those of the tasks `alive` lived. Raises LedgerBroken where it must not be."""
        running = [*alive, task]
        demand(len(set(running)) == len(running), f"two workers of {task} live")
        for dependency in self._specs[task].depends_on:
            demand(dependency in self._succeeded_tasks, f"{task} started before {dependency} was done")
        demand(len(running) <= self._options.max_workers, f"{len(running)} workers live")
        for group in self._plan.groups:
            cap = group.max_workers or self._options.max_workers
            demand(sum(one in group.tasks for one in running) <= cap, f"group {group.id} is too full")
        for a, b in combinations(running, 2):
            shared = _shared(self._specs[a], self._specs[b], files=self._options.on_conflict == "serialize")
            demand(not shared, f"{a} and {b} run side by side with {shared}")

    def check(self, records: list[Record], *, ended: bool) -> None:
        """Check a whole journal. Raises LedgerBroken."""
        dispatched = Counter(one.attempt for one in records if one.type == "WORKER_DISPATCHED")
        judged = Counter(one.attempt for one in records if one.type == "ATTEMPT_ENDED")
        demand(max(dispatched.values(), default=1) == 1, "an attempt was dispatched twice")
        demand(max(judged.values(), default=1) == 1, "an attempt was judged twice")
        demand(judged.keys() <= dispatched.keys(), "an attempt was judged that was never dispatched")
        demand(not ended or judged == dispatched, "the run ended with an attempt that was not judged")
        complete = [one.attempt for one in records if one.type == "TASK_COMPLETE"]
        demand(self.succeeded.issuperset(filter(None, complete)), "a task is complete without a success")
        done: set[TaskId | None] = set()
        finals: Counter[TaskId | None] = Counter()
        for record in records:
            if record.type == "RUN_STARTED":
                finals.clear()
            elif record.type == "WORKER_DISPATCHED":
                demand(record.task not in done, f"{record.task} was done again")
            elif record.type in FINAL:
                finals[record.task] += 1
                demand(finals[record.task] == 1, f"{record.task} ended twice in a round")
                if record.type == "TASK_COMPLETE":
                    done.add(record.task)


def _shared(a: TaskSpec, b: TaskSpec, *, files: bool) -> str | None:
    """Find a conflict the plain way: every pattern of one task against every pattern of the other."""
    for resource in a.resources:
        if resource in b.resources:
            return resource
    exclusive = [(x, y) for x in a.files for y in (*b.files, *b.reads)] + [(x, y) for x in a.reads for y in b.files]
    return next((x for x, y in exclusive if overlap(x, y)), None) if files else None
