"""Descriptors for a run: as many as its workers need, or a plain refusal before any work (requirement 19).

A lack in the middle of a run would delay everything without end: ends of workers and what they hand in are learnt
through descriptors.
"""

from __future__ import annotations

import resource
from contextlib import suppress

from conductor.core.wording import plural
from conductor.errors import ConductorError

BASE = 40
"""What the conductor itself, its watch and a look at all processes have open at once, and to spare."""

PER_WORKER = 2
"""The pidfd of a worker, and what its launch or its end has open for a moment."""

AMPLE = 1 << 16
"""A soft limit that is raised no further."""


def raise_limit() -> int:
    """Raise the soft limit of open descriptors as far as we may and it helps; return what it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system that allows less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (_attainable(soft, hard), hard))
    return soft


def check(workers: int) -> None:
    """Raise ConductorError where the limit is too low for so many workers at once, also once it was raised."""
    limit, needed = _attainable(*resource.getrlimit(resource.RLIMIT_NOFILE)), BASE + PER_WORKER * workers
    if limit in (resource.RLIM_INFINITY, max(limit, needed)):
        return
    fitting = (limit - BASE) // PER_WORKER
    fewer = f", or run with `--max-workers {fitting}`" if fitting > 0 else ""
    raise ConductorError(
        "usage",
        f"only {limit} files may be open at once (ulimit -n), and {plural(workers, 'worker')} at once need {needed}",
        hint=f"raise it in the shell that starts the run: `ulimit -n {needed}`{fewer}; nothing was begun",
    )


def _attainable(soft: int, hard: int) -> int:
    most = AMPLE if hard == resource.RLIM_INFINITY else min(hard, AMPLE)
    return soft if soft == resource.RLIM_INFINITY else max(soft, most)
