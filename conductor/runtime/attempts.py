"""The attempts that are open (dispatched, end not journaled): are they alive, and what did they leave?

Only yields facts. The order of looking is what makes LOST safe: first the launcher's word that a worker ended, then
the inbox, then `exit.json`, then the lock, then proof that nothing of the tree is left, then `exit.json` once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bus.contract import Host
from bus.wire import AttemptId, ExitRecord, TaskId
from conductor.core.events import AttemptAdopted, Fact, LaunchFailed, ResultReceived, WorkerGone
from conductor.runtime.launch.base import Launcher, Life

LINGER = 5.0
"""Seconds that a worker may live on after it has written its result."""


@dataclass(slots=True)
class _Open:
    task: TaskId
    force_at: float | None = None
    """Monotonic time after which the tree is ended from here, because the worker's own ladder should be over."""
    detail: str = "the worker died before it wrote its result"
    inherited: bool = False
    """Whether an earlier conductor dispatched it."""
    kill_at: float | None = None
    """Monotonic time after which a worker that has written its result, and does not end, is ended."""


class Attempts:
    """Watches open attempts over the launcher seam and the attempt folders."""

    def __init__(self, host: Host, launcher: Launcher) -> None:
        self._host = host
        self._launcher = launcher
        self._open: dict[AttemptId, _Open] = {}
        self.unsettled = False
        """Whether, since the last `suspects`, the end of some attempt could not be told yet: look again soon."""
        self._now = 0.0
        self._lives: Mapping[AttemptId, Life] = {}

    def task_of(self, attempt: AttemptId) -> TaskId | None:
        """Return the task of an open attempt; None where the attempt is not open."""
        one = self._open.get(attempt)
        return one.task if one else None

    def opened(self, task: TaskId, attempt: AttemptId) -> None:
        """Watch an attempt from its launch on."""
        self._open[attempt] = _Open(task)

    def closed(self, attempt: AttemptId) -> None:
        """Its end is journaled."""
        self._open.pop(attempt, None)

    def stopping(self, attempt: AttemptId, reason: str, force_at: float) -> None:
        """A stop was begun; from `force_at` on its tree is ended from here."""
        if attempt in self._open:
            self._open[attempt].force_at = force_at
            self._open[attempt].detail = f"ended by the conductor ({reason}): the worker did not do it in time"

    def next_deadline(self, now: float) -> float | None:
        """Return the earliest `force_at` still to come; None where there is none."""
        coming = (one.force_at for one in self._open.values() if one.force_at is not None and one.force_at > now)
        return min(coming, default=None)

    def suspects(self, now: float) -> list[AttemptId]:
        """Return attempts whose worker ended, is unknown to the launcher, or had its time to stop."""
        self.unsettled = False
        self._now, self._lives = now, self._launcher.poll(self._open)
        return [
            attempt
            for attempt, one in self._open.items()
            if self._lives.get(attempt, "lost") in ("ended", "lost")
            or (one.force_at is not None and now >= one.force_at)
        ]

    def settle(self, attempt: AttemptId, now: float) -> Fact | None:
        """Return what became of a suspect of which the inbox holds no RESULT; None where it cannot be told yet."""
        fact = self._fate(attempt, self._open[attempt], now)
        self.unsettled |= fact is None
        return fact

    def _fate(self, attempt: AttemptId, one: _Open, now: float) -> Fact | None:
        if fact := self._result(attempt, one.task):
            return fact
        if error := self._launcher.failure(attempt):
            return LaunchFailed(one.task, attempt, error)
        forced = one.force_at is not None and now >= one.force_at
        if self._host.is_live(attempt) and not forced:
            return None
        if not self._prove_empty(attempt):
            return None
        if fact := self._result(attempt, one.task):
            return fact
        if self._may_have_run(attempt, one):
            return WorkerGone(one.task, attempt, True, one.detail)
        if one.inherited:
            return LaunchFailed(one.task, attempt, "the conductor died before the worker was started")
        return WorkerGone(one.task, attempt, False, one.detail)

    def _may_have_run(self, attempt: AttemptId, one: _Open) -> bool:
        """Tell whether the command may have been exec'ed: then the attempt counts, whatever was deleted since.

        An attempt of an earlier conductor that has no folder was most likely never launched.
        """
        if self._launcher.may_have_run(attempt) or self._host.read_proc(attempt) is not None:
            return True
        return not one.inherited and not self._host.has_attempt(attempt)

    def is_over(self, attempt: AttemptId, exit: ExitRecord) -> bool:
        """Tell whether a result may count: its worker is gone, and its tree was proved empty, by the worker or now."""
        over = self._worker_is_gone(attempt) and (exit.tree_empty or self._prove_empty(attempt))
        self.unsettled |= not over
        return over

    def _worker_is_gone(self, attempt: AttemptId) -> bool:
        """Tell whether the worker of a result has ended; one that lingers is ended after a grace, its result kept."""
        if self._lives.get(attempt) == "ended" or not self._host.is_live(attempt):
            return True
        one = self._open[attempt]
        if one.kill_at is None:
            one.kill_at = self._now + LINGER
        elif self._now >= one.kill_at:
            self._launcher.kill_tree(attempt, self._host.read_command(attempt))
        return False

    def _prove_empty(self, attempt: AttemptId) -> bool:
        """End what is left of an attempt's tree; True once nothing is."""
        return self._launcher.kill_tree(attempt, self._host.read_command(attempt))

    def reconcile(self, attempts: Iterable[tuple[TaskId, AttemptId]]) -> list[Fact]:
        """Watch the attempts of an earlier conductor from now on; return which of them are alive.

        Of the others the next look tells, as of any attempt: their result, that they are gone, or that they never were.
        """
        facts: list[Fact] = []
        for task, attempt in attempts:
            self._open[attempt] = _Open(task, inherited=True)
            if self._host.read_exit(attempt) is not None:
                continue
            live = self._host.is_live(attempt)
            # The lock of this very bus says who lives; only where its folder was deleted the claim must do.
            known = live or not self._host.has_attempt(attempt)
            if (known and self._launcher.reattach(attempt, self._host.read_proc(attempt))) or live:
                facts.append(AttemptAdopted(task, attempt))
        return facts

    def _result(self, attempt: AttemptId, task: TaskId) -> ResultReceived | None:
        exit = self._host.read_exit(attempt)
        if exit is None or not self.is_over(attempt, exit):
            return None
        return ResultReceived(task, attempt, exit)
