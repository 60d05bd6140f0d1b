"""Looks for signs of life of an attempt: how much its command printed, how much processor time its tree used, whether
its declared files changed. Called at each beat, so seldom."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from bus.process import HAVE_PROC, is_shortage
from bus.wire import WorkerSpec
from worker.ages import Ages, Seen
from worker.tree import processor_time, suspended
from worker.words import Beat

MOST_FILES = 1000
"""Names looked at in one beat, so that a folder of any size costs milliseconds. Changes beyond them are not seen."""


MOST_SUSPENDED = 4
"""Suspended processes that a beat names."""


class Signs:
    """What can be seen of one attempt."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._folder = spec.cwd
        self._patterns = tuple(spec.files)
        self._ages = Ages()

    def evidence(self, beat: Beat, output: int) -> dict[str, Any]:
        """Return what a beat tells. `output` is the number of bytes that the command printed so far."""
        seen = Seen(output, _cpu(), self._state_of_files())
        found: dict[str, Any] = {"phase": beat.phase, "clock": beat.clock, "left": beat.left}
        found |= self._ages.take(seen, beat.clock)
        if beat.ladder is not None:
            by, name, kill_in = beat.ladder
            found["ladder"] = {"by": by, "signal": name, "kill_in": kill_in}
        if found.get("cpu", {}).get("age") and (still := _suspended()):  # who stands still uses no processor
            found["suspended"] = still
        return {**found, "stands": True} if beat.stands else found

    def _state_of_files(self) -> int | None:
        if not self._patterns:
            return None
        with suppress(OSError):
            return hash(tuple(files_of(self._folder, self._patterns, MOST_FILES)))
        return None


def _cpu() -> float | None:
    """Return the seconds that the tree used: of living processes and of what they reaped, and of what we reaped."""
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not HAVE_PROC:
        return reaped.ru_utime + reaped.ru_stime or None
    try:
        return reaped.ru_utime + reaped.ru_stime + processor_time(os.getpid())
    except OSError as error:
        if not is_shortage(error):
            raise
        return None


def _suspended() -> list[dict[str, Any]]:
    """Return some processes of the tree that stand still until somebody sends CONT."""
    with suppress(OSError):
        return [{"pid": one.pid, "name": one.name} for one in suspended(os.getpid())[:MOST_SUSPENDED]]
    return []


def files_of(folder: str, patterns: Sequence[str], most: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield (path, inode, size, time of change) of what the patterns name, and of what lies under a folder that they
    name, at most `most` entries in all. The times are only to be compared with themselves."""
    for path in _named(folder, patterns):
        for found in (path, *_under(path)):
            if most <= 0:
                return
            most -= 1
            with suppress(FileNotFoundError, NotADirectoryError):
                state = os.lstat(found)
                yield found, state.st_ino, state.st_size, state.st_mtime_ns


def _named(folder: str, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        if not any(mark in pattern for mark in "*?["):
            yield os.path.join(folder, pattern)
            continue
        import glob  # seldom needed, and forked workers should not carry it

        yield from (os.path.join(folder, name) for name in glob.iglob(pattern, root_dir=folder, recursive=True))


def _under(path: str) -> Iterator[str]:
    """Yield what lies under a folder, links not followed."""
    for parent, folders, files in os.walk(path):
        yield from (os.path.join(parent, name) for name in (*folders, *files))
