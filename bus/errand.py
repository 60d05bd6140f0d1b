"""What all calls of `bus.client` share: handing in, waiting and how long, the look at the journal."""

from __future__ import annotations

import select
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from bus.errors import AttemptRevoked, MutexHeld, WaitTimedOut
from bus.inside import Refusals, new_message
from bus.wire import JsonObject, Message

if TYPE_CHECKING:
    from bus.contract import Hand, Reader
    from bus.grants import WaitFile

STOP_PERIOD = 0.5
"""Seconds between two looks whether the attempt is to stop."""

TELL_PERIOD = 60.0
"""Seconds between two words of who waits."""

UNLOCK_TRIES = 20
"""Times `STOP_PERIOD` after which that ends an `unlock`."""

T = TypeVar("T")


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


class Errand:
    """One attempt's side of the bus, as `bus.client.Client` uses it."""

    def __init__(
        self,
        hand: Hand,
        open_reader: Callable[[], Reader],
        *,
        task: str | None,
        project: str,
        cwd: str | None = None,
        path: str | None = None,
        say: Callable[[str], None] | None = None,
        sleep: Callable[[float], None] = _sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`project` is the root of file keys; relative paths are taken from `cwd` (None: the project). `path` is what
        errors call the bus. `say` hears now and then for what is waited."""
        self.attempt = hand.attempt
        self._hand = hand
        self._open_reader = open_reader
        self._reader: Reader | None = None
        self._task = task
        self._project = project
        self._cwd = cwd
        self._path = path
        self._say = say
        self._sleep = sleep
        self._clock = clock
        self._uses: Counter[int] = Counter()
        """How often each grant is in use here, by its token."""

    @contextmanager
    def _waiting(self, kind: str, what: Sequence[str], *, text: str = "", id: str | None = None) -> Iterator[WaitFile]:
        try:
            wait = self._hand.begin_wait(kind, what, text=text, id=id)
        except FileExistsError:  # another process of this attempt asks the same
            wait = self._hand.begin_wait(kind, what, text=text)
        try:
            yield wait
        finally:
            self._hand.end_wait(wait)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Try again for a while where somebody stands still with the mutex, unless the attempt is over."""
        for _ in range(UNLOCK_TRIES - 1):
            with suppress(MutexHeld):
                return call()
            self._check()
        return call()

    def _check(self) -> None:
        reason = self._hand.over()
        if reason is not None:
            raise AttemptRevoked(reason)

    def _until(
        self,
        look: Callable[[], T | None],
        timeout: float | None,
        period: float,
        tell: Callable[[], str],
        begun: float | None = None,
    ) -> T:
        """Look until there is something. `timeout` is in seconds, from `begun` (now) on."""
        told = now = self._clock()
        begun = now if begun is None else begun
        asked = now - STOP_PERIOD
        while True:
            found = look()
            if found is not None:
                return found
            if now - asked >= STOP_PERIOD:
                asked = now
                self._check()
            now = self._clock()
            if timeout is not None and now - begun >= timeout:
                raise WaitTimedOut(f"after {timeout:g} s: {tell()}")
            if self._say is not None and now - told >= TELL_PERIOD:
                told = now
                self._say(f"still waiting: {tell()}{self._alone()}")
            self._sleep(period if timeout is None else min(period, begun + timeout - now))

    def _alone(self) -> str:
        with self._refusals("the conductor cannot be looked for"):
            if self._looking().holder() is not None:
                return ""
        return "; no conductor runs, so what a dead worker holds is not freed before `conductor run`"

    def _blocked(self, waiting_for: Sequence[str], resource: Sequence[str]) -> None:
        self._send("BLOCKED", {"task_id": self._task, "waiting_for": list(waiting_for), "resource": list(resource)})

    # --- handing in -------------------------------------------------------------------------------------------------

    def _looking(self) -> Reader:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def _report(self, payload: Mapping[str, Any]) -> None:
        with self._refusals("could not hand it in"):
            self._hand.report(new_message(self.attempt, "REPORT", payload))

    def _send(self, type: str, payload: JsonObject) -> Message:
        message = new_message(self.attempt, type, payload)
        with self._refusals("could not hand it in"):
            self._hand.publish(message)
        return message

    def _refusals(self, what: str) -> Refusals:
        return Refusals(self._path, what)
