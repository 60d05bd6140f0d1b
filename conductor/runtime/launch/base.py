"""The launcher seam: how an attempt becomes a process, and how we hear of it.

Built so that a cluster's scheduler fits as well as local processes: a job is accepted at once, may start later, may
outlive the conductor, and is found again by its key. Exit status never depends on the engine's memory: the worker
writes `exit.json` itself, and claims its attempt, so an engine that starts a second copy cannot run a command twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from bus.wire import AttemptId, JsonObject, ProcRecord, WorkerSpec

Life = Literal["pending", "running", "ended", "lost"]
"""`pending`: accepted, not started. `lost`: the engine does not know; it does not mean dead."""


Elsewhere = Literal["boot", "namespace"]
"""What parts the pids of a claim from ours: the machine was started again since, or they were seen in another pid
namespace (a container)."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What an attempt's `proc.json` says of its processes, as far as it means anything here."""

    command: JsonObject | None = None
    """`{"pid", "start_ticks", "session"}` of the command; None where it is not known, or not here."""
    spared: frozenset[str] = frozenset()
    """Names of processes that live on in any case, and do not count."""
    keeps: bool = False
    """Whether what outlives the command may stay: then, where the command itself has ended, what made a session of its
    own is left alone."""
    only_worker: bool = False
    """Whether nobody but the worker is meant: it has written its result, with which all else is settled."""


NO_TRACE = Trace()
ITS_WORKER = Trace(only_worker=True)


class LaunchError(Exception):
    """The launcher could not take the attempt now; the text says why. Nothing of it runs."""


class MachineShort(LaunchError):
    """The same launch may work a moment later: this machine ran short of something."""


class Launcher(Protocol):
    """One way of starting workers. All calls return at once."""

    def launch(self, spec: WorkerSpec, live: int) -> None:
        """Accept the attempt `spec.attempt`, its intent being journaled. Takes over (closes) the descriptor `live`.

        Raises LaunchError where it cannot be taken (MachineShort: now); later trouble is told by `poll` (`ended`
        without `exit.json`). An attempt of which no worker was made may be launched again.
        """

    def poll(self, attempts: Iterable[AttemptId]) -> Mapping[AttemptId, Life]:
        """Tell the life of each attempt, one call for all."""

    def failure(self, attempt: AttemptId) -> str | None:
        """Return why an accepted attempt could not be started after all; None where it was, or may still be."""

    def ran_short(self, attempt: AttemptId) -> bool:
        """Tell whether `failure` is only that this machine ran short of something: nothing of the attempt ever ran, and
        it may be launched again."""

    def may_have_run(self, attempt: AttemptId) -> bool:
        """Tell whether a process of the attempt is known to have existed, so that its command may have been started.

        False where none did, and where it is not known: an attempt that an earlier conductor launched.
        """

    def met(self, attempt: AttemptId) -> bool:
        """Tell whether `kill_tree` ever found a living process that its command had started, or the command itself."""

    def terminate(self, attempt: AttemptId) -> None:
        """Hint that the worker should look at its `revoked` file now (TERM). Idempotent; a vanished one is no error."""

    def kill_tree(self, attempt: AttemptId, trace: Trace) -> bool:
        """End everything that is left of the attempt with KILL, but for what policy keeps; tell whether it is proved
        empty. Called again at each pass until it says True.
        """

    def remains(self, attempt: AttemptId) -> str:
        """Say what the last `kill_tree` of the attempt still found: `pid 12 (cat), state D, user 0`; empty where that
        was nothing, or cannot be seen."""

    def elsewhere(self, proc: ProcRecord) -> Elsewhere | None:
        """Tell why the processes of a claim cannot be told by their pids here; None where they can."""

    def waits(self, attempt: AttemptId, proc: ProcRecord | None) -> str | None:
        """Return the name that the worker gives itself while it waits for what its machine lacks (`process.LACKING`);
        None where it does not wait. `proc` is its claim, None before that. Raises OSError where it cannot be told."""

    def reattach(self, attempt: AttemptId, proc: ProcRecord | None) -> bool:
        """Go on watching an attempt that an earlier conductor launched; False where nothing of it is found."""

    def capacity(self) -> int:
        """How many more would start now; the plan's own limit applies on top."""

    def wake_fds(self) -> list[int]:
        """Descriptors that become readable when something ended or an answer came; `poll` reads them."""

    def close(self) -> None:
        """Let go of the engine; workers live on."""
