"""For tests of whatever stands on the core, ours and others': doubles, a machine played by hand, a whole simulation."""

from conductor.testing.fakes import FakeClock, FakeLauncher
from conductor.testing.plans import ending, plan_of, random_plan, task_of
from conductor.testing.play import Play

__all__ = ["FakeClock", "FakeLauncher", "Play", "ending", "plan_of", "random_plan", "task_of"]
