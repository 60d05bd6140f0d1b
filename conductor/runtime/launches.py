"""Carries out what the machine wants launched; holds launches back while the disk is full."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bus.contract import Host
from bus.errors import AttemptExists, BusError, BusGone, NoSpace
from bus.wire import AttemptId, WorkerSpec
from conductor.core.events import Fact, LaunchFailed
from conductor.core.instructions import LaunchWorker
from conductor.runtime.attempts import Attempts
from conductor.runtime.launch.base import Launcher, LaunchError
from conductor.runtime.pause import Pause

RETRY_PERIOD = 1.0
"""Seconds between two tries to launch while the disk is full."""


_PART = "launches"


@dataclass(frozen=True, slots=True)
class Order:
    """What to launch: the order for the worker, and files to lay into the attempt's folder beforehand."""

    spec: WorkerSpec
    files: Mapping[str, bytes]


class Launches:
    """Launches in the order in which the machine wants them."""

    def __init__(
        self,
        host: Host,
        launcher: Launcher,
        attempts: Attempts,
        order: Callable[[LaunchWorker], Order],
        pause: Pause,
    ) -> None:
        self._host = host
        self._launcher = launcher
        self._attempts = attempts
        self._order = order
        self._pause = pause
        self._held: deque[LaunchWorker] = deque()
        self._next_try = 0.0

    def hold(self, now: float) -> None:
        """Launch nothing for a while: the bus cannot be written."""
        self._next_try = max(self._next_try, now + RETRY_PERIOD)

    def start(self, wanted: LaunchWorker, now: float) -> list[Fact]:
        """Launch an attempt, or hold it back; return what is to be told of it at once. Raises BusGone."""
        self._held.append(wanted)
        return self.go_on(now) if len(self._held) == 1 else []

    def go_on(self, now: float) -> list[Fact]:
        """Launch what is held back, as far as the disk lets us; `now` is monotonic."""
        facts: list[Fact] = []
        if now < self._next_try:
            return facts
        while self._held:
            wanted = self._held[0]
            try:
                self._launch(wanted)
            except NoSpace as error:
                self._pause.met(_PART, error.message)
                self._next_try = now + RETRY_PERIOD
                return facts
            except AttemptExists:
                # The journal forgot that it was launched (its end was cut in a repair): what is there tells the rest.
                facts += self._attempts.reconcile([(wanted.task, wanted.attempt)])
            except (LaunchError, OSError, BusError) as error:
                if isinstance(error, BusGone):
                    raise
                facts.append(LaunchFailed(wanted.task, wanted.attempt, str(error)))
            self._held.popleft()
        self._pause.met(_PART, None)
        return facts

    def forget(self, attempt: AttemptId) -> list[Fact]:
        """Give up a launch that is held back, because its attempt is to be stopped."""
        found = [wanted for wanted in self._held if wanted.attempt == attempt]
        for wanted in found:
            self._held.remove(wanted)
        if not self._held:
            self._pause.give_up(_PART)
        return [LaunchFailed(wanted.task, wanted.attempt, "stopped before it was launched") for wanted in found]

    def next_try(self) -> float | None:
        """Return when to call `go_on` next; None where nothing is held back."""
        return self._next_try if self._held else None

    def _launch(self, wanted: LaunchWorker) -> None:
        order = self._order(wanted)
        live = self._host.create_attempt(wanted.attempt, order.files)
        self._launcher.launch(order.spec, live)
        self._attempts.opened(wanted.task, wanted.attempt)
