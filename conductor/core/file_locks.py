"""Which files the worker of a task locks before its command starts. Pure."""

from __future__ import annotations

from conductor.core.conflicts import overlap
from conductor.core.task import RunOptions, TaskSpec


def locks_of(task: TaskSpec, options: RunOptions) -> tuple[tuple[str, bool], ...]:
    """Return patterns, each with whether its lock is shared: what the task writes alone, what it only reads shared.

    Nothing, where neither the run (`on_conflict="lock"`) nor the task's group (`TaskSpec.locks`) asks for locks.
    """
    if task.locks is None and options.on_conflict != "lock":
        return ()
    found = dict.fromkeys(task.files, False)
    for pattern in task.reads:
        found.setdefault(pattern, True)
    for name in task.locks or ():
        found.setdefault(name, _only_reads(task, name))
    return tuple(found.items())


def _only_reads(task: TaskSpec, name: str) -> bool:
    """Whether the task says that it reads what its group shares, and not that it writes it."""
    writes, reads = (any(overlap(name, pattern) for pattern in patterns) for patterns in (task.files, task.reads))
    return reads and not writes
