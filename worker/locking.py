"""Takes the locks that a command needs before it is started, all or none, waiting in line like anybody else.

They end with the attempt: the conductor removes them once nothing of it can write any more.
"""

from __future__ import annotations

import select
import sys

from bus.client import Client
from bus.contract import Hand, Reader
from bus.errors import AttemptRevoked, BusError, BusGone
from bus.wire import LOCKS, WorkerSpec
from worker.core import PERIOD
from worker.signals import Signals


class CannotLock(Exception):
    """The command must not be started; the text says why, as `exit.json` does."""


def take_locks(spec: WorkerSpec, hand: Hand, signals: Signals) -> None:
    """Take all locks that the order names, however long that takes. Raises CannotLock.

    They last: no command frees by `unlock` what it was started under. What goes wrong in between (a full disk) may
    pass: it is tried again.
    """
    if spec.library not in ("", *sys.path):
        sys.path.append(spec.library)
    waiting = _Waiting(spec, hand, signals)
    client = Client(hand, _no_reader, task=spec.task, project=spec.cwd, sleep=waiting.pause)
    while True:
        try:
            client.lock_keys([(client.key_of(path), shared) for path, shared in spec.locks], lasting=True)
        except (AttemptRevoked, BusGone) as error:
            raise CannotLock("revoked") from error
        except (ValueError, ImportError) as error:
            raise CannotLock(f"spawn: its files cannot be locked: {error}") from error
        except (OSError, BusError, MemoryError):
            waiting.pause(PERIOD)
        else:
            return


def _no_reader() -> Reader:
    """Who waits for locks alone looks at nothing else."""
    raise BusGone("a worker reads no journal")


class _Waiting:
    """What a worker does while it waits: it beats, and heeds a signal that asks it to stop."""

    def __init__(self, spec: WorkerSpec, hand: Hand, signals: Signals) -> None:
        self._period = spec.beat_period or float("inf")
        self._hand = hand
        self._signals = signals
        self._waited = 0.0
        self._beat_due = self._period

    def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until a signal comes. Raises CannotLock where that asks us to stop."""
        select.select((self._signals.fd,), (), (), seconds)
        self._signals.drain()
        if self._signals.stop_asked:
            raise CannotLock("revoked")
        self._waited += seconds
        if self._waited < self._beat_due:
            return
        self._beat_due = self._waited + self._period
        try:
            self._hand.beat({"phase": LOCKS, "left": None})
        except (OSError, BusError, MemoryError):
            return
