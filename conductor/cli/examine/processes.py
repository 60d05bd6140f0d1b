"""Living processes that were started by attempts of a bus, by what their environment says. None is touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bus.process import all_processes, look
from conductor.runtime.launch.own_bus import environment

_BUS, _ATTEMPT = b"CONDUCTOR_BUS_DIR=", b"CONDUCTOR_ATTEMPT="


@dataclass(frozen=True, slots=True)
class Process:
    """A process of an attempt."""

    pid: int
    name: str
    attempt: str


def processes_of(bus: Path) -> Iterator[Process]:
    """Yield the processes that say they belong to this bus; ourselves and who started us left out."""
    above = set(_ancestors(os.getpid()))
    for info in all_processes():
        if info.dead or info.pid in above:
            continue
        entries = environment(info.pid)
        named = next((entry[len(_BUS) :] for entry in entries if entry.startswith(_BUS)), None)
        if named is not None and _same(named, bus):
            attempt = next((entry[len(_ATTEMPT) :] for entry in entries if entry.startswith(_ATTEMPT)), b"?")
            yield Process(info.pid, info.name, attempt.decode(errors="replace"))


def _same(named: bytes, bus: Path) -> bool:
    try:
        return os.path.samefile(named, bus)
    except OSError:
        return False


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        info = look(pid)
        pid = info.parent if info is not None else 0
