"""Runs one command of `[hooks]` and ends it with its conductor: a program of its own, standard library only.

The conductor limits the time of its hooks, and may be killed. Then nobody would end the command: so this process, which
leads its session, holds one end of a pair of sockets, whose other end closes with the conductor.
"""

from __future__ import annotations

import os
import select
import signal
import sys

NOT_STARTED = 127
"""Exit code where the command could not be started; why is written to the socket."""


def main(arguments: list[str]) -> int:
    """Arguments: the descriptor of the socket, then the command. Return its exit code."""
    conductor, command = int(arguments[0]), arguments[1:]
    os.set_inheritable(conductor, False)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _on_child)
    try:
        pid = os.posix_spawnp(command[0], command, os.environ, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ))
    except (OSError, ValueError) as error:
        os.write(conductor, str(error).encode(errors="replace"))
        return NOT_STARTED
    while True:
        ready, _, _ = select.select((conductor, ended), (), ())
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return _like(status)
        if conductor in ready:  # it is gone
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os.read(ended, 64)


def _like(status: int) -> int:
    """End as the command did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status)


def _on_child(number: int, frame: object) -> None:
    """Nothing: a handler has to be there for the wake-up descriptor to be written."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
