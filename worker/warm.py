"""The warm process: forks a worker for each order, so that none of them pays for starting an interpreter.

It is single-threaded, leads its own session (a Ctrl-C at the terminal does not reach it or its workers), stands in `/`
and holds nothing but its socket. An order is one line, the JSON of a `WorkerSpec`, with the descriptor of the attempt's
`live` lock attached. The answer is one line too: `{"attempt", "pid", "pidfd": true}` with a pidfd attached, or
`{"attempt", "error", "shortage"}`, where the last says whether the same order may work a moment later. It ends when its
socket is closed; workers live on.

On Linux the kernel also KILLs it with its conductor: one that is suspended then would keep the locks of the orders that
it has not read, and with them attempts that have no worker. They are free at once so, and the next conductor sees that
nothing was started.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import socket
from collections import deque
from collections.abc import Iterator

from bus.hand import open_hand
from bus.layout import attempt_dir
from bus.process import HAVE_PIDFD, is_shortage, realm
from bus.wire import WorkerSpec, dumps, spec_from_json
from worker.handing_in import patiently, wait
from worker.runner import Origin, run
from worker.signals import Signals
from worker.tree import Bonds

WORKER_BROKE = 70
"""Exit code of a worker that met an error of its own; `worker.err` in the attempt's folder says which."""

_HELD_BACK = (signal.SIGCHLD, signal.SIGTERM)

_CHUNK = 1 << 18
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def serve(arguments: list[str]) -> int:
    """Run until the socket, whose descriptor is the first argument, is closed at the other side.

    A second argument is the soft limit of descriptors that commands get: the conductor has raised its own, and ours.
    """
    channel = socket.socket(fileno=int(arguments[0]))
    _detach(channel.fileno())
    bonds = Bonds()
    bonds.end_with_parent()
    bonds.become_subreaper()
    origin = Origin(realm(), dict(os.environ), os.umask(0o077), int(arguments[1]) if arguments[1:] else None)
    signal.signal(signal.SIGCHLD, _reap)
    gc.collect()
    gc.freeze()
    gc.disable()
    for order, live in _orders(channel):
        answer, pidfd = fork_worker(order, live, channel, origin, bonds)
        try:
            socket.send_fds(channel, [dumps(answer).encode() + b"\n"], [pidfd] if pidfd >= 0 else [])
        except OSError:  # the conductor left; the worker lives on
            return 0
        finally:
            if pidfd >= 0:
                os.close(pidfd)
    return 0


def _detach(channel: int) -> None:
    """Hold on to nothing that we were started with: terminal, folder, descriptors."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, channel)
    os.closerange(channel + 1, max(os.sysconf("SC_OPEN_MAX"), 1 << 16))
    os.set_inheritable(channel, False)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _orders(channel: socket.socket) -> Iterator[tuple[bytes, int]]:
    """Yield each order and its descriptor until the other side closes."""
    lines: deque[bytes] = deque()
    lives: deque[int] = deque()
    rest = b""
    while True:
        try:
            data, fds, flags, _ = socket.recv_fds(channel, _CHUNK, 16, _CLOEXEC)
        except ConnectionResetError:
            return
        for fd in fds:
            os.set_inheritable(fd, False)
            lives.append(fd)
        if flags & socket.MSG_CTRUNC:  # we had no descriptor left for the one that came with these bytes
            lives.append(-1)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        lines.extend(whole)
        while lines:
            yield lines.popleft(), lives.popleft()


def fork_worker(
    order: bytes, live: int, channel: socket.socket, origin: Origin, bonds: Bonds
) -> tuple[dict[str, object], int]:
    """Make a worker; return the answer and its pidfd (-1 without). Closes our copy of `live`; -1 is one that we had no
    descriptor for."""
    spec = spec_from_json(json.loads(order))
    if live < 0:
        return _refusal(spec, OSError(errno.EMFILE, os.strerror(errno.EMFILE))), -1
    # No child is reaped between its fork and its pidfd, so the pidfd is surely the child's; no TERM meets a child
    # before it can take it as a stop.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        pid = os.fork()  # noqa: TID251  (nothing here can start a thread, see tests/unit/test_start_module.py)
        if pid == 0:
            channel.close()
            os._exit(_work(spec, origin, bonds))
        pidfd = _pidfd(pid)
    except OSError as error:
        return _refusal(spec, error), -1
    finally:
        os.close(live)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_BACK)
    return {"attempt": spec.attempt, "pid": pid, "pidfd": pidfd >= 0}, pidfd


def _refusal(spec: WorkerSpec, error: OSError) -> dict[str, object]:
    return {"attempt": spec.attempt, "error": f"fork: {error.strerror}", "shortage": is_shortage(error)}


def _pidfd(pid: int) -> int:
    """Return a pidfd of a child that was not reaped; -1 where there is no descriptor for it: the child lives anyway."""
    try:
        return os.pidfd_open(pid) if HAVE_PIDFD else -1
    except OSError:
        return -1


def _work(spec: WorkerSpec, origin: Origin, bonds: Bonds) -> int:
    """Be the worker of `spec`; holds the lock `live` by having inherited it.

    For what this machine is short of it waits; told to stop meanwhile it ends at once, as it has begun nothing.
    """
    try:
        os.setsid()
        bonds.become_subreaper()
        hand = patiently(lambda: open_hand(spec.bus, spec.attempt), _wait_unless_stopped)
        signals = patiently(Signals, _wait_unless_stopped)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return run(spec, hand, origin, signals)
    except _ToldToStop:
        return 0
    except BaseException:
        _say_broken(spec)
        return WORKER_BROKE


class _ToldToStop(Exception):
    """TERM came before anything was begun."""


def _wait_unless_stopped(seconds: float) -> None:
    """Wait while TERM is held back. Raises _ToldToStop as soon as it comes."""
    if not hasattr(signal, "sigtimedwait"):  # macOS
        wait(seconds)
    elif signal.sigtimedwait((signal.SIGTERM,), seconds) is not None:
        raise _ToldToStop


def _say_broken(spec: WorkerSpec) -> None:
    """Leave the traceback of the exception that is being handled where people can find it."""
    import traceback  # only ever needed here

    path = os.path.join(spec.bus, attempt_dir(spec.attempt), "worker.err")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        with os.fdopen(fd, "w") as file:
            traceback.print_exc(file=file)
    except OSError:
        return


def _reap(number: int, frame: object) -> None:
    """Reap ended workers, and whoever lost its own parent to us."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return
