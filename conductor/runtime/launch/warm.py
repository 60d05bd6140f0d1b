"""The conductor's side of the warm process (`worker.warm`): starts it, sends orders, reads answers."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import sys
from collections import deque
from dataclasses import dataclass

import conductor_bus_start
from bus.process import is_shortage
from bus.wire import AttemptId, WorkerSpec, dumps, to_json

LAST_WAIT = 2.0
"""Seconds that a warm process may take to end after its socket was closed; then it is killed (workers live on)."""

KILLED_WAIT = 2.0
"""Seconds within which a killed one has gone, unless the kernel itself is held up."""

FULL_WAIT = 10.0
"""Seconds that a warm process may let a full socket stand. It reads an order within a millisecond."""

_CHUNK = 1 << 16
_FDS = 64
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an order."""

    attempt: AttemptId
    pid: int
    """0 where no worker could be made."""
    pidfd: int
    """The reader's to close; -1 where there is none, or where we had no descriptor left to receive it with."""
    error: str | None
    shortage: bool = False
    """Whether the same order may work a moment later."""


class WarmProcess:
    """A running warm process. `alive` is False once it takes no more orders; it is not started again by itself."""

    def __init__(self, open_files: int | None = None) -> None:
        """`open_files` is the soft limit that commands get back; None where ours was not changed."""
        ours, theirs = socket.socketpair()
        try:
            theirs.set_inheritable(True)
            start = os.path.join(conductor_bus_start.HOME, "conductor_bus_start.py")
            arguments = [start, conductor_bus_start.WARM_PROCESS, str(theirs.fileno())]
            if open_files is not None:
                arguments.append(str(open_files))
            self.pid = _spawn([sys.executable, "-E", "-P", "-S", *arguments])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._socket = ours
        self._rest = b""
        self.pidfds: deque[int] = deque()
        self._read: list[Answer] = []
        self.alive = True

    @property
    def fd(self) -> int:
        """Readable when there is an answer, or when the warm process is gone."""
        return self._socket.fileno()

    def send(self, spec: WorkerSpec, live: int) -> None:
        """Send an order with the descriptor of its lock. Raises OSError where the warm process is gone or hangs, and
        where this machine ran short of something (`bus.process.is_shortage`)."""
        data = memoryview(dumps(to_json(spec)).encode() + b"\n")
        fds = [live]
        while data:
            try:
                sent = socket.send_fds(self._socket, [data], fds)
            except BlockingIOError:
                if not self._wait():
                    self.alive = False
                    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
                continue
            except OSError as error:
                self.alive = bool(fds) and is_shortage(error)  # nothing of the order was sent
                raise
            data, fds = data[sent:], []

    def answers(self) -> list[Answer]:
        """Return the answers that came since the last call."""
        self._receive()
        found, self._read = self._read, []
        return found

    def close(self) -> None:
        """Close the connection, upon which the warm process ends, and reap it."""
        self.alive = False
        self._socket.close()
        while self.pidfds:
            if (fd := self.pidfds.popleft()) >= 0:
                os.close(fd)
        if self.pid and _ends_within(self.pid, LAST_WAIT):
            self.pid = 0
        self.kill()

    def kill(self) -> bool:
        """End it without delay; True once it is gone, so that no order is carried out any more. Workers live on.

        What it answered before can still be read.
        """
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)  # it was not reaped, so the pid is its own
            if not _ends_within(self.pid, KILLED_WAIT):
                return False
            self.pid = 0
        self._receive()
        self.alive = False
        return True

    def _wait(self) -> bool:
        """Wait until the socket takes more; answers are read meanwhile, or both sides would wait for each other."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | select.POLLOUT)
        ready = poller.poll(FULL_WAIT * 1000)
        self._receive()
        return bool(ready)

    def _receive(self) -> None:
        while self.alive:
            try:
                data, fds, flags, _ = socket.recv_fds(
                    self._socket, _CHUNK, _FDS, getattr(socket, "MSG_CMSG_CLOEXEC", 0)
                )
            except BlockingIOError:
                return
            except OSError:
                self.alive = False
                return
            for fd in fds:
                os.set_inheritable(fd, False)
            self.pidfds.extend(fds)
            if flags & socket.MSG_CTRUNC:  # the one that came with these bytes; a read never takes more than one
                self.pidfds.append(-1)
            if not data:
                self.alive = False
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._read.extend(map(self._answer, lines))

    def _answer(self, line: bytes) -> Answer:
        data = json.loads(line)
        pidfd = self.pidfds.popleft() if data.get("pidfd") else -1
        return Answer(data["attempt"], data.get("pid", 0), pidfd, data.get("error"), data.get("shortage", False))


def _spawn(argv: list[str]) -> int:
    """Start a process that is in a session of its own from the start, so that no Ctrl-C meets it."""
    try:
        return os.posix_spawn(argv[0], argv, os.environ, setsid=True)
    except NotImplementedError:  # older macOS: it makes its session itself, a moment later
        return os.posix_spawn(argv[0], argv, os.environ)


def _ends_within(pid: int, seconds: float) -> bool:
    """Reap a child that should be about to end; False where it does not."""
    pause, waited = 0.001, 0.0
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if waited >= seconds:
            return False
        select.select((), (), (), pause)
        waited += pause
        pause = min(pause * 2, 0.1)
    return True
