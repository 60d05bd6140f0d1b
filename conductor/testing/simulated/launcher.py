"""The launcher of a simulated conductor: its workers are those of the world, and outlive it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bus.process import WAITS_FOR_DISK
from bus.wire import AttemptId, ProcRecord, WorkerSpec
from conductor.runtime.attempts import CLAIM_GRACE
from conductor.runtime.launch.base import Elsewhere, LaunchError, Life, MachineShort, Trace
from conductor.testing.disk import ModelProcess

if TYPE_CHECKING:
    from conductor.testing.simulated.worker import SimulatedWorker
    from conductor.testing.simulated.world import World

SHORT = "fork: Cannot allocate memory"


class SimulatedLauncher:
    """Keeps `conductor.runtime.launch.base.Launcher`."""

    def __init__(self, world: World, process: ModelProcess) -> None:
        self._world = world
        self._process = process
        self._known: set[AttemptId] = set()
        """Attempts that this conductor launched or found again."""
        self._failures: dict[AttemptId, str | None] = {}
        """Attempts that were accepted and never became a process."""

    def launch(self, spec: WorkerSpec, live: int) -> None:
        """Make a worker, which begins a little later; or fail, at once or unseen."""
        world, random = self._world, self._world.random
        draw = random.random()
        if draw < 0.04:
            self._process.close(live)
            raise (LaunchError if draw < 0.02 else MachineShort)("no room for another process")
        self._failures.pop(spec.attempt, None)
        world.launched(spec)
        if draw < 0.08:
            self._process.close(live)
            self._failures[spec.attempt] = random.choice((SHORT, "the warm process ended", None))
            return
        worker = world.hire(spec, delay=random.choice((0.0, 0.0, 0.0, 0.0, 0.3, 5.0, CLAIM_GRACE)))
        self._process.give(live, worker.process)
        self._process.close(live)
        self._known.add(spec.attempt)

    def poll(self, attempts: Iterable[AttemptId]) -> Mapping[AttemptId, Life]:
        """Tell the life of each attempt; `lost` where nothing is known."""
        return {attempt: self._life(attempt) for attempt in attempts}

    def _life(self, attempt: AttemptId) -> Life:
        if attempt in self._failures:
            return "ended"
        if attempt not in self._known:
            return "lost"
        return "running" if self._world.workers[attempt].alive else "ended"

    def failure(self, attempt: AttemptId) -> str | None:
        """Say why an accepted attempt could not be started."""
        return self._failures.get(attempt)

    def ran_short(self, attempt: AttemptId) -> bool:
        """Tell whether it may be launched again."""
        return self._failures.get(attempt) == SHORT

    def may_have_run(self, attempt: AttemptId) -> bool:
        """Tell whether a process of the attempt is known to have existed."""
        return attempt in self._known

    def met(self, attempt: AttemptId) -> bool:
        """Nothing can be seen."""
        return False

    def terminate(self, attempt: AttemptId) -> None:
        """Send TERM."""
        worker = self._seen(attempt)
        if worker is not None and not worker.is_doomed:
            worker.told_to_stop = True
            worker.wake_at = min(worker.wake_at, self._world.clock.mono + 0.1)

    def remains(self, attempt: AttemptId) -> str:
        """Name who does not die."""
        worker = self._seen(attempt)
        return f"pid {worker.pid}, state D" if worker is not None and worker.is_doomed and worker.alive else ""

    def elsewhere(self, proc: ProcRecord) -> Elsewhere | None:
        """There is one machine, which may be started again, and there may be containers on it."""
        if proc.boot != self._world.clock.boot:
            return "boot"
        return "namespace" if any(one.pid == proc.pid and not self._sees(one) for one in self._workers()) else None

    def _workers(self) -> list[SimulatedWorker]:
        return [worker for worker in self._world.workers.values() if worker.alive]

    def _sees(self, worker: SimulatedWorker) -> bool:
        return not worker.contained or worker.spec.attempt in self._known

    def _seen(self, attempt: AttemptId) -> SimulatedWorker | None:
        worker = self._world.workers.get(attempt)
        return worker if worker is not None and self._sees(worker) else None

    def waits(self, attempt: AttemptId, proc: ProcRecord | None) -> str | None:
        """Ask the worker of that claim."""
        if proc is None or proc.boot != self._world.clock.boot:
            return None
        waits = any(one.waits_for_disk for one in self._workers() if one.pid == proc.pid and self._sees(one))
        return WAITS_FOR_DISK if waits else None

    def kill_tree(self, attempt: AttemptId, trace: Trace) -> bool:
        """Kill what is left, and say so once nothing is."""
        worker = self._seen(attempt)
        if worker is None or not (worker.alive or worker.command_lives):
            return True
        if worker.is_doomed:
            return False
        busy = worker in self._world.on_stage or worker.command in self._world.on_stage
        if busy or self._world.random.random() < 0.9:
            self._world.say(worker, "is killed by the conductor, with all that is left of it")
            worker.kill(command_too=True)
        else:
            self._world.say(worker, "is killed by the conductor, and does not die yet")
            worker.doom(self._world.random.choice((2.0, 30.0, 600.0)))
        return False

    def reattach(self, attempt: AttemptId, proc: ProcRecord | None) -> bool:
        """Find an attempt that lives."""
        worker = self._seen(attempt)
        if worker is None or not worker.alive:
            return False
        self._known.add(attempt)
        return True

    def capacity(self) -> int:
        """There is always room."""
        return 1000

    def wake_fds(self) -> list[int]:
        """The world wakes the conductor."""
        return []

    def close(self) -> None:
        """Workers live on."""
