"""Bugs that are planted into the product, each found by the simulation: a harness that finds none is worth nothing."""

from __future__ import annotations

import pytest

from conductor.testing import Simulation
from conductor.testing.planted import PLANTED

MOST = 1000
"""Seeds within which each must be found."""

FOUND_AT = {
    "result-unsynced": 67,
    "inbox-folder-unsynced": 11,
    "segment-folder-unsynced": 11,
    "failed-sync-forgotten": 75,
    "rotation-swapped": 83,
    "old-attempt-accepted": 11,
    "old-epoch-accepted": 188,
    "old-epoch-launches": 336,
}
"""The seed that found it when this was written, tried first; the others are found by one of the first twenty."""

IN_EVERY_CALL = "lost-without-a-second-look"
"""Its window is a few calls wide: `test_every_call` meets it."""


@pytest.mark.parametrize("name", [name for name in PLANTED if name != IN_EVERY_CALL])
def test_a_planted_bug_is_found(name: str) -> None:
    """One sync dropped, two writes swapped, one unlink forgotten, an old attempt accepted, and so on."""
    for seed in (FOUND_AT.get(name, 0), *range(MOST)):
        with PLANTED[name]():
            try:
                Simulation(seed).run()
            except Exception as error:
                print(f"{name}: seed {seed}: {error}")
                return
    pytest.fail(f"{name} was not found in {MOST} seeds")
