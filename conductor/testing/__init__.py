"""For tests of whatever stands on the core, ours and others': doubles, a machine played by hand, a whole simulation."""

from conductor.testing.fakes import FakeClock, FakeLauncher
from conductor.testing.ledger import LedgerBroken
from conductor.testing.plans import ending, plan_of, random_plan, task_of
from conductor.testing.play import Play
from conductor.testing.simulation import Chances, Simulation

__all__ = [
    "Chances",
    "FakeClock",
    "FakeLauncher",
    "LedgerBroken",
    "Play",
    "Simulation",
    "ending",
    "plan_of",
    "random_plan",
    "task_of",
]
