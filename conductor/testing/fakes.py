"""Doubles of what a driver talks to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from bus.wire import AttemptId, ProcRecord, Stamp, WorkerSpec
from conductor.runtime.launch.base import Elsewhere, LaunchError, Life, MachineShort, Trace


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, *, wall: float = 1_700_000_000.0, mono: float = 1000.0, boot: str = "boot-1") -> None:
        self.wall = wall
        """May be set to anything: nothing is decided by it."""
        self.mono = mono
        self.boot = boot

    def stamp(self) -> Stamp:
        """Return the time for a journal record."""
        return Stamp(wall=self.wall, mono=self.mono, boot=self.boot)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self.mono

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.mono += seconds
        self.wall += seconds

    def reboot(self, boot: str) -> None:
        """Begin a new boot: the monotonic clock starts again, the wall clock goes on."""
        self.mono, self.boot = 1.0, boot


class FakeLauncher:
    """A launcher whose workers do nothing by themselves. Tests say what becomes of them."""

    def __init__(self, *, capacity: int = 1000) -> None:
        self.orders: dict[AttemptId, WorkerSpec] = {}
        """Everything launched, in order."""
        self.lives: dict[AttemptId, Life] = {}
        """The life of each attempt, as `poll` tells it; tests change it."""
        self.terminated: list[AttemptId] = []
        self.killed: list[AttemptId] = []
        self.failing: str | None = None
        """Text of the LaunchError that each launch raises; None lets them succeed."""
        self.short: str | None = None
        """Text of the MachineShort that each launch raises; None lets them succeed."""
        self.empty = True
        """What `kill_tree` says."""
        self.failures: dict[AttemptId, str] = {}
        """What `failure` says of attempts that were accepted and then could not be started."""
        self.short_of: set[AttemptId] = set()
        """Those among `failures` for which this machine only ran short of something."""
        self.ran: set[AttemptId] = set()
        """Attempts of which `may_have_run` says yes."""
        self.away: Elsewhere | None = None
        """What `elsewhere` says of every claim."""
        self.waiting: dict[int | AttemptId, str] = {}
        """Workers that wait, by the pid of their claim, or by the attempt before that: their names."""
        self._capacity = capacity

    def launch(self, spec: WorkerSpec, live: int) -> None:
        """Accept the attempt and let go of its lock. Raises LaunchError while `failing` or `short` is set."""
        os.close(live)
        if self.short is not None:
            raise MachineShort(self.short)
        if self.failing is not None:
            raise LaunchError(self.failing)
        self.orders[spec.attempt] = spec
        self.lives[spec.attempt] = "running"

    def poll(self, attempts: Iterable[AttemptId]) -> Mapping[AttemptId, Life]:
        """Tell the life of each attempt; `lost` where nothing is known."""
        return {attempt: self.lives.get(attempt, "lost") for attempt in attempts}

    def failure(self, attempt: AttemptId) -> str | None:
        """Say why an accepted attempt could not be started."""
        return self.failures.get(attempt)

    def ran_short(self, attempt: AttemptId) -> bool:
        """Say what the test says."""
        return attempt in self.short_of

    def may_have_run(self, attempt: AttemptId) -> bool:
        """Say what the test says."""
        return attempt in self.ran

    def met(self, attempt: AttemptId) -> bool:
        """Nothing can be seen."""
        return False

    def terminate(self, attempt: AttemptId) -> None:
        """Remember the hint."""
        self.terminated.append(attempt)

    def kill_tree(self, attempt: AttemptId, trace: Trace) -> bool:
        """Remember it and say whether nothing is left."""
        self.killed.append(attempt)
        return self.empty

    def remains(self, attempt: AttemptId) -> str:
        """Nothing can be seen."""
        return ""

    def elsewhere(self, proc: ProcRecord) -> Elsewhere | None:
        """Say what the test says."""
        return self.away

    def waits(self, attempt: AttemptId, proc: ProcRecord | None) -> str | None:
        """Say what the test says."""
        return self.waiting.get(attempt if proc is None else proc.pid)

    def reattach(self, attempt: AttemptId, proc: ProcRecord | None) -> bool:
        """Find an attempt that lives."""
        return self.lives.get(attempt) == "running"

    def capacity(self) -> int:
        """Return how many more would start now."""
        return self._capacity - sum(life == "running" for life in self.lives.values())

    def wake_fds(self) -> list[int]:
        """Nothing wakes by itself."""
        return []

    def close(self) -> None:
        """Workers live on."""
