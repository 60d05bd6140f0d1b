"""The attempts that are open (dispatched, end not journaled): are they alive, and what did they leave?

Only yields facts. The order of looking is what makes LOST safe: first the launcher's word that a worker ended, then the
inbox, then `exit.json`, then the lock, then proof that nothing of the tree is left. Who is found gone only by its lock
may have written its result since inbox and `exit.json` were read, and is judged at the next look, when both are read
again.

Whose lock is held is alive, wherever it runs: in this boot, in a container beside ours, or on another machine. Pids
that were recorded elsewhere are not even looked at; such a worker is stopped by `revoked` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from bus.contract import Host
from bus.process import LACKING, WAITS_TO_WRITE
from bus.wire import LOCKS, AttemptId, ExitRecord, ProcRecord, TaskId
from conductor.core.events import AttemptAdopted, Fact, LaunchFailed, ResultReceived, WorkerGone
from conductor.runtime.launch.base import ITS_WORKER, NO_TRACE, Elsewhere, Launcher, Life, Trace

LINGER = 5.0
"""Seconds that a worker may live on after it has written its result."""

LATE = 10.0
"""Longest time between two looks that counts, twice the longest sleep of the loop. Whoever was held up for longer (a
suspended machine or container, a full disk) finds workers that were held up as well."""

UNKILLABLE_AFTER = 10.0
"""Seconds after the first KILL from here at which people are told of what does not end."""

LOOK_WHO_WAITS = 5.0
"""Seconds between two looks at the names of all workers: a worker can say in no other way that it waits."""

OUT_OF_SIGHT = "its lock is held where nothing can be seen from here"
"""What is left of an attempt whose processes are in another container, or on another machine."""

CLAIM_GRACE = 60.0
"""Seconds after which a worker that has not claimed its attempt is ended: it hangs, and its command never began."""

_GONE: Mapping[Elsewhere | None, str] = {
    None: "the worker died before it wrote its result",
    "boot": "nothing of the boot in which it was started lives",
    "namespace": "its worker ran in another pid namespace (a container) and is gone",
}


@dataclass(slots=True)
class _Open:
    task: TaskId
    claim_by: float | None
    """When it must be claimed, on the clock of `Attempts`; None once that was seen."""
    inherited: bool = False
    """Whether an earlier conductor dispatched it."""
    force_at: float | None = None
    """When the tree is ended from here, because the worker's own ladder should be over; on the same clock."""
    stopping: str | None = None
    """Reason of the stop."""
    kill_at: float | None = None
    """When a worker that has written its result, and does not end, is ended; on the same clock."""
    gone_since: int | None = None
    """The look that found its lock free first."""
    opened: float = 0.0
    """When it was launched or found, on the clock of `Attempts`."""
    finished: float | None = None
    """When its result was read while its worker lived on; on the same clock."""
    ending: float | None = None
    """When something of it withstood a KILL from here first; on the same clock. None once nothing does."""
    said: bool = False
    """Whether people were told why it holds its slot for so long."""
    said_to_wait: bool = False
    """Whether they were told that its worker waits."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an open attempt has come, as far as this conductor acts on it. Ages in seconds, gaps left out."""

    age: float
    """Since it was launched, or found at a start."""
    ending: bool
    """Whether it was told to stop, or its worker is gone: then only what is left of it matters."""
    finished: float | None
    """Since its result was read, where its worker lives on."""
    left: str | None
    """What of it withstands KILL, for so long that it must be called unkillable; None where nothing does."""


class Attempts:
    """Watches open attempts over the launcher seam and the attempt folders."""

    def __init__(self, host: Host, launcher: Launcher, say: Callable[[str], None]) -> None:
        """`say` tells people what is no record: why an attempt does not end."""
        self._host = host
        self._launcher = launcher
        self._say = say
        self._open: dict[AttemptId, _Open] = {}
        self.unsettled = False
        """Whether, since the last `suspects`, the end of some attempt could not be told yet: look again soon."""
        self._looks = 0
        self._looked: float | None = None
        self._clock = 0.0
        """Seconds during which this process was there to look: gaps are left out."""
        self.late = False
        """Whether this look came so late that whoever is watched may have stood still as well."""
        self._look_who_waits_at = LOOK_WHO_WAITS
        self._lives: Mapping[AttemptId, Life] = {}

    def task_of(self, attempt: AttemptId) -> TaskId | None:
        """Return the task of an open attempt; None where the attempt is not open."""
        one = self._open.get(attempt)
        return one.task if one else None

    def by_task(self) -> dict[TaskId, AttemptId]:
        """Return the open attempt of each task that has one."""
        return {one.task: attempt for attempt, one in self._open.items()}

    @property
    def clock(self) -> float:
        """Seconds during which this process was there to look."""
        return self._clock

    def standing(self, attempt: AttemptId) -> Standing:
        """Tell how far an open attempt has come."""
        one = self._open[attempt]
        withstands = one.ending is not None and self._is_due(one.ending + UNKILLABLE_AFTER)
        return Standing(
            age=self._clock - one.opened,
            ending=one.stopping is not None or one.ending is not None or self._lives.get(attempt) == "ended",
            finished=None if one.finished is None else self._clock - one.finished,
            left=(self._launcher.remains(attempt) or OUT_OF_SIGHT) if withstands else None,
        )

    def waits(self, attempt: AttemptId) -> bool:
        """Tell whether the worker says that it waits for what its machine lacks; False where that cannot be told."""
        with suppress(OSError):
            return self._launcher.waits(attempt, self._host.read_proc(attempt)) is not None
        return False

    def opened(self, task: TaskId, attempt: AttemptId) -> None:
        """Watch an attempt from its launch on."""
        self._open[attempt] = _Open(task, self._clock + CLAIM_GRACE, opened=self._clock)

    def closed(self, attempt: AttemptId) -> None:
        """Its end is journaled."""
        self._open.pop(attempt, None)

    def is_wanted(self, attempt: AttemptId) -> bool:
        """Tell whether an attempt is open and not to be stopped."""
        one = self._open.get(attempt)
        return one is not None and one.stopping is None

    def stopping(self, attempt: AttemptId, reason: str, grace: float) -> None:
        """A stop was begun; after `grace` seconds its tree is ended from here. Who stops again wins no time."""
        one = self._open.get(attempt)
        if one is not None and one.force_at is None:
            one.force_at, one.stopping = self._clock + grace, reason

    def postpone(self, seconds: float) -> None:
        """Nobody could write until now: give workers so much more time before they are ended from here."""
        for one in self._open.values():
            one.force_at = _later(one.force_at, seconds)
            one.kill_at = _later(one.kill_at, seconds)
            one.claim_by = _later(one.claim_by, seconds)

    def next_deadline(self, now: float) -> float | None:
        """Return when the next tree is to be ended from here, in monotonic time; None where none is."""
        coming = (one.force_at for one in self._open.values() if one.force_at is not None)
        wait = min((at - self._clock for at in coming if at > self._clock), default=None)
        return None if wait is None else now + wait

    def suspects(self, now: float) -> list[AttemptId]:
        """Return attempts whose worker ended, is unknown to the launcher, or had its time to stop."""
        self.unsettled = False
        self._looks += 1
        passed = now - self._looked if self._looked is not None else 0.0
        self._clock, self.late = self._clock + min(passed, LATE), passed > LATE
        self._looked, self._lives = now, self._launcher.poll(self._open)
        self._look_who_waits()
        return [
            attempt
            for attempt, one in self._open.items()
            if self._lives.get(attempt, "lost") in ("ended", "lost")
            or self._is_due(one.force_at)
            or self._is_overdue(attempt, one)
        ]

    def settle(self, attempt: AttemptId) -> Fact | None:
        """Return what became of a suspect of which the inbox holds no RESULT; None where it cannot be told yet."""
        try:
            fact = self._fate(attempt, self._open[attempt])
        except OSError:  # no descriptors, a disk with errors: it cannot be told now
            fact = None
        self.unsettled |= fact is None
        return fact

    def _fate(self, attempt: AttemptId, one: _Open) -> Fact | None:
        if (exit := self._host.read_exit(attempt)) is not None:
            return self._result(attempt, one, exit)
        if error := self._launcher.failure(attempt):
            return LaunchFailed(one.task, attempt, error)
        proc = self._host.read_proc(attempt)
        forced = self._is_due(one.force_at) or self._is_overdue(attempt, one)
        if self._host.is_live(attempt) and (not forced or self._is_in_peace(attempt, one, proc)):
            return None
        if not forced and not self._was_gone(attempt):
            return None
        if not self._prove_empty(attempt, stopped=one.force_at is not None):
            return None
        return self._lost(attempt, one, proc) if self._was_gone(attempt) else None

    def _result(self, attempt: AttemptId, one: _Open, exit: ExitRecord) -> ResultReceived | None:
        return ResultReceived(one.task, attempt, exit) if self.is_over(attempt, exit) else None

    def _lost(self, attempt: AttemptId, one: _Open, proc: ProcRecord | None) -> Fact:
        elsewhere = self._launcher.elsewhere(proc) if proc else None
        detail = _GONE[elsewhere]
        if self._is_due(one.force_at) and elsewhere is None:
            detail = f"ended by the conductor ({one.stopping}): the worker did not do it in time"
        elif proc is None and self._is_due(one.claim_by):
            detail = f"ended by the conductor: the worker did not begin within {CLAIM_GRACE:g} s"
        if self._may_have_run(attempt, one, proc):
            return WorkerGone(one.task, attempt, True, detail, reboot=elsewhere is not None)
        if proc is not None and elsewhere is None and one.force_at is None:
            detail = "the worker died before it started its command"
        if one.inherited and proc is None:
            why = "the conductor died before the worker was started"
            return LaunchFailed(one.task, attempt, why, conductor_died=True)
        return WorkerGone(one.task, attempt, False, detail)

    def _may_have_run(self, attempt: AttemptId, one: _Open, proc: ProcRecord | None) -> bool:
        """Tell whether the command may have been exec'ed: then the attempt counts, whatever was deleted since.

        A worker publishes who its command is right after the exec, and says in its beats that it has one. A claim alone
        says nothing. An attempt of an earlier conductor that has no folder was most likely never launched.
        """
        if proc is not None:
            beat = self._host.beat_of(attempt)
            speaks = beat is not None and beat.get("phase") != LOCKS
            return speaks or self._host.read_command(attempt) is not None or self._launcher.met(attempt)
        return self._launcher.may_have_run(attempt) or (not one.inherited and not self._host.has_attempt(attempt))

    def is_over(self, attempt: AttemptId, exit: ExitRecord) -> bool:
        """Tell whether a result may count: its worker is gone, and its tree was proved empty, by the worker or now."""
        try:
            over = self._worker_is_gone(attempt) and (exit.tree_empty or self._prove_empty(attempt, stopped=True))
        except OSError:
            over = False
        self.unsettled |= not over
        return over

    def _worker_is_gone(self, attempt: AttemptId) -> bool:
        """Tell whether the worker of a result has ended; one that lingers is ended after a grace, its result kept."""
        if self._was_gone(attempt):
            return True
        one = self._open[attempt]
        if one.gone_since is not None:
            return False
        if one.kill_at is None:
            one.kill_at, one.finished = self._clock + LINGER, self._clock
        elif self._is_due(one.kill_at) and not self._is_in_peace(attempt, one, self._host.read_proc(attempt)):
            self._launcher.kill_tree(attempt, ITS_WORKER)
            self._note_end(attempt, over=False)
        return False

    def _was_gone(self, attempt: AttemptId) -> bool:
        """Tell whether the worker was gone before this look read the inbox."""
        one = self._open[attempt]
        if self._lives.get(attempt) == "ended":
            return True
        if one.gone_since is None and not self._host.is_live(attempt):
            one.gone_since = self._looks
        return one.gone_since is not None and one.gone_since < self._looks

    def _prove_empty(self, attempt: AttemptId, *, stopped: bool) -> bool:
        """End what is left of an attempt's tree; True once nothing is. A stop ends also what a task may leave."""
        empty = end_tree(self._host, self._launcher, attempt, stopped=stopped)
        self._note_end(attempt, over=empty)
        return empty

    def _note_end(self, attempt: AttemptId, *, over: bool) -> None:
        """Remember since when something withstands, and tell people once it has for too long."""
        one = self._open[attempt]
        if over:
            one.ending = None
            return
        one.ending = self._clock if one.ending is None else one.ending
        if left := self.standing(attempt).left:
            self._explain(
                one, f"what is left of it cannot be ended from here ({left}); it keeps its slot until it is gone"
            )

    def _is_in_peace(self, attempt: AttemptId, one: _Open, proc: ProcRecord | None) -> bool:
        """Tell whether a worker has its result and no room to write it: then it has nothing left to end."""
        name = self._launcher.waits(attempt, proc) if proc is not None else None
        if name not in WAITS_TO_WRITE:
            return False
        self._explain(one, f"its result cannot be written yet, as {LACKING[name]}; its worker tries again")
        return True

    def _look_who_waits(self) -> None:
        """Tell people now and then of workers that wait for what their machine lacks."""
        if self._clock < self._look_who_waits_at:
            return
        self._look_who_waits_at = self._clock + LOOK_WHO_WAITS
        for attempt, one in self._open.items():
            if one.said_to_wait or one.stopping is not None:
                continue
            with suppress(OSError):  # it cannot be told now
                name = self._launcher.waits(attempt, self._host.read_proc(attempt))
                if name is not None:
                    self._say(f"{one.task}: its worker waits, as {LACKING[name]}; it goes on by itself")
                    one.said_to_wait = True

    def _explain(self, one: _Open, why: str) -> None:
        if not one.said:
            self._say(f"{one.task}: {why}")
        one.said = True

    def _is_overdue(self, attempt: AttemptId, one: _Open) -> bool:
        """Tell whether the attempt was to be claimed by now and is not."""
        if not self._is_due(one.claim_by):
            return False
        try:
            if self._host.read_proc(attempt) is None:  # one that waits to write it, and says so, does not hang
                return self._launcher.waits(attempt, None) is None
        except OSError:
            return False
        one.claim_by = None
        return False

    def _is_due(self, at: float | None) -> bool:
        return at is not None and self._clock >= at

    def reconcile(self, attempts: Iterable[tuple[TaskId, AttemptId]]) -> list[Fact]:
        """Watch the attempts of an earlier conductor from now on; return which of them are alive.

        Of the others the next look tells, as of any attempt: their result, that they are gone, or that they never were.
        """
        facts: list[Fact] = []
        for task, attempt in attempts:
            self._open[attempt] = _Open(task, self._clock + CLAIM_GRACE, inherited=True, opened=self._clock)
            with suppress(OSError):  # cannot be told now: the next look will
                if self._is_found(attempt):
                    facts.append(AttemptAdopted(task, attempt))
        return facts

    def _is_found(self, attempt: AttemptId) -> bool:
        """Tell whether an attempt of an earlier conductor is alive and without a result; have it watched."""
        self._was_gone(attempt)
        if self._host.read_exit(attempt) is not None:
            return False
        live = self._host.is_live(attempt)
        # The lock of this very bus says who lives; only where its folder was deleted the claim must do.
        known = live or not self._host.has_attempt(attempt)
        return (known and self._launcher.reattach(attempt, self._host.read_proc(attempt))) or live


def end_tree(host: Host, launcher: Launcher, attempt: AttemptId, *, stopped: bool) -> bool:
    """End what is left of an attempt's tree, once; True where nothing was. A stop ends also what a task may leave."""
    proc = host.read_proc(attempt)
    elsewhere = launcher.elsewhere(proc) if proc else None
    if elsewhere == "boot":  # nothing lives that long; where the lock is held, it is by another machine
        return not host.is_live(attempt)
    trace = NO_TRACE
    if proc is not None:
        command = host.read_command(attempt) if elsewhere is None else None
        trace = Trace(command, frozenset(proc.never_kill), proc.leftovers == "keep" and not stopped)
    return launcher.kill_tree(attempt, trace) and not host.is_live(attempt)


def _later(at: float | None, seconds: float) -> float | None:
    return None if at is None else at + seconds
