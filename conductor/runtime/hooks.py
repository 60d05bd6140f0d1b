"""Commands of the user that are told of events of a run: `[hooks]` of `conductor.toml`.

They hear of what is recorded, one after the other, in the order of the journal. Nothing waits for them: one that cannot
be started, fails or takes too long is told to people, and the run goes on as if there were none.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from bus.wire import Record, dumps
from conductor.core.giving_up import ESCALATED
from conductor.runtime import hook_watcher
from conductor.runtime.hook_watcher import NOT_STARTED

WATCHER = os.path.abspath(hook_watcher.__file__)
"""The program that runs a command and ends it with us."""

MOST_WAITING = 1000
"""Events that wait for their command at most; what comes then is left out."""

LOOK_EVERY = 0.1
"""Seconds between two looks at a running command where the system cannot wake us at its end."""

_OF_TYPE: Mapping[str, str] = {
    "WORKER_DISPATCHED": "task_started",
    "TASK_COMPLETE": "task_completed",
    "TASK_FAILED": "task_failed",
    "DEADLOCK_DETECTED": "deadlock",
    "RUN_ENDED": "run_finished",
}
_OF_LIFE: Mapping[str, str] = {"quiet": "stale", "stuck": "stale", "unkillable": "escalated"}
_RUN_ENDED = "RUN_ENDED"
_RUN_GAVE_UP = "RUN_GAVE_UP"


def events_of(record: Record) -> tuple[str, ...]:
    """Return the events that a record is, of those that a command can be told of."""
    if record.type == "ATTEMPT_LIFE":
        event = _OF_LIFE.get(str(record.payload.get("life")))
        return (event,) if event else ()
    if record.type == _RUN_GAVE_UP:  # goes before each end of that kind
        news = record.payload.get("reason") in ESCALATED and not record.payload.get("again")
        return ("escalated",) if news else ()
    event = _OF_TYPE.get(record.type)
    return (event,) if event else ()


@dataclass(frozen=True, slots=True)
class HookPlaces:
    """Where a run works; all paths absolute."""

    track: str = ""
    project: str = ""
    """The folder that the commands run in."""
    bus: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    """One event for one command."""

    event: str
    body: bytes
    last: bool
    """Whether the run is over with it."""


@dataclass(slots=True)
class _Command:
    """A command that runs."""

    event: str
    process: subprocess.Popen[bytes]
    end_at: float
    """Monotonic time at which it is killed."""
    pidfd: int
    """Readable once it has ended; -1 where the system has no such thing."""
    bond: socket.socket
    """While it is open, the command may live: it closes with us, however we end."""


class Hooks:
    """Starts the commands, one at a time, and ends those that take too long."""

    def __init__(
        self,
        commands: Mapping[str, tuple[str, ...]] | None = None,
        *,
        limit: float = 10.0,
        places: HookPlaces = HookPlaces(),
        say: Callable[[str], None] = lambda text: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`commands`: an argument list by event. `limit`: seconds that each may take; `say` tells people of trouble."""
        self._commands = commands or {}
        self._limit = limit
        self._places = places
        self._say = say
        self._now = now
        self._waiting: deque[_Told] = deque()
        self._running: _Command | None = None
        self._killed: list[subprocess.Popen[bytes]] = []
        """Killed and not gone yet."""
        self._left_out = 0

    def recorded(self, records: Iterable[Record]) -> None:
        """These records are on disk: let the commands hear of them, soon."""
        if not self._commands:
            return
        for record in records:
            for event in events_of(record):
                if event in self._commands:
                    self._add(_Told(event, self._body(event, record), record.type == _RUN_ENDED))

    def tend(self) -> None:
        """See how the running command does, and start the next."""
        self._killed = [process for process in self._killed if process.poll() is None]
        self._look()
        while self._running is None and self._waiting:
            self._start(self._waiting.popleft())
        if self._left_out and not self._waiting:
            self._say(f"hooks: {self._left_out} events were left out, as the commands were too slow")
            self._left_out = 0

    @property
    def busy(self) -> bool:
        """Whether a command runs or has still to be started."""
        return self._running is not None or bool(self._waiting)

    def next_look(self) -> float | None:
        """Return the seconds after which to call `tend` again at the latest; None where nothing runs."""
        if self._running is None:
            return None
        left = max(0.0, self._running.end_at - self._now())
        return left if self._running.pidfd >= 0 else min(left, LOOK_EVERY)

    def wake_fds(self) -> tuple[int, ...]:
        """Return what becomes readable when the running command ends."""
        return () if self._running is None or self._running.pidfd < 0 else (self._running.pidfd,)

    def finish(self, wait: Callable[[float, tuple[int, ...]], None], impatient: Callable[[], bool]) -> None:
        """Let the commands hear of what is left, the end of the run for sure.

        What was there before has one time limit together. `wait` waits for some seconds or one of the descriptors;
        where `impatient` says so, the rest is left out.
        """
        give_up = self._now() + self._limit
        while self.busy and not impatient():
            if self._now() >= give_up:
                self._left_out += sum(not told.last for told in self._waiting)
                self._waiting = deque(told for told in self._waiting if told.last)
            self.tend()
            if (seconds := self.next_look()) is not None:
                wait(seconds, self.wake_fds())
        self.close()

    def close(self) -> None:
        """Leave nothing running."""
        self._waiting.clear()
        if self._running is not None:
            self._kill(self._running)
        for process in self._killed:
            with suppress(subprocess.TimeoutExpired):  # held by the kernel: it ends when that lets it
                process.wait(1.0)

    def _add(self, told: _Told) -> None:
        if len(self._waiting) < MOST_WAITING or told.last:
            self._waiting.append(told)
        else:
            self._left_out += 1

    def _body(self, event: str, record: Record) -> bytes:
        places = self._places
        data = {
            "event": event,
            "track": places.track,
            "project": places.project,
            "bus": places.bus,
            "seq": record.seq,
            "type": record.type,
            "timestamp": record.timestamp,
            "task": record.task,
            "attempt": record.attempt,
            "payload": record.payload,
        }
        return dumps(data).encode() + b"\n"

    def _start(self, told: _Told) -> None:
        command = self._commands[told.event]
        try:
            # A file, not a pipe: who does not read it holds nobody up.
            with tempfile.TemporaryFile() as body:
                body.write(told.body)
                body.seek(0)
                process, bond = self._popen(command, body)
        except (OSError, ValueError) as error:
            self._say(f"hook {told.event}: {command[0]} cannot be started: {error}")
            return
        self._running = _Command(told.event, process, self._now() + self._limit, _pidfd(process.pid), bond)

    def _popen(self, command: tuple[str, ...], body: IO[bytes]) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Start a command under a watcher, which ends it once our end of their bond is closed."""
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
                (sys.executable, "-I", "-S", WATCHER, str(theirs.fileno()), *command),
                stdin=body,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._places.project or None,
                env=self._environment(),
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return process, ours

    def _environment(self) -> dict[str, str]:
        """That of the conductor, and the places; nothing that would take a command for a worker's."""
        places = self._places
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CONDUCTOR_")}
        return {
            **kept,
            "CONDUCTOR_TRACK_DIR": places.track,
            "CONDUCTOR_PROJECT_DIR": places.project,
            "CONDUCTOR_BUS_DIR": places.bus,
        }

    def _look(self) -> None:
        running = self._running
        if running is None:
            return
        code = running.process.poll()
        if code is None and self._now() < running.end_at:
            return
        if code is None:
            self._say(f"hook {running.event}: ended, as it took longer than {self._limit:g} s")
            self._kill(running)
            return
        text = _said(running.bond) if code == NOT_STARTED else ""
        self._forget(running)
        if text:
            self._say(f"hook {running.event}: {self._commands[running.event][0]} cannot be started: {text}")
        elif code:
            how = f"exited with {code}" if code > 0 else f"was ended by {_signal_name(-code)}"
            self._say(f"hook {running.event}: {self._commands[running.event][0]} {how}")

    def _kill(self, running: _Command) -> None:
        """End a command with its process group. It was not waited for, so its number is nobody else's."""
        with suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        self._killed.append(running.process)
        self._forget(running)

    def _forget(self, running: _Command) -> None:
        if running.pidfd >= 0:
            os.close(running.pidfd)
        running.bond.close()
        self._running = None


def _said(bond: socket.socket) -> str:
    """Return what a watcher said of a command that it could not start."""
    try:
        return bond.recv(4096).decode(errors="replace")
    except OSError:
        return ""


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
