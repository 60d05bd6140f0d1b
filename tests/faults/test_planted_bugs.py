"""Bugs that are planted into the product, each found by the simulation: a harness that finds none is worth nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conductor.testing import Simulation, Trouble, Troubles
from conductor.testing.planted import PLANTED
from conductor.testing.simulated.troubles import Errand

MOST = 1000
"""Seeds within which each must be found."""

CUT = Troubles(kinds=(Trouble.POWER_CUT,))
REPAIR = Troubles(rare=((Errand.REPAIR, 1.0),))
CROWD = Troubles(
    kinds=(Trouble.KILL_WORKER,), crowded=1.0, contained=0.0, whims=(0,), rare=(), interleaving=(2,), most=6
)
KILLED = replace(CROWD, kinds=(Trouble.KILL_CONDUCTOR,), contained=0.2, interleaving=(2, 8, 30), most=8, apart=400)
ORDERS = Troubles(kinds=(Trouble.KILL_CONDUCTOR,), talkative=(0.5,), crowded=0.0, supervised=1.0, whims=(6,), rare=())
MET = {
    "result-unsynced": CUT,
    "inbox-folder-unsynced": CUT,
    "segment-folder-unsynced": CUT,
    "copy-unsynced": replace(CUT, no_links=1.0),
    "failed-sync-forgotten": Troubles(kinds=(Trouble.POWER_CUT, Trouble.FAILED_SYNC)),
    "old-epoch-accepted": Troubles(kinds=(Trouble.USURP,), interleaving=(2,)),
    "edit-hides-timers": Troubles(kinds=(Trouble.KILL_CONDUCTOR,), failure=0.5, rare=((Errand.PLAN, 1.0),)),
    "repair-over-no-gap": REPAIR,
    "repair-forgets-a-run": REPAIR,
    "repair-leaves-a-gap": REPAIR,
    "cut-untold": REPAIR,
    "strangers-taken-for-own": replace(REPAIR, kinds=(Trouble.KILL_CONDUCTOR,)),
    "lock-without-mutex": CROWD,
    "lock-by-name-alone": CROWD,
    "lock-freed-by-the-worker's-death": CROWD,
    "lock-left": CROWD,
    "robbed-counts": ORDERS,
    "deadlock-unseen": CROWD,
    "deadlock-of-askers": CROWD,
    "deadlock-of-the-past": CROWD,
    "victim-forgotten": CROWD,
    "pause-unheeded": ORDERS,
    "order-repeated": ORDERS,
    "gate-open": ORDERS,
}
"""What to let happen more often than it does by itself: with all seeds alike they are found too, after more of them."""

FOUND_AT = {
    "journal-unsynced": 43,
    "result-unsynced": 13,
    "segment-folder-unsynced": 8,
    "discard-before-commit": 12,
    "projection-before-commit": 9,
    "rotation-swapped": 9,
    "torn-tail-left": 2,
    "repeated-message-accepted": 2,
    "quarantine-unexplained": 2,
    "claim-in-the-way": 11,
    "foreign-bytes-dropped": 4,
    "foreign-bytes-unseen": 4,
    "copy-unsynced": 4,
    "inbox-folder-unsynced": 26,
    "old-epoch-accepted": 76,
    "old-epoch-launches": 238,
    "reset-leaves-dependants": 46,
    "reset-leaves-events": 29,
    "reset-forgets-numbers": 46,
    "edit-hides-timers": 145,
    "old-attempt-accepted": 9,
    "strangers-taken-for-own": 17,
    "lock-without-mutex": 17,
    "lock-freed-by-the-worker's-death": 9,
    "lock-left": 3,
    "robbed-counts": 16,
    "deadlock-unseen": 17,
    "deadlock-of-the-past": 21,
    "victim-forgotten": 23,
    "order-repeated": 20,
}
"""The seed that found it when this was written, tried first; the others are found by one of the first twenty."""

IN_EVERY_CALL = ("lost-without-a-second-look", "stop-starts-work")
"""Their windows are a few calls wide: `test_every_call` meets them."""


@pytest.mark.parametrize("name", [name for name in PLANTED if name not in IN_EVERY_CALL])
def test_a_planted_bug_is_found(name: str) -> None:
    """One sync dropped, two writes swapped, one unlink forgotten, an old attempt accepted, and so on."""
    for seed in (FOUND_AT.get(name, 0), *range(MOST)):
        with PLANTED[name]():
            try:
                Simulation(seed, troubles=MET.get(name)).run()
            except (TypeError, AttributeError):  # the planted code does not fit the product any more
                raise
            except Exception as error:
                print(f"{name}: seed {seed}: {error}")
                return
    pytest.fail(f"{name} was not found in {MOST} seeds")
