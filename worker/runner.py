"""The shell around the session of one attempt: claims it, runs its command, pumps its output, writes its result."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bus.contract import Hand
from bus.errors import BusError
from bus.layout import STDERR, STDOUT, attempt_dir
from bus.process import HAVE_PROC, WAITS_TO_LOOK, WAITS_TO_VERIFY, Realm, is_shortage, start_ticks
from bus.wire import ExitRecord, ProcRecord, WorkerSpec
from worker.core import PERIOD, Session, refusal
from worker.environment import command_environment
from worker.handing_in import FIRST_PAUSE, Late, Sign, claim, hand_in, patiently, wait
from worker.offspring import Offspring
from worker.pump import Log, Pump
from worker.result import compose, log_bytes, not_started
from worker.signals import Signals
from worker.signs import Signs
from worker.spawn import SpawnError, spawn
from worker.words import (
    Asking,
    Beat,
    Event,
    Finish,
    Instruction,
    LookAtTree,
    NotSignalled,
    NotStarted,
    SendSignal,
    Started,
    StartVerify,
    StopRequested,
    Tick,
    TreeSeen,
    TreeUnseen,
)

ALREADY_CLAIMED = 111
"""Exit code of a worker that found its attempt claimed by another one."""

BUS_LOST = 5
"""Exit code of a worker that could not write to the bus because it is gone."""

DRAIN_CHUNKS = 17
"""Reads of a pipe after the end: more than it can hold (1 MiB at most), and never endless."""

_SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "KILL": signal.SIGKILL}


@dataclass(frozen=True, slots=True)
class Origin:
    """What does not change from worker to worker; the warm process found it out once."""

    realm: Realm
    environ: Mapping[str, str]
    umask: int = 0o022
    """The user's, for commands; a worker itself lets nobody else read what it makes."""
    open_files: int | None = None
    """The user's soft limit of descriptors, for commands; None where the conductor did not raise it."""


def run(spec: WorkerSpec, hand: Hand, origin: Origin, signals: Signals) -> int:
    """Carry out the attempt; return the exit code of the worker's own process, which nobody's decision rests on."""
    if not claim(hand, patiently(lambda: own_claim(spec, origin), wait), wait):
        return ALREADY_CLAIMED
    record, late = _carry_out(spec, hand, origin, signals)
    return 0 if hand_in(record, spec, hand, wait, late) else BUS_LOST


def own_claim(spec: WorkerSpec, origin: Origin) -> ProcRecord:
    """Return who this process is, and what a conductor must know that ends what is left of the attempt."""
    pid = os.getpid()
    return ProcRecord(
        boot=origin.realm.boot,
        pid=pid,
        start_ticks=start_ticks(pid),
        epoch=spec.epoch,
        namespace=origin.realm.namespace,
        leftovers=spec.leftovers,
        never_kill=spec.never_kill,
    )


def _carry_out(spec: WorkerSpec, hand: Hand, origin: Origin, signals: Signals) -> tuple[ExitRecord, Late | None]:
    try:
        why = refusal(spec, *_orders(hand)) or _take_locks(spec, hand, signals)
        if why is not None:
            return not_started(why), None
        one = _Run(spec, hand, origin, signals)
        return one.carry_out(), one.write_late
    except _NotBegun as error:
        return not_started(str(error)), None


def _take_locks(spec: WorkerSpec, hand: Hand, signals: Signals) -> str | None:
    """Take the locks that the command needs, however long that takes; return why it is not to be started, if so."""
    if not spec.locks:
        return None
    from worker.locking import CannotLock, take_locks  # seldom needed, and forked workers should not carry it

    try:
        take_locks(spec, hand, signals)
    except CannotLock as error:
        return str(error)
    return None


def _orders(hand: Hand) -> tuple[str | None, int]:
    """Return the order to stop, if there is one, and the newest epoch. Raises _NotBegun for a shortage."""
    try:
        return hand.revoked(), hand.newest_epoch()
    except (OSError, MemoryError) as error:
        if not is_shortage(error):
            raise
        raise _not_begun(error, "the bus") from error


class _NotBegun(Exception):
    """The command was not started; the text says why, as `exit.json` does."""


def _not_begun(error: OSError | MemoryError, name: str) -> _NotBegun:
    kind = "shortage" if is_shortage(error) else "spawn"
    if isinstance(error, MemoryError):
        return _NotBegun(f"{kind}: {name}: {os.strerror(errno.ENOMEM)}")
    return _NotBegun(f"{kind}: {error.filename or name}: {error.strerror}")


class _Run:
    """One attempt from the exec of its command to the end of its tree."""

    def __init__(self, spec: WorkerSpec, hand: Hand, origin: Origin, signals: Signals) -> None:
        self._spec = spec
        self._hand = hand
        self._signals = signals
        self._environment = command_environment(origin.environ, spec)
        self._umask = origin.umask
        self._open_files = origin.open_files
        self._folder = os.path.join(spec.bus, attempt_dir(spec.attempt))
        try:
            self._stdout = Pump(Log(self._folder, STDOUT, spec.log_cap))
            self._stderr = Pump(Log(self._folder, STDERR, spec.log_cap))
        except (OSError, MemoryError) as error:
            raise _not_begun(error, "pipe") from error
        self._poll = select.poll()
        self._session = Session(spec, time.monotonic())
        self._offspring = Offspring(self._session.keeps)
        self._signs = Signs(spec)
        self._unpublished = 0
        """Pid of the command, until its identity is published."""
        self._verify_due: int | None = None
        """Index of the verify command that is to be started."""
        self._told_to_stop = False
        self._asks = False
        """Whether something of the attempt waits for the answer of a person, as far as the session was told."""
        self._sign = Sign()
        self._events: deque[Event] = deque()
        self._outcome: Finish | None = None
        self._look_for_stop_at = time.monotonic() + PERIOD

    def carry_out(self) -> ExitRecord:
        """Run the command to its end and return the result. Raises _NotBegun."""
        started_at = time.time()
        try:
            os.chdir(self._spec.cwd)
            self._spawn(self._spec.argv, last=not self._spec.verify)
        except SpawnError as error:
            raise _NotBegun(f"spawn: {error}") from error
        except (OSError, MemoryError) as error:
            raise _not_begun(error, self._spec.argv[0]) from error
        self._unpublished = self._offspring.pid
        self._publish_identity()
        self._feed(Started())
        finish = self._loop()
        ended_at = time.time()
        self._drain()
        return patiently(
            lambda: compose(
                self._spec,
                finish,
                report=self._hand.last_report(),
                started_at=started_at,
                ended_at=ended_at,
                stdout=self._stdout.log,
                stderr=self._stderr.log,
            ),
            wait,
        )

    def _spawn(self, argv: Sequence[str], *, last: bool) -> None:
        """Start the process of a step. The pipes are shared by all steps; after the last one our ends are closed."""
        own, (soft, hard) = os.umask(self._umask), resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            if self._open_files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (_at_most(self._open_files, hard), hard))
            self._offspring.pid = spawn(argv, self._environment, self._stdout.writer, self._stderr.writer)
        finally:
            os.umask(own)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self._offspring.reaped = False
        if last:
            self._stdout.close_writer()
            self._stderr.close_writer()

    def _publish_identity(self) -> None:
        """Publish who the command is; where that is impossible now, again at the next tick. Once it was reaped
        nobody knows any more when it started."""
        if not self._unpublished:
            return
        gone = self._offspring.reaped or self._offspring.pid != self._unpublished
        try:
            ticks = 0 if gone else start_ticks(self._unpublished)
            self._hand.started(self._unpublished, ticks, os.getpid())
        except (OSError, BusError, MemoryError):
            return
        self._unpublished = 0

    def _loop(self) -> Finish:
        pumps = {self._stdout.reader: self._stdout, self._stderr.reader: self._stderr}
        for fd in (self._signals.fd, *pumps):
            self._poll.register(fd, select.POLLIN)
        while self._outcome is None:
            try:
                self._turn(pumps)
            except MemoryError:
                wait(FIRST_PAUSE)
        return self._outcome

    def _turn(self, pumps: Mapping[int, Pump]) -> None:
        for fd, _ in self._poll.poll(self._session.wait() * 1000 + 1):
            if fd == self._signals.fd:
                self._signals.drain()
                continue
            pump = pumps[fd]
            pump.take()
            if pump.reader < 0:
                self._poll.unregister(fd)
        none_left = self._offspring.reap()
        self._events += self._offspring.take_end()
        if none_left and HAVE_PROC:
            self._events.append(TreeSeen(()))
        self._look_for_stop()
        self._start_verify()
        self._feed(Tick())

    def _look_for_stop(self) -> None:
        now = time.monotonic()
        if now < self._look_for_stop_at and not self._signals.stop_asked:
            return
        self._look_for_stop_at = now + PERIOD
        self._publish_identity()
        self._stdout.log.retry()
        self._stderr.log.retry()
        if (asks := self._hand.asks()) != self._asks:
            self._asks = asks
            self._feed(Asking(asks))
        reason = self._revoked() or ("stopped" if self._signals.stop_asked else None)
        if reason is not None:
            self._told_to_stop = True
            self._feed(StopRequested(reason))

    def _revoked(self) -> str | None:
        try:
            return self._hand.revoked()
        except (OSError, BusError, MemoryError):
            return None

    def _feed(self, event: Event) -> None:
        """Hand an event to the session, and what comes of carrying out its instructions."""
        self._events.append(event)
        while self._events and self._outcome is None:
            for instruction in self._session.handle(self._events.popleft(), time.monotonic()):
                self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Beat():
                self._beat(instruction)
            case LookAtTree():
                self._events.append(self._tree())
            case SendSignal(name, everyone):
                self._signal(_SIGNALS[name], everyone)
            case StartVerify(index):
                self._verify_due = index
                self._start_verify()
            case Finish():
                self._outcome = instruction

    def _beat(self, beat: Beat) -> None:
        try:
            self._hand.beat(self._signs.evidence(beat, self._stdout.log.total + self._stderr.log.total))
        except (OSError, BusError, MemoryError):
            return

    def _tree(self) -> TreeSeen | TreeUnseen:
        try:
            seen = self._offspring.look()
        except (OSError, MemoryError) as error:
            if not is_shortage(error):
                raise
            self._sign.show(WAITS_TO_LOOK)
            return TreeUnseen()
        finally:
            self._events += self._offspring.take_end()
        if self._verify_due is None:
            self._sign.take_down()
        return seen

    def _signal(self, number: signal.Signals, everyone: bool) -> None:
        if not everyone:
            self._offspring.signal_group(number)
        elif not self._offspring.signal_all(number):
            self._events.append(NotSignalled())

    def _start_verify(self) -> None:
        """Start the verify command that is due; where this machine ran short of something, again at the next tick: the
        work is done, so that must not cost it."""
        if self._verify_due is None:
            return
        event: Event = Started()
        try:
            self._spawn(self._spec.verify[self._verify_due], last=self._verify_due == len(self._spec.verify) - 1)
        except SpawnError as error:
            event = NotStarted(str(error))
        except (OSError, MemoryError) as error:
            if is_shortage(error) and not self._told_to_stop:
                self._sign.show(WAITS_TO_VERIFY)
                return
            event = NotStarted(os.strerror(getattr(error, "errno", None) or errno.ENOMEM))
        self._sign.take_down()
        self._verify_due = None
        self._events.append(event)

    def _drain(self) -> None:
        for pump in (self._stdout, self._stderr):
            for _ in range(DRAIN_CHUNKS):
                if not pump.take():
                    break
            pump.close_reader()
            pump.log.close()

    def write_late(self, record: ExitRecord) -> ExitRecord:
        """Write output that the disk had no room for, if it has some now; return the result that says how much of it
        is still missing."""
        if not record.log_bytes.get("lost"):
            return record
        stdout, stderr = self._stdout.log, self._stderr.log
        stdout.close()
        stderr.close()
        return replace(record, log_bytes=log_bytes(stdout, stderr))


def _at_most(limit: int, hard: int) -> int:
    """Return a soft limit that may be set under this hard one, which somebody may have lowered since."""
    if hard == resource.RLIM_INFINITY:
        return limit
    return hard if limit == resource.RLIM_INFINITY else min(limit, hard)
