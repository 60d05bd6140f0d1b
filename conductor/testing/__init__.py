"""For tests of whatever stands on the core, ours and others': doubles, a machine played by hand, a whole simulation."""

from conductor.testing.core_simulation import Chances, CoreSimulation
from conductor.testing.disk import Faults, Killed, ModelDisk, ModelProcess
from conductor.testing.fakes import FakeClock, FakeLauncher
from conductor.testing.ledger import LedgerBroken
from conductor.testing.plans import ending, plan_of, random_plan, task_of
from conductor.testing.play import Play
from conductor.testing.simulated.troubles import Planned, Trouble, Troubles
from conductor.testing.simulation import Simulation

__all__ = [
    "Chances",
    "CoreSimulation",
    "FakeClock",
    "FakeLauncher",
    "Faults",
    "Killed",
    "LedgerBroken",
    "ModelDisk",
    "ModelProcess",
    "Planned",
    "Play",
    "Simulation",
    "Trouble",
    "Troubles",
    "ending",
    "plan_of",
    "random_plan",
    "task_of",
]
