"""The words that people and scripts read for a task's status."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.state import State
from conductor.core.task import (
    AwaitsApproval,
    Backoff,
    Blocked,
    Cancelled,
    Done,
    Ended,
    Exited,
    Failed,
    Manual,
    Pending,
    Ready,
    Running,
    Skipped,
)
from conductor.core.transitions import StatusType

WORDS = ("pending", "ready", "waiting", "running", "done", "failed", "blocked", "skipped", "cancelled")
"""All of them, in the order of `counts`."""

WORD_OF: Mapping[StatusType, str] = {
    Pending: "pending",
    Ready: "ready",
    Backoff: "waiting",
    Running: "running",
    Exited: "running",
    Ended: "running",
    Done: "done",
    Failed: "failed",
    Blocked: "blocked",
    Skipped: "skipped",
    Cancelled: "cancelled",
    AwaitsApproval: "waiting",
    Manual: "waiting",
}
"""A ready task that waits for something with a name is `waiting` too: see `view`."""


def counts(state: State) -> dict[str, int]:
    """Count the tasks by word, as far as it follows from the status alone."""
    found = dict.fromkeys(WORDS, 0)
    for status, number in state.tally.items():
        found[WORD_OF[status]] += number
    return found
