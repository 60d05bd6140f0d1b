"""Carries out what the machine wants launched; holds launches back while the disk is full or this machine lacks what a
worker needs. A launch that is held back keeps its attempt, however long it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from bus.contract import Host
from bus.errors import AttemptExists, BusError, BusGone, NoSpace
from bus.errors import Shortage as BusShortage
from bus.wire import AttemptId, ExitRecord, WorkerSpec
from conductor.core import policy
from conductor.core.events import Fact, LaunchFailed
from conductor.core.instructions import LaunchWorker
from conductor.errors import ConductorError
from conductor.runtime.attempts import Attempts
from conductor.runtime.launch.base import Launcher, LaunchError, MachineShort
from conductor.runtime.pause import Pause
from conductor.runtime.shortage import Shortage

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
        shortage: Shortage,
    ) -> None:
        self._host = host
        self._launcher = launcher
        self._attempts = attempts
        self._order = order
        self._pause = pause
        self._shortage = shortage
        self._held: deque[LaunchWorker] = deque()
        self._made: dict[AttemptId, LaunchWorker] = {}
        """Open attempts whose folder was made here."""
        self._working: set[AttemptId] = set()
        """Those of them that have a worker, or soon will."""
        self._next_try = 0.0

    def hold(self, now: float) -> None:
        """Launch nothing for a while: the bus cannot be written."""
        self._next_try = max(self._next_try, now + RETRY_PERIOD)

    def start(self, wanted: LaunchWorker, now: float) -> list[Fact]:
        """Launch an attempt, or hold it back; return what is to be told of it at once. Raises BusGone."""
        self._held.append(wanted)
        return self.go_on(now) if len(self._held) == 1 else []

    def go_on(self, now: float) -> list[Fact]:
        """Launch what is held back, as far as disk and machine let us; `now` is monotonic."""
        facts: list[Fact] = []
        self._ask_probe(now)
        while self._held and now >= self._next_try and self._shortage.may_try(now, len(self._working)):
            wanted = self._held[0]
            try:
                self._launch(wanted)
            except NoSpace as error:
                self._pause.met(_PART, error.message)
                self._next_try = now + RETRY_PERIOD
                return facts
            except (BusShortage, MachineShort) as error:
                self._shortage.met(str(error), now, len(self._working))
                break
            except AttemptExists:
                # The journal forgot that it was launched (its end was cut in a repair): what is there tells the rest.
                facts += self._attempts.reconcile([(wanted.task, wanted.attempt)])
            except BusGone:
                raise
            except Exception as error:  # whatever a launcher raises: it is told, and nobody waits for a worker
                facts.append(LaunchFailed(wanted.task, wanted.attempt, _said(error)))
            self._held.popleft()
        if now >= self._next_try:
            self._pause.met(_PART, None)
        if not self._held:
            self._shortage.end(now)
        self._host.tell_pause(self._shortage.why and f"no worker can be started ({self._shortage.why})")
        return facts

    def take_back(self, now: float) -> set[AttemptId]:
        """Hold back again what was launched and got no worker, as this machine ran short of something; return that.

        What is to be stopped is not: it failed to launch.
        """
        short = [
            attempt for attempt in self._made if self._launcher.ran_short(attempt) and self._attempts.is_wanted(attempt)
        ]
        self._working.difference_update(short)
        for attempt in short:
            self._attempts.closed(attempt)
            self._shortage.met(str(self._launcher.failure(attempt)), now, len(self._working))
        self._held.extendleft(self._made[attempt] for attempt in reversed(short))
        return set(short)

    def heard(self, attempt: AttemptId, exit: ExitRecord, now: float) -> None:
        """A result came: it may say that this machine ran short of something, or that there was room."""
        if lacking := policy.shortage(exit):
            self._working.discard(attempt)
            self._shortage.met(lacking, now, len(self._working))
        elif attempt == self._shortage.probe and exit.command is not None and exit.command.get("code") == 0:
            self._shortage.found_room(len(self._working))

    def closed(self, attempt: AttemptId, now: float) -> None:
        """The end of an attempt is journaled."""
        self._made.pop(attempt, None)
        self._working.discard(attempt)
        if attempt == self._shortage.probe:
            self._shortage.proved_nothing(now)

    def forget(self, attempt: AttemptId) -> list[Fact]:
        """Give up a launch that is held back, because its attempt is to be stopped."""
        found = [wanted for wanted in self._held if wanted.attempt == attempt]
        for wanted in found:
            self._held.remove(wanted)
        if not self._held:
            self._pause.give_up(_PART)
            self._shortage.give_up()
        return [LaunchFailed(wanted.task, wanted.attempt, "stopped before it was launched") for wanted in found]

    def next_try(self) -> float | None:
        """Return when to call `go_on` next; None where nothing is held back, or nothing is to be tried before a probe
        tells more."""
        if not self._held:
            return None
        again = self._shortage.next_try()
        return None if again is None else max(self._next_try, again)

    def _launch(self, wanted: LaunchWorker) -> None:
        order = self._order(wanted)
        live = self._live(wanted, order.files)
        self._made[wanted.attempt] = wanted
        self._launcher.launch(order.spec, live)
        self._attempts.opened(wanted.task, wanted.attempt)
        self._shortage.tried(wanted.attempt, len(self._working))
        self._working.add(wanted.attempt)

    def _live(self, wanted: LaunchWorker, files: Mapping[str, bytes]) -> int:
        try:
            return self._host.create_attempt(wanted.attempt, files)
        except AttemptExists:
            if wanted.attempt not in self._made:
                raise
            return self._host.lock_attempt(wanted.attempt)  # made at an earlier try, and no worker came

    def _ask_probe(self, now: float) -> None:
        """See whether the command of the worker that was started to find out runs."""
        probe = self._shortage.probe
        if probe is not None:
            with suppress(OSError):  # cannot be told now
                if self._host.read_command(probe) is not None:
                    self._shortage.runs(now, len(self._working))


def _said(error: Exception) -> str:
    expected = isinstance(error, (LaunchError, OSError, BusError, ConductorError))
    return str(error) if expected else f"{type(error).__name__}: {error}"
