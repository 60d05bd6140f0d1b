"""Everything that a program of ours draws or reads outside its seams, made a function of the seed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from unittest import mock


@contextmanager
def all_from(random: Random, wall: Callable[[], float]) -> Iterator[None]:
    """Let ids be drawn from `random` and time stamps come from `wall`, for as long as the context lasts."""
    with mock.patch.object(os, "urandom", random.randbytes), mock.patch.object(time, "time", wall):
        yield
