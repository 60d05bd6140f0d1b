"""How the kinds of workers do: what their attempts came to, and which of them are paused. Values and pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from bus import wire
from bus.strict import number
from conductor.core.task import RunOptions, TaskSpec

MOST_DURATIONS = 100
"""Newest durations that are kept of each kind."""

PROVIDER_CLASSES: frozenset[str | None] = frozenset(wire.PROVIDER_CLASSES)
"""Failures that are the provider's, not the task's: they use no retry and pause the worker kind."""

UNTIL_RESUMED = frozenset({"auth", "billing"})
"""Classes that time does not mend: the pause lasts until an operator says `resume`."""

BREAKER = "breaker"
"""Class of a pause behind too many failures in a row."""

FIRST_PAUSE = 60.0
"""Seconds of a pause where the provider named none; doubles with each one behind which nothing succeeded."""

LONGEST_PAUSE = 8 * 86400.0
"""Seconds; what a provider names beyond it is cut."""

PROBE_EVERY = 1800.0
"""Seconds after which one attempt is let through, to see whether a longer pause is over already."""


@dataclass(slots=True)
class Health:
    """What the attempts of one worker kind came to, over all rounds."""

    attempts: int = 0
    """Ended ones whose command was started."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed ones by class."""
    in_a_row: int = 0
    """Failures of the workers' own since the last success or pause."""
    strikes: int = 0
    """Pauses for a provider's sake since the last success."""
    seconds: list[float] = field(default_factory=list)
    """How long the newest attempts took, oldest first."""

    @property
    def median(self) -> float | None:
        """The median of these durations; None where there is none."""
        return median(self.seconds) if self.seconds else None


@dataclass(frozen=True, slots=True)
class ProviderPause:
    """A worker kind of which nothing is started."""

    error_class: str
    since: float
    """Journal time at which it began."""
    seconds: float | None
    """None: until an operator says `resume`."""
    until: float | None = None
    """Wall clock at which it ends; for people."""
    probe: str | None = None
    """None: nothing may start. Empty: one attempt may. An attempt: it is the one, and decides."""
    over: str | None = None
    """Why it is to end, once that is known."""


def kind_of(task: TaskSpec, options: RunOptions) -> str:
    """Return the kind of a task's workers: the agent's name, or `command:<program>`."""
    if task.run is None and task.agent is not None:
        return str(task.agent.get("name"))
    argv = task.run if task.run is not None else options.command
    if argv:
        return f"command:{argv[0].rpartition('/')[2]}"
    return options.agent or "command"


def pause_seconds(error_class: str, named: object, strikes: int, options: RunOptions) -> float | None:
    """Return how long a kind is paused behind a failure; None is until `resume`. `named`: what the provider said."""
    if error_class == BREAKER:
        return options.breaker_reset
    if error_class in UNTIL_RESUMED:
        return None
    given = number(named)
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(strikes, 16) if given is None or given < 0 else given)


def health_data(health: Mapping[str, Health]) -> dict[str, dict[str, object]]:
    """Return it as JSON data."""
    return {
        kind: {
            "attempts": one.attempts,
            "failures": dict(one.failures),
            "in_a_row": one.in_a_row,
            "median_seconds": one.median,
        }
        for kind, one in health.items()
    }
