"""What the machine asks the driver to do: imperatives, idempotent by their key, in the order to carry them out.

`Journal` comes first for every decision; the driver writes all of a batch before it carries out the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.wire import AttemptId, TaskId
from conductor.core.events import Decision


@dataclass(frozen=True, slots=True)
class Journal:
    """Record a decision. It is already applied to the machine's state."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class LaunchWorker:
    """Start a worker for the attempt. Key: the attempt."""

    task: TaskId
    attempt: AttemptId
    number: int
    nonce: str


@dataclass(frozen=True, slots=True)
class TerminateWorker:
    """Begin the stop ladder of the attempt. Key: the attempt."""

    task: TaskId
    attempt: AttemptId
    reason: str


@dataclass(frozen=True, slots=True)
class CloseAttempt:
    """The attempt's end is journaled: remove its heartbeat, worker status and scratch files. Key: the attempt."""

    task: TaskId
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Send `TimerFired(key)` after `seconds`. Key: `key`."""

    key: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget the timer `key`, if it runs."""

    key: str


@dataclass(frozen=True, slots=True)
class DeliverText:
    """Put a text into the `in/` folder of a running attempt: an answer, or what an operator wants of it.

    Key: attempt and name; a conductor that takes over is asked to do it again.
    """

    attempt: AttemptId
    name: str
    """`answer-<id of the question>`, or `<8 digits>-steer.md`."""
    text: str


Instruction = Journal | LaunchWorker | TerminateWorker | CloseAttempt | StartTimer | CancelTimer | DeliverText
