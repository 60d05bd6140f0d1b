"""How tasks ended, as the journal tells it: for whoever waits for them. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bus.errors import BusError
from bus.inside import listed
from bus.wire import Record, TaskId

if TYPE_CHECKING:
    from bus.contract import Reader

DONE = "done"

_WORDS = {
    "TASK_COMPLETE": DONE,
    "TASK_FAILED": "failed",
    "TASK_BLOCKED": "blocked",
    "TASK_SKIPPED": "skipped",
    "TASK_CANCELLED": "cancelled",
}

_BACK = frozenset({"retry", "reset"})
"""Orders that set tasks back to pending."""

NOT_STARTED = "not started"
"""Of a task without an end, of which no attempt is under way, in a run that starts nothing more."""

NEEDS_US = "waiting for us"
"""Of a task without an end that depends, near or far, on the one that waits for it: it can never be done so."""

_ENDING = frozenset({"drain", "stop"})
"""Orders behind which nothing more is started."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended."""

    word: str
    """`done`, `failed`, `blocked`, `skipped` or `cancelled`; or `NOT_STARTED`, `NEEDS_US`."""
    reason: str = ""


class Outcomes:
    """Follows the journal for some tasks."""

    def __init__(self, reader: Reader, tasks: Iterable[TaskId], *, waiter: str | None = None) -> None:
        """`waiter`: the task that waits for them."""
        self._reader = reader
        self._waiter = waiter
        self._in_vain: dict[TaskId, Outcome] = {}
        """Those that can never be done while the waiter waits."""
        self._tasks = tuple(dict.fromkeys(tasks))
        self._seq = 0
        self._found: dict[TaskId, Outcome] = {}
        self._begun: set[TaskId] = set()
        """Those that may still be done without a new attempt."""
        self._ending = self._gave_up = False
        self._plan: str | None = None

    def look(self) -> dict[TaskId, Outcome]:
        """Return the tasks that have ended by now, or will not be started any more, or not before the waiter ends. A
        call that goes on from an earlier one reads what is new.

        Raises BusError `unknown_task` where the plan has no such task.
        """
        for record in self._reader.records_about(self._tasks, self._seq):
            self._seq = record.seq
            self._take(record)
        ending = self._ending or self._gave_up
        late = Outcome(NOT_STARTED, "the run is ending")
        lost = {task: late for task in self._tasks if ending and task not in self._begun}
        return lost | self._in_vain | self._found

    def _take(self, record: Record) -> None:
        payload = record.payload
        if record.type in ("RUN_STARTED", "PLAN_RELOADED"):
            self._check_plan(payload.get("plan_sha"))
        self._follow(record)
        if record.type == "RUN_STARTED":  # a new round: what was not done is pending again
            self._found = {task: outcome for task, outcome in self._found.items() if outcome.word == DONE}
        elif record.type == "PLAN_RELOADED":  # what stays blocked is said to be so again
            self._found = {task: outcome for task, outcome in self._found.items() if outcome.word != "blocked"}
        elif record.type == "CONTROL" and payload.get("verb") in _BACK and not payload.get("refused"):
            everything = payload.get("verb") == "reset" and payload.get("target") is None
            for task in self._tasks if everything else payload.get("tasks", ()):
                self._found.pop(task, None)
        elif record.type in _WORDS and record.task in self._tasks:
            reason = payload.get("reason") or payload.get("error") or ""
            self._found[record.task] = Outcome(_WORDS[record.type], str(reason))

    def _follow(self, record: Record) -> None:
        """Note whether anything more is started, and which tasks are under way."""
        if record.type in ("RUN_STARTED", "RUN_RESUMED"):  # an order to end binds the conductor that it was given to
            self._ending = self._gave_up = False
            self._begun = self._begun if record.type == "RUN_RESUMED" else set()
        elif record.type == "RUN_GAVE_UP":
            self._gave_up = True
        elif record.type == "CONTROL" and not record.payload.get("refused"):
            self._ending = self._ending or record.payload.get("verb") in _ENDING
            self._gave_up = self._gave_up and record.payload.get("verb") != "retry"  # it is said again if that holds
        elif record.task in self._tasks and record.type in ("WORKER_DISPATCHED", "MANUAL_OPENED"):
            self._begun.add(record.task)
        elif record.type in ("RETRY_SCHEDULED", "TASK_SKIPPED") and record.task in self._tasks:
            self._begun.discard(record.task)

    def _check_plan(self, sha: object) -> None:
        if not isinstance(sha, str) or sha == self._plan:
            return
        self._plan = sha
        plan = json.loads(self._reader.load_plan(sha))
        known = {task.get("id") for task in plan["tasks"]}
        groups = {group.get("id"): group.get("tasks", ()) for group in plan.get("groups", ())}
        needs = {task.get("id"): task.get("depends_on", ()) for task in plan["tasks"]}
        self._in_vain = {
            task: Outcome(NEEDS_US, f"{task} needs {self._waiter}")
            for task in self._tasks
            if self._waiter is not None and _is_needed(self._waiter, task, needs)
        }
        for task in self._tasks:
            if task in known:
                continue
            hint = "`conductor status TRACK` lists all tasks"
            if task in groups:
                hint = f"it is a group; wait for its tasks: {listed([str(one) for one in groups[task]])}"
            error = BusError(f"the plan has no task {task!r}", hint=hint)
            error.code = "unknown_task"
            raise error


def _is_needed(task: str, by: str, needs: Mapping[str, Iterable[str]]) -> bool:
    """Tell whether a task must be done before another one can start; `needs` are the dependencies of each."""
    todo, seen = [by], {by}
    while todo:
        fresh = [one for one in needs.get(todo.pop(), ()) if one not in seen]
        if task in fresh:
            return True
        seen.update(fresh)
        todo += fresh
    return False
