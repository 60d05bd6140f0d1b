"""What the actors of a simulation see of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from typing import TYPE_CHECKING, Protocol

from bus.wire import AttemptId, Message, WorkerSpec
from conductor.core.task import Plan, RunOptions
from conductor.testing.disk import ModelProcess
from conductor.testing.fakes import FakeClock
from conductor.testing.simulated.accounts import Accounts
from conductor.testing.simulated.traffic import Traffic
from conductor.testing.simulated.troubles import Troubles

if TYPE_CHECKING:
    from conductor.testing.simulated.command import SimulatedCommand
    from conductor.testing.simulated.judge import Judge
    from conductor.testing.simulated.repairs import Repairs
    from conductor.testing.simulated.worker import SimulatedWorker


class Actor(Protocol):
    """A process that is given the floor now and then."""

    process: ModelProcess
    wake_at: float
    """Monotonic time before which it has nothing to do."""

    @property
    def name(self) -> str:
        """Who it is, in the story."""

    @property
    def alive(self) -> bool:
        """Whether it lives."""

    def step(self) -> None:
        """Go on a little. Raises Killed where it dies."""


class World(Protocol):
    """Kept by `conductor.testing.simulation.Simulation`."""

    random: Random
    odd: Random
    """What draws that which is rare."""
    clock: FakeClock
    plan: Plan
    """The plan as it is on disk now."""
    source_sha: str
    """Its hash, and that of its frozen form."""
    options: RunOptions
    durability: str
    troubles: Troubles
    accounts: Accounts
    repairs: Repairs
    judge: Judge
    """Who is told what a conductor does."""
    traffic: Traffic
    talkative: float
    """How likely a command locks, waits or asks when it does something."""
    moment: int
    """Counts how often anybody was given the floor."""

    @property
    def workers(self) -> Mapping[AttemptId, SimulatedWorker]:
        """All workers that ever were."""

    @property
    def on_stage(self) -> Collection[Actor]:
        """Who is in the midst of a step."""

    def say(self, who: Actor | None, what: str) -> None:
        """Tell the story on."""

    def process(self, name: str) -> ModelProcess:
        """Start a process."""

    def others_go_on(self, seconds: float) -> None:
        """Let time pass in the middle of what somebody does."""

    def hire(self, spec: WorkerSpec, *, delay: float) -> SimulatedWorker:
        """Make a worker, which begins after so many seconds."""

    def launched(self, spec: WorkerSpec) -> None:
        """A launcher was given this order: the intent must be on disk. Raises LedgerBroken."""

    def insist(self, holds: bool, text: str) -> None:
        """Demand something where the conductor catches whatever is raised. Raises LedgerBroken, then and at the next
        turn."""

    def command_starts(self, worker: SimulatedWorker) -> None:
        """A worker starts its command. Raises LedgerBroken where it must not."""

    def start_command(self, worker: SimulatedWorker) -> SimulatedCommand:
        """Make its process."""

    def handed_in(self, who: Actor, message: Message) -> None:
        """A command was told that its message is handed in."""

    def answered(self, who: Actor, question: str, answer: str) -> None:
        """A command got an answer. Raises LedgerBroken where nobody gave it."""

    def ends_in_peace(self, who: Actor, owner: str) -> None:
        """Somebody ends by itself, its work done. Raises LedgerBroken where it has left scratch files."""

    def another_round(self) -> bool:
        """Tell whether a conductor that finds a round ended, and work left, begins another."""
