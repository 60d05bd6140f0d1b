"""What the program leaves with: one table from error codes to exit codes."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every verb. `conductor bus` has its own: see `BusExit`."""

    OK = 0
    FAILED = 1
    """A task failed, was blocked, cancelled, skipped or rejected."""
    USAGE = 2
    INVALID = 3
    """The plan cannot be run, or no worker is configured."""
    HELD = 4
    """Another conductor holds the track or the project."""
    BUS = 5
    """The bus cannot be used."""
    GAVE_UP = 6
    """The run gave up before its tasks did."""
    INTERNAL = 70
    """An error of the program itself (EX_SOFTWARE)."""
    IO = 74
    """The operating system refused a file or the output (EX_IOERR)."""
    PROVIDER = 75
    """A provider's limit, and told not to wait."""
    INTERRUPTED = 130
    """Ctrl-C, or an operator's stop, left work undone."""
    TERMINATED = 143
    """TERM left work undone."""


class BusExit(IntEnum):
    """Exit codes of `conductor bus …`, for the workers that call it."""

    YES = 0
    NO = 1
    """Busy, failed, rejected."""
    USAGE = 2
    """Wrong arguments, or not inside a worker."""
    BUS = 5
    TIMED_OUT = 75
    REVOKED = 76
    """The attempt is being stopped: end."""


_EXITS: dict[str, Exit] = {
    "usage": Exit.USAGE,
    "unknown_task": Exit.USAGE,
    "from_worker": Exit.USAGE,
    "no_worker": Exit.INVALID,
    "agent_missing": Exit.INVALID,
    "concurrent_effect_denied": Exit.INVALID,
    "no_base_commit": Exit.INVALID,
    "held_by_other": Exit.HELD,
    "project_held": Exit.HELD,
    "run_timeout": Exit.GAVE_UP,
    "budget_exceeded": Exit.GAVE_UP,
    "restart_intensity": Exit.GAVE_UP,
    "internal": Exit.INTERNAL,
    "io": Exit.IO,
    "interrupted": Exit.INTERRUPTED,
}

_PREFIXES: tuple[tuple[str, Exit], ...] = (("plan_", Exit.INVALID), ("bus_", Exit.BUS))
_SUFFIXES: tuple[tuple[str, Exit], ...] = (("_exceeded", Exit.INVALID),)


def exit_of(code: str) -> Exit:
    """Return the exit code of an error code; `FAILED` for one that the table does not know."""
    if code in _EXITS:
        return _EXITS[code]
    for suffix, value in _SUFFIXES:
        if code.endswith(suffix):
            return value
    for prefix, value in _PREFIXES:
        if code.startswith(prefix):
            return value
    return Exit.FAILED
