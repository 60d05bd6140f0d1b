"""Ends what is left of an attempt, and proves that nothing is.

The tree of an attempt is found by three marks: the session that the worker led, the attempt's nonce in the environment
of its processes, and the attempt's lock, which only its worker holds. None is a name of a program, and each process is
compared by pid and start, and by the bus that it belongs to, before it is signalled. Two passes over /proc in a row
that find nothing prove emptiness.

Why a session number can be trusted: as long as one of its processes lives, the kernel gives its number to no other
process. Had the number been given away meanwhile, the new owner leads a session of its own: then a leader with that pid
lives again, and the session is not taken for ours. Nor is it for a process that carries the nonce of another attempt.
A number that was seen in another realm is never used: the caller leaves it out of the trace.

A process that took off all three marks (`env -i setsid`) is still known by its parent: what outlives its worker becomes
a child of the warm process. A living worker keeps its own, so a child of the warm process that has no attempt's lock
open is an orphan of a dead worker. It is ended with the attempt, unless it is older than that or policy may keep it.

A process that forks and ends all the time is another one by the time that a pass has read it. It, too, becomes a child
of the warm process with each of its steps, so these are looked at last, often and quickly.

What policy keeps is left alone and does not count: programs of certain names, and, where the task may leave processes
behind and its command has ended, whatever made a session of its own, as a server does that was started on purpose. What
is still in the worker's session is ended even then: it may be a verify command, which must not run beside the next
attempt.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from bus.layout import LIVE, parse_attempt
from bus.process import HAVE_PROC, ProcessInfo, all_processes, children, look, pass_on_shortage, send_signal
from bus.wire import AttemptId, JsonObject
from conductor.runtime.launch.base import Trace
from conductor.runtime.launch.own_bus import OwnBus, environment, open_files

NONCE_VARIABLE = b"CONDUCTOR_NONCE="

CLEAN_PASSES = 2

CHASES = 100
"""How often, one right after the other, children of the warm process are looked at that live too shortly to be found in
a pass over all processes: who forks and ends all the time has another pid when that is over."""


@dataclass(frozen=True, slots=True)
class Orphanage:
    """The warm process, as the parent of what outlives its workers."""

    warm: int = 0
    """Its pid; 0 where it is gone."""
    spared: frozenset[str] = frozenset()
    """Names of processes that live on in any case."""
    keeps: bool = False
    """Whether a task that it started may leave processes behind: then an orphan may be meant to stay."""

    def orphans(self, since: int) -> Iterator[ProcessInfo]:
        """Yield children of the warm process, started at tick `since` or later, that nothing but their parent tells of
        and that nobody wants to keep. What belongs to another user is out of our reach anyway."""
        if not self.warm or self.keeps:
            return
        for info in all_processes():
            if info.parent != self.warm or info.dead or info.start_ticks < since or info.name in self.spared:
                continue
            carried = environment(info.pid)
            if carried and not any(map(_is_nonce, carried)) and not _is_worker(info.pid):
                yield info


NOBODY = Orphanage()


class Survivors:
    """Ends attempts, and remembers of which a living process was ever found."""

    def __init__(self, bus: OwnBus) -> None:
        self._bus = bus
        self._met: set[AttemptId] = set()
        self._left: dict[AttemptId, list[ProcessInfo]] = {}
        """What the last look at an attempt found."""

    def end(self, attempt: AttemptId, trace: Trace, orphanage: Orphanage = NOBODY) -> bool:
        """KILL what is left of the attempt; True once two passes in a row found nothing.

        Raises OSError where we have no descriptor to look at a process with: then nothing is proved.
        """
        if not HAVE_PROC:
            return _end_group(trace.command)
        for _ in range(CLEAN_PASSES):
            own = list(find(self._bus, attempt, trace))
            if own:
                self._met.add(attempt)
            orphans = [] if trace.only_worker else orphanage.orphans(_number(trace.command, "start_ticks"))
            left = self._left[attempt] = [*own, *orphans]
            for info in left:
                _kill(info)
            if left:
                return False
        return trace.only_worker or trace.keeps or self._chase(attempt, trace, orphanage)

    def _chase(self, attempt: AttemptId, trace: Trace, orphanage: Orphanage) -> bool:
        """KILL what of the attempt is another process every moment; True once nothing fleeting is seen any more.

        Whose parent ends becomes a child of the warm process, if its worker is dead.
        """
        nonce = parse_attempt(attempt)[2].encode()
        for _ in range(CHASES):
            fleeting = False
            for pid in children(orphanage.warm) if orphanage.warm else ():
                carried = nonces(pid)
                if carried is None:
                    fleeting |= _is_ending(pid)
                elif nonce in carried and (info := look(pid)) is not None and info.name not in trace.spared:
                    fleeting = True
                    self._met.add(attempt)
                    _kill(info)
            if not fleeting:
                return True
        return False

    def left(self, attempt: AttemptId) -> list[ProcessInfo]:
        """Return what the last look at the attempt found and meant to end."""
        return self._left.get(attempt, [])

    def met(self, attempt: AttemptId) -> bool:
        """Tell whether a living process of the attempt was ever found."""
        return attempt in self._met

    def forget(self, attempt: AttemptId) -> None:
        """The attempt is closed."""
        self._met.discard(attempt)
        self._left.pop(attempt, None)


def find(bus: OwnBus, attempt: AttemptId, trace: Trace) -> Iterator[ProcessInfo]:
    """Yield the living processes of an attempt that are to be ended."""
    nonce = parse_attempt(attempt)[2].encode()
    led = _number(trace.command, "session")
    session = led if _leaderless(led) else 0
    since = _number(trace.command, "start_ticks")
    keeps = trace.keeps and not _runs(trace.command)
    for info in all_processes():
        if info.dead or info.pid == os.getpid():
            continue
        in_session = bool(session) and info.session == session and info.start_ticks >= since
        carried = nonces(info.pid)
        if not trace.only_worker and (in_session if carried is None else nonce in carried):
            kept = info.name in trace.spared or (keeps and info.session != led)
            if not kept and not bus.is_anothers(info.pid, attempt):
                yield info
        elif holds_lock(info.pid, bus.lock_path(attempt)):
            yield info


def worker_of(bus: OwnBus, attempt: AttemptId) -> ProcessInfo | None:
    """Return the living worker of an attempt, found by the lock that it holds; None where there is none (or no /proc).

    A worker holds it from its fork to its end, also where its folder was deleted.
    """
    path = bus.lock_path(attempt)
    return next((info for info in all_processes() if not info.dead and holds_lock(info.pid, path)), None)


def holds_lock(pid: int, path: str) -> bool:
    """Tell whether the process holds the lock file exclusively: who only probes it shares it."""
    if pid == os.getpid():
        return False
    return any(_is_exclusive(pid, fd) for fd, found in open_files(pid).items() if found == path)


def _is_worker(pid: int) -> bool:
    """Tell whether the process has the lock of an attempt open, from its fork on; commands do not inherit it."""
    return any(found.endswith(f"/{LIVE}") for found in open_files(pid).values())


def _is_exclusive(pid: int, fd: str) -> bool:
    try:
        with open(f"/proc/{pid}/fdinfo/{fd}", "rb") as file:
            return b" WRITE " in file.read()
    except OSError as error:  # closed meanwhile
        pass_on_shortage(error)
        return False


def nonces(pid: int) -> list[bytes] | None:
    """Return the nonces (a chain, where runs are nested) that a process was started with; None where it has none, or
    belongs to another user and cannot be read."""
    for entry in environment(pid):
        if _is_nonce(entry):
            return re.split(rb"[^0-9a-f]+", entry[len(NONCE_VARIABLE) :])
    return None


def _is_ending(pid: int) -> bool:
    """Tell whether a process has let go of its memory, or is gone: what it was started with cannot be told any more."""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except PermissionError:
        return False
    except OSError as error:
        pass_on_shortage(error)
        return True
    return False


def _is_nonce(entry: bytes) -> bool:
    return entry.startswith(NONCE_VARIABLE)


def _leaderless(session: int) -> bool:
    """Tell whether nobody leads a session of this number: a leader that lives is somebody else's by now."""
    leader = look(session) if session else None
    return leader is None or leader.dead


def _runs(command: JsonObject | None) -> bool:
    """Tell whether the command itself lives; where it is not known it may."""
    if command is None:
        return True
    info = look(_number(command, "pid"))
    return info is not None and not info.dead and info.start_ticks == _number(command, "start_ticks")


def _number(command: JsonObject | None, key: str) -> int:
    value = command.get(key) if command else None
    return value if isinstance(value, int) else 0


def _kill(info: ProcessInfo) -> None:
    try:
        send_signal(info.pid, info.start_ticks, signal.SIGKILL)
    except PermissionError:
        return  # it stays, so the next pass finds it again and the attempt is not empty


def _end_group(command: JsonObject | None) -> bool:
    """Without /proc: end the command's process group; what made a session of its own is not found."""
    group = _number(command, "pid")
    if not group:
        return True
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
