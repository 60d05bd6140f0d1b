"""What a worker does next, as a pure state machine: `Session.handle(event, now)` gives instructions.

An attempt is a row of *steps*: the command, then each verify command in order. A step runs, ends, and *settles*: what
it left behind gets a moment to end by itself and is then swept. A stop or the time limit starts the *ladder* (INT for
agents, TERM, KILL) on the step's whole tree, and the same ladder, from TERM on, sweeps leftovers.

    RUNNING --exited--> SETTLING --nothing left--> next step, or DONE
       |                    |                          ^
       +--limit or stop--> LADDER --nothing left-------+   (DONE after a stop, or 10 s after KILL)

`now` is CLOCK_MONOTONIC in seconds. Limits are counted on the session's own clock, which leaves out the gaps in which
the worker itself did not run: a worker that was suspended must not blame its command for the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from bus.wire import Ladder, WorkerSpec
from worker.words import (
    Asking,
    Beat,
    Event,
    Exited,
    Finish,
    Instruction,
    LookAtTree,
    NotSignalled,
    NotStarted,
    Process,
    SendSignal,
    Sent,
    SignalName,
    Started,
    StartVerify,
    StepResult,
    StopRequested,
    TreeSeen,
    TreeUnseen,
)

PERIOD = 0.5
"""Longest time between two ticks, in seconds: how soon `revoked` is noticed."""

GAP = 2 * PERIOD
"""A time between two events longer than this is a gap; only this much of it counts."""

GRACE = 0.2
"""Seconds that what a step left behind may take to end by itself (`>(tee log)`) before it counts as left over."""

LOOK_PERIOD = 0.1
"""Seconds between two looks at a tree that is to become empty. A look reads all of /proc, and the usual end is told
by the kernel without one: no children are left."""

FIRST_BEAT = 2.0
"""Longest time before the first beat, in seconds: whoever looks finds one soon, and short commands pay for none."""

UNKILLABLE_AFTER = 10.0
"""Seconds after KILL at which a tree that is still there is given up and reported as not empty."""


# --- the machine ----------------------------------------------------------------------------------------------------


class Phase(Enum):
    """Where the current step is."""

    STARTING = "starting"
    RUNNING = "running"
    SETTLING = "settling"
    LADDER = "ladder"
    DONE = "done"


@dataclass(slots=True)
class _Step:
    began: float = 0.0
    alive: bool = False
    stood: float = 0.0
    """Seconds that do not count against the limit."""


@dataclass(slots=True)
class _Rung:
    name: SignalName
    ends: float
    """On the session's clock."""
    missed: bool = False
    """Whether its signal is to be sent again."""


@dataclass(slots=True)
class _Found:
    killed: dict[int, Process] = field(default_factory=dict)
    kept: tuple[Process, ...] = ()


class Session:
    """One attempt, from the exec of its command to its result.

    Total: every event is accepted in every phase; what makes no sense there (a late tick, a second stop) changes
    nothing.
    """

    def __init__(self, spec: WorkerSpec, now: float) -> None:
        self.phase = Phase.STARTING
        self._spec = spec
        self._now = now
        self._clock = 0.0
        self._beat_due = min(spec.beat_period, FIRST_BEAT) or float("inf")
        self._asks = False
        self._step = _Step()
        self._results: list[StepResult] = []
        self._rung = _Rung("TERM", 0.0)
        self._sent: list[Sent] = []
        self._settled_by = 0.0
        self._look_due = 0.0
        self._seeing = True
        """Whether the last look at the tree worked: what was not seen is neither gone nor there."""
        self._cut: tuple[str, str | None] | None = None
        self._found = _Found()

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Apply an event and tell what to do, in order."""
        passed = min(max(now - self._now, 0.0), GAP)
        self._clock += passed
        self._step.stood += passed if self._asks else 0.0
        self._now = now
        match event:
            case Started():
                return self._started()
            case NotStarted(error):
                return self._step_over(StepResult(error=error)) if self.phase is Phase.STARTING else []
            case Exited(code, signal):
                return self._exited(code, signal)
            case StopRequested(reason):
                return self._stop(reason)
            case Asking(waits):
                self._asks = waits
                return []
            case TreeSeen(processes, hidden):
                return self._seen(processes, hidden=hidden)
            case TreeUnseen():
                return self._unseen()
            case NotSignalled():
                self._rung.missed = True
                return self._unseen()
            case _:
                return [*self._beat(), *self._tick()]

    def wait(self) -> float:
        """Return the seconds after which the next `Tick` is due."""
        due = self._clock + PERIOD
        if self.phase is Phase.SETTLING:
            due = min(self._settled_by, self._look_due)
        elif self.phase is Phase.LADDER:
            due = self._look_due
        elif self.phase is Phase.RUNNING and (limit := self._limit()) is not None and not self._asks:
            due = min(due, limit)
        return max(min(due, self._beat_due) - self._clock, 0.0)

    def _started(self) -> list[Instruction]:
        if self.phase is Phase.STARTING:
            self.phase = Phase.RUNNING
            self._step = _Step(began=self._clock, alive=True)
            self._sent.clear()
            if self._cut is not None:  # a stop came while it was being started
                return self._climb(self._first_rung())
        return []

    def _exited(self, code: int | None, signal: int | None) -> list[Instruction]:
        if not self._step.alive:
            return []
        self._step.alive = False
        result = StepResult(code, signal, seconds=self._clock - self._step.began)
        if self.phase is Phase.LADDER:
            self._results.append(result)
            return self._look()
        return self._step_over(result)

    def _step_over(self, result: StepResult) -> list[Instruction]:
        self._results.append(result)
        self.phase = Phase.SETTLING
        self._settled_by = self._clock + GRACE
        return self._look()

    def _look(self) -> list[Instruction]:
        self._look_due = self._clock + LOOK_PERIOD
        return [LookAtTree()]

    def _stop(self, reason: str) -> list[Instruction]:
        return self._cut_short("stop", reason)

    def _cut_short(self, ended_by: str, reason: str | None) -> list[Instruction]:
        """Begin to end the attempt from outside, once. Only what was not done yet is cut: a finished step stands."""
        if self._cut is not None or self.phase is Phase.DONE:
            return []
        if self.phase is Phase.STARTING or self._step.alive or self._next_verify() is not None:
            self._cut = (ended_by, reason)
        if self.phase in (Phase.LADDER, Phase.STARTING):
            return []
        return self._climb(self._first_rung())

    def _first_rung(self) -> SignalName:
        return "INT" if self._step.alive and self._spec.ladder.interrupt > 0 else "TERM"

    def _climb(self, name: SignalName) -> list[Instruction]:
        self.phase = Phase.LADDER
        self._look_due = self._clock + LOOK_PERIOD
        self._rung = _Rung(name, self._clock + _rung_length(name, self._spec.ladder))
        self._sent.append(Sent(name, self._clock))
        if self._cut is not None and self._spec.beat_period:  # whoever looks must not read of time that is left
            self._beat_due = self._clock
        return [SendSignal(name, everyone=name != "INT")]

    def _beat(self) -> list[Instruction]:
        if self._clock < self._beat_due or self.phase is Phase.DONE:
            return []
        self._beat_due = self._clock + self._spec.beat_period
        limit = self._limit()
        left = None if limit is None else round(max(limit - self._clock, 0.0), 3)
        return [Beat(self._phase_name(), round(self._clock, 3), left, self._asks, self._ladder())]

    def _ladder(self) -> tuple[str, SignalName, float] | None:
        if self._cut is None or self.phase is not Phase.LADDER:
            return None
        rung, after = self._rung, self._spec.ladder.terminate if self._rung.name == "INT" else 0.0
        kill_in = 0.0 if rung.name == "KILL" else max(rung.ends - self._clock, 0.0) + after
        return self._cut[0], rung.name, round(kill_in, 3)

    def _phase_name(self) -> str:
        if self.phase in (Phase.SETTLING, Phase.LADDER):
            return "ending"
        return "verify" if self._results else "command"

    def _limit(self) -> float | None:
        """Return when the time limit of the phase is over, on the session's clock; None where it has none. What is to
        be ended, or to be started, has had its time."""
        if self.phase is not Phase.RUNNING:
            return self._clock
        timeout = self._spec.timeout
        return self._step.began + self._step.stood + timeout if timeout else None

    def _tick(self) -> list[Instruction]:
        limit = self._limit() if self.phase is Phase.RUNNING else None
        if limit is not None and self._clock >= limit:
            return self._cut_short("timeout", None)
        if self.phase is Phase.SETTLING and self._clock >= min(self._look_due, self._settled_by):
            return self._look()
        if self.phase is Phase.LADDER and self._clock >= self._look_due:
            return self._tick_ladder(self._rung)
        return []

    def _tick_ladder(self, rung: _Rung) -> list[Instruction]:
        look = self._look()
        over = self._clock >= rung.ends
        if rung.name == "KILL":
            gives_up = over and self._seeing
            return [self._finish(tree_empty=False)] if gives_up else [SendSignal("KILL", everyone=True), *look]
        if over:
            return [*self._climb("TERM" if rung.name == "INT" else "KILL"), *look]
        if rung.missed:
            rung.missed = False
            return [SendSignal(rung.name, everyone=True), *look]
        return look

    def _unseen(self) -> list[Instruction]:
        """Look again a while later: nothing is concluded, and what was done so far stands, however long it takes."""
        self._seeing = False
        self._look_due = self._clock + PERIOD
        self._settled_by = max(self._settled_by, self._look_due)
        return []

    def _seen(self, processes: tuple[Process, ...], *, hidden: bool) -> list[Instruction]:
        self._seeing = True
        if self._step.alive or self.phase not in (Phase.SETTLING, Phase.LADDER):
            return []
        kept = tuple(process for process in processes if self.keeps(process.name))
        self._found.kept = kept
        rest = [process for process in processes if process not in kept]
        if not rest and not hidden:
            return self._settled()
        if self.phase is Phase.SETTLING:
            if self._clock < self._settled_by:
                return []
            self._note(rest)
            return self._climb("TERM")
        self._note(rest)
        return []

    def keeps(self, name: str) -> bool:
        """Tell whether policy lets a process of this name live on. A stop ends what `keep` would keep."""
        return name in self._spec.never_kill or (self._spec.leftovers == "keep" and self._cut is None)

    def _note(self, processes: Iterable[Process]) -> None:
        for process in processes:
            self._found.killed.setdefault(process.pid, process)

    def _settled(self) -> list[Instruction]:
        index = self._next_verify()
        if self._cut is not None or index is None:
            return [self._finish(tree_empty=True)]
        self.phase = Phase.STARTING
        return [StartVerify(index)]

    def _next_verify(self) -> int | None:
        """Return the index of the verify command that is due after the last result, None where none is."""
        if any(not result.passed for result in self._results):
            return None
        if self._spec.leftovers == "fail" and self._found.killed:
            return None
        index = max(len(self._results) - 1, 0)
        return index if index < len(self._spec.verify) else None

    def _finish(self, *, tree_empty: bool) -> Finish:
        self.phase = Phase.DONE
        if self._step.alive:
            self._step.alive = False
            self._results.append(StepResult(seconds=self._clock - self._step.began))
        ended_by, reason = self._cut or ("self", None)
        return Finish(
            ended_by=ended_by,
            stop_reason=reason,
            command=self._results[0],
            verify=tuple(self._results[1:]),
            killed=tuple(self._found.killed.values()),
            kept=self._found.kept,
            tree_empty=tree_empty,
            signals=tuple(self._sent),
        )


def _rung_length(name: SignalName, ladder: Ladder) -> float:
    return {"INT": ladder.interrupt, "TERM": ladder.terminate, "KILL": UNKILLABLE_AFTER}[name]


def refusal(spec: WorkerSpec, revoked: str | None, newest_epoch: int) -> str | None:
    """Return why the command must not be started at all, None where it may."""
    if revoked is not None:
        return "revoked"
    if newest_epoch > spec.epoch:
        return "stale_epoch"
    return None
