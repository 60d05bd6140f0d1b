"""What the records of a journal come to, one after the other: what is done, and whether every order was heeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

from bus.wire import AttemptId, Record, TaskId
from conductor.core.task import Plan

FINAL = ("TASK_COMPLETE", "TASK_FAILED", "TASK_BLOCKED", "TASK_SKIPPED", "TASK_CANCELLED")


class LedgerBroken(AssertionError):
    """A promise about the work itself does not hold; the text says which."""


def demand(holds: bool, text: str) -> None:
    """Raise LedgerBroken with `text` unless `holds`."""
    if not holds:
        raise LedgerBroken(text)


class Story:
    """Takes in one record after the other. `take` raises LedgerBroken."""

    def __init__(self, plan: Plan, plans: Mapping[str, Plan] = MappingProxyType({})) -> None:
        """`plan` is that of all rounds whose own is not in `plans`, by hash."""
        self._plan = plan
        self._plans = plans
        self.done: set[TaskId] = set()
        """Tasks that are complete and were not taken back since."""
        self.shown: set[TaskId] = set()
        """Tasks of which the newest word is TASK_COMPLETE."""
        self.void: set[AttemptId] = set()
        """Attempts whose work does not count any more."""
        self._attempts: dict[TaskId, set[AttemptId]] = {}
        self._numbers: dict[TaskId, int] = {}
        self._finals: Counter[TaskId] = Counter()
        self._approved: set[TaskId] = set()
        self._cancelled: set[TaskId] = set()
        self._robbed: set[AttemptId] = set()
        """Attempts of which a lock was taken by force."""
        self._ended: set[AttemptId] = set()
        self._deadlocks: set[str] = set()
        self._paused: str | None = None

    def take(self, record: Record) -> None:
        """Take in the next record."""
        task, payload = record.task, record.payload
        match record.type:
            case "RUN_STARTED" | "RUN_RESUMED":
                self._begins(record)
            case "PLAN_RELOADED":
                self._plan_is(payload)
            case "CONTROL" if not payload.get("refused"):
                self._ordered(payload)
            case "RUN_ENDED":
                demand(not self._deadlocks, f"the run ended with deadlocks that were not resolved: {self._deadlocks}")
            case "GRANT_GONE" if payload["how"] == "taken" and record.attempt not in self._ended:
                self._robbed.add(AttemptId(record.attempt or ""))
            case "DEADLOCK_DETECTED":
                self._deadlocks.add(payload["id"])
            case "DEADLOCK_RESOLVED":
                demand(payload["id"] in self._deadlocks, f"deadlock {payload['id']} was resolved, and never detected")
                self._deadlocks.discard(payload["id"])
            case "WORKER_DISPATCHED" if task is not None:
                self._dispatched(task, record.attempt, payload.get("number"))
            case "ATTEMPT_ENDED" if record.attempt:
                self._judged(record.attempt, payload)
            case type if type in FINAL and task is not None:
                self._final(task, record.attempt, type)

    # --- rounds and plans -------------------------------------------------------------------------------------------

    def _begins(self, record: Record) -> None:
        self._paused = None
        if record.type == "RUN_STARTED":
            self._finals.clear()
            self._cancelled.clear()
            self._plan_is(record.payload)

    def _plan_is(self, payload: Mapping[str, Any]) -> None:
        self._plan = self._plans.get(payload.get("plan_sha", ""), self._plan)
        self._take_back(self._attempts.keys() - {spec.id for spec in self._plan.tasks})

    def _take_back(self, tasks: Set[TaskId]) -> None:
        self.done -= tasks
        for task in tasks:
            self.void |= self._attempts.get(task, set())

    # --- orders -----------------------------------------------------------------------------------------------------

    def _ordered(self, payload: Mapping[str, Any]) -> None:
        verb, tasks = payload["verb"], payload.get("tasks", ())
        target = TaskId(payload["target"]) if payload.get("target") else None
        match verb:
            case "reset":
                self._reset(target, tasks)
            case "retry":
                for task in tasks:
                    self._finals.pop(task, None)
                self._approved -= set(tasks)
                self._cancelled -= set(tasks)
            case "approve":
                self._approved.update(tasks)
            case "cancel":
                self._cancelled.update(tasks)
            case "pause" if not payload.get("ahead"):
                self._paused = payload["who"]
            case "resume" if target is None:
                self._paused = None

    def _reset(self, target: TaskId | None, tasks: Iterable[TaskId]) -> None:
        """All tasks, or a task with all that depend on it, are to be done again."""
        named = {*self._attempts, *self.done, *self.shown} if target is None else set(tasks)
        self._approved -= named if target is not None else set(self._approved)
        self._take_back(named)
        self.shown -= named
        behind = set(named) if target is not None else set()
        for _ in self._plan.tasks:
            behind |= {spec.id for spec in self._plan.tasks if not behind.isdisjoint(spec.depends_on)}
        demand(self.done.isdisjoint(behind), f"{target} was reset, and what depends on it counts as done")

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _dispatched(self, task: TaskId, attempt: AttemptId | None, number: int | None) -> None:
        demand(task not in self.done, f"{task} was done again")
        demand(self._paused is None, f"{task} was dispatched while {self._paused} had paused the run")
        demand(task not in self._cancelled, f"{task} was dispatched, and had been cancelled")
        spec = next((spec for spec in self._plan.tasks if spec.id == task), None)
        if spec is not None:
            missing = [one for one in spec.depends_on if one not in self.done]
            demand(not missing, f"{task} was dispatched before {missing} were done")
            demand(not spec.manual, f"{task} is for a person and was dispatched")
            gate = spec.approve == "before" and task not in self._approved
            demand(not gate, f"{task} was dispatched before anybody approved it")
        if attempt is not None:
            self._attempts.setdefault(task, set()).add(attempt)
        if number is not None:
            demand(number > self._numbers.get(task, 0), f"attempt {number} of {task} was there before")
            self._numbers[task] = number

    def _judged(self, attempt: AttemptId, payload: Mapping[str, Any]) -> None:
        self._ended.add(attempt)
        if attempt in self._robbed:
            wrong = payload["error_class"] is None
            demand(not wrong, f"{attempt} counts as a success although a lock was taken from it by force")

    def _final(self, task: TaskId, attempt: AttemptId | None, type: str) -> None:
        self._finals[task] += 1
        demand(self._finals[task] == 1, f"{task} ended twice in a round")
        if type == "TASK_COMPLETE":
            spec = next((spec for spec in self._plan.tasks if spec.id == task), None)
            gate = spec is not None and spec.approve == "after" and task not in self._approved
            demand(not gate, f"{task} is complete before anybody approved it")
            demand(task not in self._cancelled, f"{task} is complete, and had been cancelled")
            self.done.add(task)
            self.shown.add(task)
        elif type != "TASK_SKIPPED":
            self.shown.discard(task)
            if type != "TASK_BLOCKED":  # it never began: the approval holds for when it does
                self._approved.discard(task)
