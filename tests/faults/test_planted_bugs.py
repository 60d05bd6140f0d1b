"""Bugs that are planted into the product, each found by the simulation: a harness that finds none is worth nothing."""

from __future__ import annotations

import pytest

from conductor.testing import Simulation
from conductor.testing.planted import PLANTED

MOST = 400
"""Seeds within which each must be found."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    """One sync dropped, two writes swapped, one unlink forgotten, an old attempt accepted, and so on."""
    for seed in range(MOST):
        with PLANTED[name]():
            try:
                Simulation(seed).run()
            except Exception as error:
                print(f"{name}: {seed + 1} seeds, {error}")
                return
    pytest.fail(f"{name} was not found in {MOST} seeds")
