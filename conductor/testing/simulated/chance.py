"""Everything that a program of ours draws or reads outside its seams, made a function of the seed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest import mock

from bus import journal, locks, recovery, reserve, room, snapshots
from conductor.runtime import driver, left_behind
from conductor.testing.fakes import FakeClock

PID = 4242
"""Of whoever is asked."""


@contextmanager
def all_from(random: Random, clock: FakeClock) -> Iterator[None]:
    """Let ids be drawn from `random`, all time come from `clock`, and our pid be the same in each run, for as long as
    the context lasts."""

    def wall() -> float:
        return clock.wall

    with (
        mock.patch.object(os, "urandom", random.randbytes),
        mock.patch.object(os, "getpid", return_value=PID),
        mock.patch.object(time, "time", wall),
        mock.patch.object(time, "monotonic", clock.monotonic),
        mock.patch.object(locks, "flock_holders", return_value=[]),
    ):
        yield


@contextmanager
def small_limits(random: Random, *, tiny: bool) -> Iterator[None]:
    """Let what happens in a year of work happen all the time: segments, snapshots, a reserve that is given up. With
    `tiny` each pass, and each record of a recovery, is worth a snapshot."""
    segment = random.choice((1, 2000, 6000, journal.SEGMENT))
    every = random.choice((1, 1000, 4000, snapshots.EVERY))
    tail = random.choice((1, 3000, recovery.TAIL))
    at_end = random.choice((1, driver.SNAPSHOT_AT_END))
    with (
        mock.patch.object(journal, "SEGMENT", segment),
        mock.patch.object(snapshots, "EVERY", 1 if tiny else every),
        mock.patch.object(recovery, "TAIL", 1 if tiny else tail),
        mock.patch.object(recovery, "ON_THE_WAY", 0 if tiny else recovery.ON_THE_WAY),
        mock.patch.object(driver, "SNAPSHOT_AT_END", 1 if tiny else at_end),
        mock.patch.object(reserve, "SIZE", 512),
        mock.patch.object(room, "NEEDED", 400),
        mock.patch.object(locks, "MUTEX_LIMIT", 0.02),
        mock.patch.object(left_behind, "TRIES", 2),
        mock.patch.object(left_behind, "PAUSE", 0.0),
    ):
        yield
