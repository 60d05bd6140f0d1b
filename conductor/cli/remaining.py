"""How long a run may still take: from the plan's estimates and from what was observed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

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
    open_tasks = [task for task in tasks if task.status not in ENDED]
    if not open_tasks:
        return 0.0
    known = [(task.estimate, task.spent) for task in done if task.estimate]
    scale = sum(spent for _, spent in known) / sum(estimate for estimate, _ in known) if known else 1.0
    typical = _typical(done, open_tasks, scale)
    if typical is None:
        return None
    left: dict[str, float] = {}
    for task in open_tasks:
        expected = task.estimate * scale if task.estimate else typical
        # Whoever is over its time is not done at once: assume a tenth more.
        left[task.id] = max(expected - task.spent, 0.1 * expected) if task.status == "running" else expected
    return max(_longest_chain(open_tasks, left), sum(left.values()) / max(workers, 1))


def _typical(done: Sequence[Work], open_tasks: Sequence[Work], scale: float) -> float | None:
    if done:
        return median(task.spent for task in done)
    estimates = [task.estimate * scale for task in open_tasks if task.estimate]
    return median(estimates) if estimates else None


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
