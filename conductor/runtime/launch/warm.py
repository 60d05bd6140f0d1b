"""The conductor's side of the warm process (`worker.warm`): starts it, sends orders, reads answers."""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from collections import deque
from dataclasses import dataclass

import conductor_bus_start
from bus.wire import AttemptId, WorkerSpec, dumps, to_json

_CHUNK = 1 << 16
_FDS = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an order."""

    attempt: AttemptId
    pid: int
    """0 where no worker could be made."""
    pidfd: int
    """The reader's to close; -1 where there is none."""
    error: str | None


class WarmProcess:
    """A running warm process. `alive` is False once it was seen to have gone; it is not started again by itself."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            theirs.set_inheritable(True)
            start = os.path.join(conductor_bus_start.HOME, "conductor_bus_start.py")
            arguments = [start, conductor_bus_start.WARM_PROCESS, str(theirs.fileno())]
            # posix_spawn rather than subprocess: nothing to import, and it leaves the session before it runs.
            argv = [sys.executable, "-E", "-P", "-S", *arguments]
            self.pid = os.posix_spawn(sys.executable, argv, os.environ, setsid=True)
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
        """Send an order with the descriptor of its lock. Raises OSError where the warm process is gone."""
        data = memoryview(dumps(to_json(spec)).encode() + b"\n")
        fds = [live]
        while data:
            try:
                sent = socket.send_fds(self._socket, [data], fds)
            except BlockingIOError:
                self._wait()
                continue
            except OSError:
                self.alive = False
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
            os.close(self.pidfds.popleft())
        if self.pid:
            os.waitpid(self.pid, 0)
            self.pid = 0

    def _wait(self) -> None:
        """Wait until the socket takes more; answers are read meanwhile, or both sides would wait for each other."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | select.POLLOUT)
        poller.poll()
        self._receive()

    def _receive(self) -> None:
        while self.alive:
            try:
                data, fds, _, _ = socket.recv_fds(self._socket, _CHUNK, _FDS, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
            except BlockingIOError:
                return
            except OSError:
                self.alive = False
                return
            for fd in fds:
                os.set_inheritable(fd, False)
            self.pidfds.extend(fds)
            if not data:
                self.alive = False
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._read.extend(map(self._answer, lines))

    def _answer(self, line: bytes) -> Answer:
        data = json.loads(line)
        pidfd = self.pidfds.popleft() if data.get("pidfd") else -1
        return Answer(data["attempt"], data.get("pid", 0), pidfd, data.get("error"))
