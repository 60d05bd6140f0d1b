"""What `conductor.toml` may set, with the values that hold where nobody says anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conductor.plan.durations import parse_duration

HOOK_EVENTS = (
    "task_started",
    "task_completed",
    "task_failed",
    "stale",
    "deadlock",
    "escalated",
    "run_finished",
)
"""What a command of the user can be told of (`conductor.runtime.hooks`)."""


def intensity(value: str) -> tuple[int | None, float]:
    """Read `20/5m`: so many failed attempts within so long; `none` is no limit."""
    if value.strip() == "none":
        return None, 0.0
    number, slash, window = value.partition("/")
    if not slash or not number.strip().isdecimal():
        raise ValueError(f"{value!r} is neither N/D, such as 20/5m, nor none")
    seconds = parse_duration(window)
    return (int(number), seconds) if seconds else (None, 0.0)


def row(value: int | str) -> int | None:
    """Read how many failures in a row open the breaker; `none` and 0 are never."""
    if value == "none":
        return None
    if isinstance(value, str) or value < 0:
        raise ValueError(f"{value!r} is neither a number of failures nor none")
    return value or None


@dataclass(frozen=True, slots=True)
class Values:
    """What `conductor.toml` may set, at its built-in values. `conductor.config_file` checks what a file says."""

    max_workers: int = 5
    retries: int = 2
    timeout: float = 1800.0
    stale_after: float = 600.0
    heartbeat: float = 30.0
    retry_delay: float = 1.0
    retry_delay_max: float = 60.0
    restart_intensity: str = "20/5m"
    command: tuple[str, ...] | None = None
    agent: str | None = None
    on_conflict: str = "serialize"
    parallel: str = "any"
    schedule: str = "ready"
    resources: Mapping[str, int] = field(default_factory=dict)
    """How many tasks may hold a resource at once; one that is not named is held by one."""
    deadlock_victim: str = "youngest"
    breaker: int | None = None
    """Failures in a row of one kind of worker after which it is not started for a while."""
    breaker_reset: float = 300.0
    max_tasks: int | None = 200_000
    max_fan_out: int | None = None
    max_join_width: int | None = None
    run_timeout: float = 0.0
    budget_usd: float | None = None
    leftovers: str = "kill"
    never_kill: tuple[str, ...] = ("gpg-agent", "ssh-agent")
    durability: str = "power"
    terminate_grace: float = 10.0
    """Seconds between TERM and KILL when a command is ended."""
    log_cap: int = 8 << 20
    """Bytes kept of the beginning, and of the end, of each output stream of an attempt."""
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Argument lists by event (HOOK_EVENTS)."""
    hook_timeout: float = 10.0
    """Seconds that each of them may take."""


BUILT_IN = Values()
