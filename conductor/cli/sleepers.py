"""Workers that stand still: suspended by Ctrl-Z, SIGSTOP or a debugger. They live, so they keep their slots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bus.process import look, realm
from bus.reader import FileReader
from bus.wire import AttemptId
from conductor.core.wording import few, plural


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A worker that stands still."""

    attempt: AttemptId
    pid: int


def sleepers_of(reader: FileReader, attempts: Iterable[AttemptId]) -> tuple[Sleeper, ...]:
    """Return those of these attempts whose worker is suspended; what runs elsewhere, or is not known, is left out."""
    found = (_sleeper(reader, attempt) for attempt in attempts)
    return tuple(one for one in found if one is not None)


def _sleeper(reader: FileReader, attempt: AttemptId) -> Sleeper | None:
    try:
        proc = reader.read_proc(attempt)
    except OSError:  # it cannot be told now
        return None
    here = realm()
    if proc is None or proc.boot != here.boot or proc.namespace not in ("", here.namespace):
        return None
    info = look(proc.pid)
    if info is None or info.start_ticks != proc.start_ticks or not info.suspended:
        return None
    return Sleeper(attempt, proc.pid)


def who_sleeps(sleepers: tuple[Sleeper, ...]) -> str:
    """Say which workers stand still."""
    named = few([f"pid {one.pid}, of {one.attempt}" for one in sleepers])
    return f"{plural(len(sleepers), 'worker')} suspended ({named}): no time limit ends them"


def how_to_wake_them(sleepers: tuple[Sleeper, ...]) -> str:
    """Say what to type."""
    return f"wake them: `kill -CONT {' '.join(str(one.pid) for one in sleepers)}`"
