"""Starts workers on this machine: a warm process forks them, pidfds tell of their ends.

The launcher must be made before the conductor opens its lock or starts a thread. A call never waits for the warm
process: an order is sent, its answer is read by a later `poll`.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bus.process import HAVE_PIDFD, HAVE_PROC, boot_id, look, send_signal, start_ticks
from bus.wire import AttemptId, ProcRecord, WorkerSpec
from conductor.runtime.launch.base import LaunchError, Life
from conductor.runtime.launch.survivors import Survivors
from conductor.runtime.launch.warm import WarmProcess

AT_ONCE = 1000
"""Workers that would start now as far as this launcher is concerned; the plan's own limit is always lower."""


@dataclass(slots=True)
class _Worker:
    """One attempt. `pid` 0: not answered yet. `pidfd` -1: ended, or a system without pidfds."""

    life: Life = "pending"
    pid: int = 0
    ticks: int = 0
    pidfd: int = -1
    error: str | None = None
    """Why no worker could be made."""
    stop_asked: bool = False


class LocalLauncher:
    """The launcher of local processes."""

    def __init__(self) -> None:
        self._boot = boot_id()
        self._workers: dict[AttemptId, _Worker] = {}
        self._survivors = Survivors()
        self._warm = WarmProcess()

    @property
    def warm_pid(self) -> int:
        """The pid of the warm process, for people who look (`doctor`)."""
        return self._warm.pid

    def launch(self, spec: WorkerSpec, live: int) -> None:
        """Send the order. See `base.Launcher.launch`."""
        try:
            if not self._warm.alive:
                self._restart()
            self._warm.send(spec, live)
        except OSError as error:
            raise LaunchError(f"the warm process does not take orders: {error.strerror}") from error
        finally:
            os.close(live)
        self._workers[spec.attempt] = _Worker()

    def poll(self, attempts: Iterable[AttemptId]) -> Mapping[AttemptId, Life]:
        """Tell the life of each attempt. Attempts that ended and are not asked for any more are forgotten."""
        self._read_answers()
        self._look_for_ends()
        wanted = set(attempts)
        for attempt in [a for a, worker in self._workers.items() if worker.life in ("ended", "lost")]:
            if attempt not in wanted:
                del self._workers[attempt]
                self._survivors.forget(attempt)
        return {a: self._workers[a].life if a in self._workers else "lost" for a in wanted}

    def failure(self, attempt: AttemptId) -> str | None:
        """Return why no worker could be forked for the attempt."""
        worker = self._workers.get(attempt)
        return worker.error if worker else None

    def terminate(self, attempt: AttemptId) -> None:
        """Send TERM to the worker, now or as soon as its pid is known."""
        worker = self._workers.get(attempt)
        if worker is None:
            return
        if worker.life == "pending":
            worker.stop_asked = True
        elif worker.life == "running":
            _signal(worker, signal.SIGTERM)

    def kill_tree(self, attempt: AttemptId, command: Mapping[str, object] | None) -> bool:
        """KILL the worker and everything of its tree. See `base.Launcher.kill_tree`."""
        self._read_answers()
        worker = self._workers.get(attempt)
        if worker is not None and worker.life in ("pending", "running"):
            _signal(worker, signal.SIGKILL)
            return False
        return self._survivors.end(attempt, command)

    def reattach(self, attempt: AttemptId, proc: ProcRecord | None) -> bool:
        """Watch a worker by the identity in its claim; False where no such process lives."""
        if proc is None or proc.boot != self._boot:
            return False
        worker = _Worker("running", proc.pid, proc.start_ticks)
        if HAVE_PIDFD:
            try:
                worker.pidfd = os.pidfd_open(proc.pid)
            except OSError:
                return False
        if not _is(worker):
            _close(worker)
            return False
        self._workers[attempt] = worker
        return True

    def capacity(self) -> int:
        """How many more would start now."""
        return AT_ONCE

    def wake_fds(self) -> list[int]:
        """The warm process's socket and the pidfds of living workers."""
        fds = [worker.pidfd for worker in self._workers.values() if worker.pidfd >= 0]
        return [self._warm.fd, *fds] if self._warm.alive else fds

    def close(self) -> None:
        """Let the warm process end and wait for it; workers live on."""
        self._read_answers()
        self._warm.close()
        for worker in self._workers.values():
            _close(worker)
        self._workers.clear()

    def _restart(self) -> None:
        self._read_answers()
        self._warm.close()
        self._warm = WarmProcess()

    def _read_answers(self) -> None:
        for answer in self._warm.answers():
            worker = self._workers.get(answer.attempt)
            if worker is None or worker.life != "pending":
                if answer.pidfd >= 0:
                    os.close(answer.pidfd)
                continue
            if answer.pid == 0:
                worker.life, worker.error = "ended", answer.error
                continue
            worker.life, worker.pid, worker.pidfd = "running", answer.pid, answer.pidfd
            worker.ticks = 0 if HAVE_PIDFD else start_ticks(answer.pid)
            if worker.stop_asked:
                _signal(worker, signal.SIGTERM)
        if not self._warm.alive:
            for worker in self._workers.values():
                if worker.life == "pending":
                    worker.life = "lost"

    def _look_for_ends(self) -> None:
        watched = {worker.pidfd: worker for worker in self._workers.values() if worker.pidfd >= 0}
        if watched:
            poller = select.poll()
            for fd in watched:
                poller.register(fd, select.POLLIN)
            for fd, _ in poller.poll(0):
                watched[fd].life = "ended"
                _close(watched[fd])
        for worker in self._workers.values():
            if worker.life == "running" and worker.pidfd < 0 and not _is(worker):
                worker.life = "ended"


def _is(worker: _Worker) -> bool:
    """Tell whether the process with the worker's pid is the worker still (not reaped, not another one)."""
    if not HAVE_PROC:
        try:
            os.kill(worker.pid, 0)
        except OSError:
            return False
        return True
    info = look(worker.pid)
    return info is not None and not info.dead and info.start_ticks == worker.ticks


def _signal(worker: _Worker, number: signal.Signals) -> None:
    """Signal a worker, surely it and no other; one that is gone, or not known yet, is no error."""
    try:
        if worker.pidfd >= 0:
            signal.pidfd_send_signal(worker.pidfd, number)
        elif worker.pid:
            send_signal(worker.pid, worker.ticks, number)
    except (ProcessLookupError, PermissionError):
        return


def _close(worker: _Worker) -> None:
    if worker.pidfd >= 0:
        os.close(worker.pidfd)
        worker.pidfd = -1
