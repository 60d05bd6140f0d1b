"""Takes the locks that a command needs before it is started, all or none, and waits for them like anybody else.

What is taken is given back by the conductor, once the attempt is closed: nothing of it can write any more then.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Sequence

from bus.contract import Busy, Grant, Hand
from bus.errors import BusError, BusGone
from bus.real_paths import key_of
from bus.times import utc
from bus.wire import LOCKS, JsonObject, Message, WorkerSpec
from worker.core import PERIOD
from worker.signals import Signals

_FIRST_PAUSE = 0.05
"""Seconds before the second try; they double up to PERIOD."""


class CannotLock(Exception):
    """The command must not be started; the text says why, as `exit.json` does."""


def take_locks(spec: WorkerSpec, hand: Hand, signals: Signals) -> None:
    """Take all locks that the order names, however long that takes. Raises CannotLock, BusGone."""

    def pause(seconds: float) -> None:
        select.select((signals.fd,), (), (), seconds)
        signals.drain()

    Locking(spec, hand, lambda: signals.stop_asked).take(pause)


class Locking:
    """The locks of one attempt."""

    def __init__(self, spec: WorkerSpec, hand: Hand, told_to_stop: Callable[[], bool]) -> None:
        """`told_to_stop` tells whether a signal asks for the end."""
        self._spec = spec
        self._hand = hand
        self._told_to_stop = told_to_stop
        self._waited = 0.0
        self._beat_due = spec.beat_period or float("inf")
        self._said = False

    def take(self, pause: Callable[[float], object]) -> None:
        """Take all locks, however long that takes; `pause` waits for some seconds. Raises CannotLock."""
        if self._spec.library and self._spec.library not in sys.path:
            sys.path.append(self._spec.library)
        wanted = self._keys()
        seconds = _FIRST_PAUSE
        while (granted := self._try(wanted)) is None:
            pause(seconds)
            self._waited += seconds
            self._beat()
            if reason := self._stopped():
                raise CannotLock(reason)
            seconds = min(seconds * 2, PERIOD)
        self._tell_granted(granted)

    def _keys(self) -> list[tuple[str, bool]]:
        try:
            return [(key_of(path, project=self._spec.cwd), shared) for path, shared in self._spec.locks]
        except (OSError, ValueError) as error:
            raise CannotLock(f"spawn: its files cannot be locked: {error}") from error

    def _try(self, wanted: Sequence[tuple[str, bool]]) -> tuple[Grant, ...] | None:
        """Take the locks if they are free, or stand in line; None while they are not. What went wrong may pass."""
        try:
            found = self._hand.try_lock(wanted, queue=True)
        except BusGone:
            raise
        except (ValueError, ImportError) as error:
            raise CannotLock(f"spawn: its files cannot be locked: {error}") from error
        except (OSError, BusError, MemoryError):
            return None
        if isinstance(found, Busy):
            self._tell_waits(found)
            return None
        return found

    def _stopped(self) -> str | None:
        """Return why the command is not to be started any more. Our place in line ends with this process."""
        try:
            revoked = self._hand.revoked()
        except (OSError, BusError, MemoryError):
            revoked = None
        return "revoked" if revoked is not None or self._told_to_stop() else None

    def _beat(self) -> None:
        if self._waited >= self._beat_due:
            self._beat_due = self._waited + self._spec.beat_period
            self._quietly(lambda: self._hand.beat({"phase": LOCKS, "left": None}))

    def _tell_waits(self, busy: Busy) -> None:
        """Have the conductor look, once: the files are the truth."""
        if not self._said:
            self._said = True
            keys = [key for wait in busy.waits for key in wait.what]
            self._tell("BLOCKED", {"task_id": self._spec.task, "waiting_for": list(busy.holders), "resource": keys})

    def _tell_granted(self, granted: Sequence[Grant]) -> None:
        for grant in granted:
            mode = "shared" if grant.shared else "exclusive"
            paths = {"filepath": grant.keys[0], "filepaths": list(grant.keys)}
            self._tell("FILE_LOCK", {**paths, "lock_type": mode, "expires_at": None, "grant": grant.id})

    def _tell(self, type: str, payload: JsonObject) -> None:
        message = Message(os.urandom(16).hex(), type, self._spec.attempt, utc(), payload)
        self._quietly(lambda: self._hand.publish(message))

    def _quietly(self, call: Callable[[], None]) -> None:
        """Do what is only a help to others: without it they look a little later."""
        try:
            call()
        except (OSError, BusError, MemoryError):
            return
