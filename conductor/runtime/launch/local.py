"""Starts workers on this machine: a warm process forks them, pidfds tell of their ends.

The launcher must be made before the conductor opens its lock or starts a thread. A call never waits for the warm
process: an order is sent, its answer is read by a later `poll`.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from bus.layout import LIVE, PROMPT, REVOKED, TASK, attempt_dir
from bus.process import (
    HAVE_PIDFD,
    HAVE_PROC,
    ProcessInfo,
    is_shortage,
    look,
    pass_on_shortage,
    realm,
    send_signal,
    start_ticks,
    waits,
)
from bus.wire import AttemptId, ProcRecord, WorkerSpec
from conductor.runtime.launch.base import Elsewhere, LaunchError, Life, MachineShort, Trace
from conductor.runtime.launch.library import library_folder
from conductor.runtime.launch.own_bus import OwnBus
from conductor.runtime.launch.survivors import Orphanage, Survivors, holds_lock, worker_of
from conductor.runtime.launch.warm import WarmProcess

AT_ONCE = 1000
"""Workers that would start now as far as this launcher is concerned; the plan's own limit is always lower."""

ANSWER_LIMIT = 10.0
"""Seconds that an order may stay unanswered. A fork takes milliseconds, on a machine that swaps perhaps a second; who
has not answered by then hangs or was suspended, and the run would hang with it."""


_AS_MADE = frozenset({LIVE, PROMPT, TASK, REVOKED})
"""What the conductor alone puts into the folder of an attempt."""


@dataclass(slots=True)
class _Worker:
    """One attempt. `pid` 0: not answered yet. `pidfd` -1: ended, or a system without pidfds."""

    life: Life = "pending"
    pid: int = 0
    ticks: int = 0
    pidfd: int = -1
    error: str | None = None
    """Why no worker was made."""
    ran_short: bool = False
    """Whether only something ran short."""
    existed: bool = False
    """Whether there was a worker, as far as is known."""
    stop_asked: bool = False
    ordered: float = 0.0
    """When the order was sent, on CLOCK_MONOTONIC."""
    folder: str = ""
    """The attempt's folder."""


class LocalLauncher:
    """The launcher of local processes."""

    def __init__(self, bus: str, open_files: int | None = None) -> None:
        """Start the warm process. `bus` is the path of the bus whose attempts are launched; it need not exist yet.

        `open_files` is the soft limit of descriptors that commands get back; None where ours was not changed.
        """
        self._open_files = open_files
        self._realm = realm()
        self._workers: dict[AttemptId, _Worker] = {}
        self._bus = OwnBus(bus)
        self._survivors = Survivors(self._bus)
        self._spared: frozenset[str] = frozenset()
        self._keeps = False
        """What policy says of anything that a worker of ours may leave behind: of the tasks, the most lenient."""
        self._warm = WarmProcess(self._open_files)

    @property
    def warm_pid(self) -> int:
        """The pid of the warm process, for people who look (`doctor`)."""
        return self._warm.pid

    def launch(self, spec: WorkerSpec, live: int) -> None:
        """Send the order. See `base.Launcher.launch`."""
        try:
            if not self._warm.alive:
                self._restart()
            self._warm.send(replace(spec, library=library_folder()) if spec.locks else spec, live)
        except OSError as error:
            if is_shortage(error):
                raise MachineShort(str(error.strerror)) from error
            raise LaunchError(f"the warm process does not take orders: {error.strerror}") from error
        finally:
            os.close(live)
        self._spared |= frozenset(spec.never_kill)
        self._keeps |= spec.leftovers == "keep"
        self._workers[spec.attempt] = _Worker(
            ordered=time.monotonic(), folder=os.path.join(spec.bus, attempt_dir(spec.attempt))
        )

    def poll(self, attempts: Iterable[AttemptId]) -> Mapping[AttemptId, Life]:
        """Tell the life of each attempt. Attempts that ended and are not asked for any more are forgotten."""
        self._read_answers()
        self._end_a_silence()
        self._look_for_ends()
        wanted = set(attempts)
        for attempt in [a for a, worker in self._workers.items() if worker.life in ("ended", "lost")]:
            if attempt not in wanted:
                del self._workers[attempt]
                self._survivors.forget(attempt)
        return {a: self._workers[a].life if a in self._workers else "lost" for a in wanted}

    def failure(self, attempt: AttemptId) -> str | None:
        """Return why the attempt never got a worker."""
        worker = self._workers.get(attempt)
        return worker.error if worker else None

    def ran_short(self, attempt: AttemptId) -> bool:
        """Tell whether it never got one because something ran short."""
        worker = self._workers.get(attempt)
        return worker is not None and worker.ran_short

    def may_have_run(self, attempt: AttemptId) -> bool:
        """Tell whether there was a worker, or any other process of the attempt. See `base.Launcher.may_have_run`."""
        worker = self._workers.get(attempt)
        begun = worker is not None and worker.existed and not (worker.life == "ended" and _is_unclaimed(worker.folder))
        return begun or self._survivors.met(attempt)

    def met(self, attempt: AttemptId) -> bool:
        """Tell whether anything of the command was ever found alive."""
        return self._survivors.met(attempt)

    def terminate(self, attempt: AttemptId) -> None:
        """Send TERM to the worker, now or as soon as its pid is known."""
        worker = self._workers.get(attempt)
        if worker is None:
            return
        if worker.life == "pending":
            worker.stop_asked = True
        elif worker.life == "running":
            _hint(worker)

    def kill_tree(self, attempt: AttemptId, trace: Trace) -> bool:
        """KILL the worker and everything of its tree. See `base.Launcher.kill_tree`."""
        self._read_answers()
        worker = self._workers.get(attempt)
        if worker is not None and worker.life == "pending":
            self._give_up_warm("the warm process had not answered when the attempt was ended")
        if worker is not None and worker.life in ("pending", "running"):
            _signal(worker, signal.SIGKILL)
            return False
        return self._survivors.end(attempt, trace, Orphanage(self._warm.pid, self._spared, self._keeps))

    def remains(self, attempt: AttemptId) -> str:
        """Name what withstood: pid, name, state of the kernel (`D` waits where no signal reaches), user."""
        worker = self._workers.get(attempt)
        found = self._survivors.left(attempt)
        with suppress(OSError):
            if worker is not None and worker.life == "running" and (own := look(worker.pid)) is not None:
                found = [own, *found]
            return ", ".join(filter(None, map(_named, found)))
        return ""

    def elsewhere(self, proc: ProcRecord) -> Elsewhere | None:
        """Compare the realm of a claim with ours. A claim that names no namespace says nothing against ours."""
        if proc.boot != self._realm.boot:
            return "boot"
        return None if proc.namespace in ("", self._realm.namespace) else "namespace"

    def waits(self, attempt: AttemptId, proc: ProcRecord | None) -> str | None:
        """Read the name that the worker gives its process."""
        if proc is not None:
            return waits(proc.pid, proc.start_ticks) if self.elsewhere(proc) is None else None
        worker = self._workers.get(attempt)
        if worker is None or worker.life != "running":
            return None
        return waits(worker.pid, worker.ticks or start_ticks(worker.pid))

    def reattach(self, attempt: AttemptId, proc: ProcRecord | None) -> bool:
        """Watch a worker by the identity in its claim, or by its lock where there is no claim (not yet, or its folder
        was deleted); False where no such process lives, or none that can be seen from here."""
        if proc is None:
            found = worker_of(self._bus, attempt)
            identity = (found.pid, found.start_ticks) if found else None
        else:
            identity = (proc.pid, proc.start_ticks) if self._is_here(attempt, proc) else None
        worker = _Worker()
        if identity is None or not _watch(worker, *identity):
            return False
        self._workers[attempt] = worker
        return True

    def _is_here(self, attempt: AttemptId, proc: ProcRecord) -> bool:
        """Tell whether the process of a claim is the worker: whatever ran in the attempt can have written the claim,
        but only the worker holds the lock."""
        return self.elsewhere(proc) is None and (not HAVE_PROC or holds_lock(proc.pid, self._bus.lock_path(attempt)))

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
        self._warm.kill()
        self._warm.close()
        self._warm = WarmProcess(self._open_files)

    def _read_answers(self) -> None:
        self._take_answers()
        if not self._warm.alive and self._pending():
            self._give_up_warm("the warm process ended before it answered")

    def _take_answers(self) -> None:
        for answer in self._warm.answers():
            worker = self._workers.get(answer.attempt)
            if worker is None or worker.life != "pending":
                if answer.pidfd >= 0:
                    os.close(answer.pidfd)
                continue
            if answer.pid == 0:
                worker.life, worker.error, worker.ran_short = "ended", answer.error, answer.shortage
                continue
            worker.existed = True
            if HAVE_PIDFD and answer.pidfd < 0:  # nothing tells the pid's next owner from it; its lock tells of its end
                worker.life = "lost"
                continue
            worker.life, worker.pid, worker.pidfd = "running", answer.pid, answer.pidfd
            worker.ticks = 0 if HAVE_PIDFD else start_ticks(answer.pid)
            if worker.stop_asked:
                _hint(worker)

    def _pending(self) -> dict[AttemptId, _Worker]:
        return {attempt: worker for attempt, worker in self._workers.items() if worker.life == "pending"}

    def _end_a_silence(self) -> None:
        """Give up a warm process that hangs."""
        oldest = min((worker.ordered for worker in self._pending().values()), default=None)
        if oldest is not None and time.monotonic() - oldest > ANSWER_LIMIT:
            self._give_up_warm(f"the warm process did not answer within {ANSWER_LIMIT:g} s and was ended")

    def _give_up_warm(self, why: str) -> None:
        """End the warm process, and with it all orders that it has not carried out; settle those without an answer.

        It may have forked a worker and not have said so. That one holds the lock of its attempt while it lives, and is
        watched like any other; if it is dead already, its claim tells of it. Who has neither never gets a worker, as
        there is nobody left to fork it. Workers live on. What cannot be looked for now stays pending.
        """
        if not self._warm.kill():
            return  # the kernel holds it up: nothing is known of its orders, so they stay pending
        self._take_answers()
        for attempt, worker in self._pending().items():
            try:
                found = worker_of(self._bus, attempt)
                watched = found is not None and _watch(worker, found.pid, found.start_ticks)
            except OSError:
                continue
            if watched:
                if worker.stop_asked:
                    _hint(worker)
                continue
            worker.life, worker.existed = "lost", found is not None or not _is_unclaimed(worker.folder)
            if HAVE_PROC and not worker.existed:
                worker.error = why

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
            with suppress(OSError):  # it cannot be told now
                if worker.life == "running" and worker.pidfd < 0 and not _is(worker):
                    worker.life = "ended"


def _named(info: ProcessInfo) -> str:
    """Say who a process is, as it is now; empty where it is gone."""
    now = look(info.pid)
    if now is None or now.start_ticks != info.start_ticks or now.dead:
        return ""
    try:
        user = f", user {os.stat(f'/proc/{info.pid}').st_uid}"
    except FileNotFoundError:
        return ""
    return f"pid {info.pid} ({info.name}), state {now.state}{user}"


def _watch(worker: _Worker, pid: int, ticks: int) -> bool:
    """Make the living process of this identity the attempt's worker; False where it is gone. OSError for a shortage."""
    worker.pid, worker.ticks = pid, ticks
    if HAVE_PIDFD:
        try:
            worker.pidfd = os.pidfd_open(pid)
        except OSError as error:
            pass_on_shortage(error)
            return False
    try:
        if not _is(worker):
            _close(worker)
            return False
    except OSError:
        _close(worker)
        raise
    worker.life, worker.existed = "running", True
    return True


def _is_unclaimed(folder: str) -> bool:
    """Tell whether the folder of an attempt is as it was made: then its worker began nothing.

    A command that was started might have deleted the claim; then the folder changed after all that is in it was made.
    """
    try:
        names = set(os.listdir(folder))
        made = max(os.lstat(os.path.join(folder, name)).st_ctime_ns for name in names)
        return LIVE in names and names <= _AS_MADE and os.lstat(folder).st_mtime_ns <= made
    except (OSError, ValueError):
        return False


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


def _hint(worker: _Worker) -> None:
    """Have the worker look at its `revoked` file now; it will anyway, so a shortage is no trouble."""
    with suppress(OSError):
        _signal(worker, signal.SIGTERM)


def _close(worker: _Worker) -> None:
    if worker.pidfd >= 0:
        os.close(worker.pidfd)
        worker.pidfd = -1
