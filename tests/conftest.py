"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, and nothing about the program.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

FDS = "/proc/self/fd"


@pytest.fixture(autouse=True)
def descriptors_are_given_back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Close what a test left open below its temporary folders.

    Many tests leave a bus open on purpose, as a conductor does that was killed; thousands of them in one process would
    reach the limit of descriptors.
    """
    if not os.path.isdir(FDS):
        yield
        return
    before = set(os.listdir(FDS))
    yield
    below = str(tmp_path_factory.getbasetemp())
    for name in set(os.listdir(FDS)) - before:
        with suppress(OSError):
            if os.readlink(Path(FDS, name)).startswith(below):
                os.close(int(name))
