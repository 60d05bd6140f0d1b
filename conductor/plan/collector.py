"""The cyclic garbage collector, put aside while a large plan is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector(*, lasting: bool = False) -> Iterator[None]:
    """Keep the collector from walking millions of new objects, none of which is garbage: a third of the time.

    `lasting` says that what is there afterwards lasts as long as the process, so it is not walked over later either.
    That holds the first time: who looks again lets go of what he saw before.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if lasting and not gc.get_freeze_count():
            gc.freeze()
        if enabled:
            gc.enable()
