"""How long a run may still take: from the plan's estimates and from what was observed. Pure.

A wrong number is worse than none. So nothing is said before something is known, and nothing where tasks without an
estimate would have to be guessed from others that differ too much. What is said is rather too much than too little:

* a task without an estimate takes what the finished ones took on average;
* a task that is over its time goes on for a tenth of what it ran by now;
* the end is not nearer than that of any running task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

WIDE = 10.0
"""Where a task took, or takes by now, so many times as long as the middle one, no task tells of another."""

OVER = 0.1
"""Part of what a task ran by now that is still expected of one that is over its time."""

ENDED = frozenset({"done", "failed", "blocked", "skipped", "cancelled"})


@dataclass(frozen=True, slots=True)
class Work:
    """One task, as far as its time goes."""

    id: str
    depends_on: Sequence[str]
    estimate: float | None
    """Seconds that the plan expects."""
    status: str
    spent: float = 0.0
    """Seconds that it ran (`done`) or runs by now (`running`)."""


def remaining(tasks: Sequence[Work], workers: int) -> float | None:
    """Return the expected seconds to the end with `workers` at once; None where nothing is known to tell from.

    No schedule is shorter than its longest chain of dependencies, nor than its work divided by the workers; the larger
    of the two is the guess. Estimates are scaled by how well those of the finished tasks held.
    """
    done = [task for task in tasks if task.status == "done" and task.spent > 0]
    running = [task for task in tasks if task.status == "running"]
    open_tasks = [task for task in tasks if task.status not in ENDED]
    if not open_tasks:
        return 0.0
    known = [(task.estimate, task.spent) for task in done if task.estimate]
    scale = sum(spent for _, spent in known) / sum(estimate for estimate, _ in known) if known else 1.0
    typical = 0.0
    if not all(task.estimate for task in open_tasks):
        guess = _typical(done, running, [task.estimate * scale for task in open_tasks if task.estimate])
        if guess is None:
            return None
        typical = guess
    left: dict[str, float] = {}
    for task in open_tasks:
        left[task.id] = task.estimate * scale if task.estimate else typical
    for task in running:
        left[task.id] = max(left[task.id] - task.spent, OVER * task.spent)
    return max(_longest_chain(open_tasks, left), sum(left.values()) / max(workers, 1))


def _typical(done: Sequence[Work], running: Sequence[Work], estimates: Sequence[float]) -> float | None:
    """Return what a task without an estimate may take; None where that cannot be told."""
    if not done:
        return median(estimates) if estimates else None
    spent = [task.spent for task in done]
    longest = max(spent + [task.spent for task in running if not task.estimate])
    return fmean(spent) if longest <= WIDE * median(spent) else None


def _longest_chain(tasks: Sequence[Work], left: Mapping[str, float]) -> float:
    """Kahn's walk over the open tasks: when could each end at the earliest?"""
    waits = {task.id: sum(1 for need in task.depends_on if need in left) for task in tasks}
    after: dict[str, list[str]] = {}
    for task in tasks:
        for need in task.depends_on:
            if need in left:
                after.setdefault(need, []).append(task.id)
    start = dict.fromkeys(waits, 0.0)
    free = [name for name, number in waits.items() if number == 0]
    longest = 0.0
    while free:
        name = free.pop()
        end = start[name] + left[name]
        longest = max(longest, end)
        for follower in after.get(name, ()):
            start[follower] = max(start[follower], end)
            waits[follower] -= 1
            if waits[follower] == 0:
                free.append(follower)
    return longest
