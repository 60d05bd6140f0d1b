"""What a round has cost so far, and whether that is more than it may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bus.strict import number
from conductor.core.changes import Moment, current
from conductor.core.state import Run, State
from conductor.core.supervision import UsageReported

BUDGET_EXCEEDED: Final = "budget_exceeded"
"""Why a run gave up that has no money left."""

MOST_COST: Final = 1e12
"""US dollars that one attempt may say to have cost: sums of them stay numbers."""


def cost_of(usage: Mapping[str, Any] | None) -> float:
    """Return the US dollars of a report; 0 where it names none, MOST_COST where it names more."""
    return min(max(number((usage or {}).get("cost_usd")) or 0.0, 0.0), MOST_COST)


def spent(state: State, run: Run) -> float:
    """Return what the round has cost, its running attempts included, in US dollars."""
    return run.spent + sum(cost_of(state.tasks[id].usage) for id in state.running)


def heed(state: State, run: Run) -> None:
    """Give the run up where it has cost as much as it may."""
    limit = run.options.budget_usd
    if limit is not None and spent(state, run) >= limit:
        run.gave_up = run.gave_up or BUDGET_EXCEEDED


def usage_reported(state: State, event: UsageReported, moment: Moment) -> None:
    """Note what an attempt has used so far."""
    task = current(state, event.TYPE, event.task, event.attempt)
    if task is not None and state.run is not None:
        task.usage = event.usage
        heed(state, state.run)
