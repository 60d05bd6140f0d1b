"""What a session of `worker.core` is told, and what it tells in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SignalName = Literal["INT", "TERM", "KILL"]


@dataclass(frozen=True, slots=True)
class Started:
    """The process of the current step was exec'ed."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The process of the current verify step could not be made."""

    error: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The process of the current step ended and was reaped. Exactly one of `code` and `signal` is set."""

    code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The attempt was revoked, or the worker got a TERM."""

    reason: str


@dataclass(frozen=True, slots=True)
class Asking:
    """Whether something of the attempt waits for the answer of a person: no limit runs meanwhile."""

    waits: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by; due at the latest after `Session.wait(now)` seconds."""


@dataclass(frozen=True, slots=True)
class Process:
    """A living process of the attempt's tree."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class TreeSeen:
    """The living processes of the tree, the step's own process left out once it was reaped."""

    processes: tuple[Process, ...]
    hidden: bool = False
    """Whether some live that nobody saw: the kernel says that there are children, and none was found."""


@dataclass(frozen=True, slots=True)
class TreeUnseen:
    """The tree cannot be looked at now, as this machine ran short of something: nothing is known of it."""


@dataclass(frozen=True, slots=True)
class NotSignalled:
    """A signal reached at most the step's own process, as the tree could not be looked at."""


Event = Started | NotStarted | Exited | StopRequested | Asking | Tick | TreeSeen | TreeUnseen | NotSignalled


# --- instructions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Beat:
    """Make a heartbeat, with what can be seen of the attempt."""

    phase: str
    """`command`, `verify` or `ending`."""
    clock: float
    """Seconds of the session, without the gaps in which the worker did not run."""
    left: float | None
    """Seconds until the time limit of the phase; None where it has none."""
    stands: bool
    """Whether the limit stands still, as the answer of a person is waited for."""
    ladder: tuple[str, SignalName, float] | None = None
    """While the attempt is ended from outside: `timeout` or `stop`, the newest signal, seconds until KILL."""


@dataclass(frozen=True, slots=True)
class LookAtTree:
    """Answer with `TreeSeen` or `TreeUnseen`."""


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Send a signal to the step's process group, or to every process of the tree that policy does not keep. Where that
    is impossible now, answer with `NotSignalled`."""

    name: SignalName
    everyone: bool


@dataclass(frozen=True, slots=True)
class StartVerify:
    """Start verify command `index`; answer with `Started` or `NotStarted`."""

    index: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """How the process of one step ended; all None where it was given up."""

    code: int | None = None
    signal: int | None = None
    error: str | None = None
    seconds: float | None = None

    @property
    def passed(self) -> bool:
        """Tell whether it ended with exit code 0."""
        return self.code == 0


@dataclass(frozen=True, slots=True)
class Sent:
    """A rung of the ladder, and when it was begun on the session's clock."""

    name: SignalName
    at: float


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing more to do: write the result."""

    ended_by: str
    stop_reason: str | None
    command: StepResult
    verify: tuple[StepResult, ...]
    killed: tuple[Process, ...]
    kept: tuple[Process, ...]
    tree_empty: bool
    signals: tuple[Sent, ...]
    """What the ladder sent to the last step and what it left behind."""


Instruction = Beat | LookAtTree | SendSignal | StartVerify | Finish
