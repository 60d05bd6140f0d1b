"""Since when has a sign of life not changed? Pure.

Only differences count: no time that a file or a process carries is compared with anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CPU_SHARE = 0.001
"""Share of one processor below which a tree counts as idle: a program that only waits for its timers uses less."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of an attempt at one moment."""

    output: int
    """Bytes that the command has printed so far."""
    cpu: float | None
    """Seconds of processor time that the tree has used so far; None where the system does not tell."""
    files: int | None
    """A number that stands for the state of the declared files; None where none are declared."""


@dataclass(slots=True)
class Ages:
    """Turns what was seen at each beat into ages. `clock` is the session's, in seconds."""

    _looked: float = 0.0
    _cpu: float = 0.0
    _cpu_at: float = 0.0
    _output: int = 0
    _output_at: float = 0.0
    _files: int | None = None
    _files_at: float = 0.0

    def take(self, seen: Seen, clock: float) -> dict[str, Any]:
        """Return the evidence: `{"output": {"bytes", "age"}, "cpu": {"seconds", "age"}, "files": {"age"}}`, ages in
        seconds. Without a change an age counts from the beginning; what cannot be seen is left out."""
        found: dict[str, Any] = {}
        if seen.output != self._output:
            self._output, self._output_at = seen.output, clock
        found["output"] = {"bytes": seen.output, "age": round(clock - self._output_at, 3)}
        if seen.cpu is not None:
            # Less than before: processes whose time nobody inherits have ended.
            if seen.cpu - self._cpu > CPU_SHARE * (clock - self._looked):
                self._cpu_at = clock
            self._cpu, self._looked = seen.cpu, clock
            found["cpu"] = {"seconds": round(seen.cpu, 2), "age": round(clock - self._cpu_at, 3)}
        if seen.files is not None:
            if seen.files != self._files:
                self._files_at = clock if self._files is not None else 0.0
                self._files = seen.files
            found["files"] = {"age": round(clock - self._files_at, 3)}
        return found
