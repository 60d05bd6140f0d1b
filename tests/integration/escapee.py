"""A command that will not go: four processes that ignore signals, leave session and parent, and close everything.

    escapee.py PIDS [--leave]

Each process appends its pid to PIDS. With --leave the first one ends with exit code 0 and leaves the others behind.
"""

import os
import select
import signal
import sys


def note() -> None:
    """Append our pid."""
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)


def stay() -> None:
    """Hold on for a minute, without any descriptor."""
    note()
    os.closerange(0, 1024)
    select.select([], [], [], 60)
    os._exit(0)


def main() -> None:
    """Spread out."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        stay()
    if os.fork() == 0:
        os.setsid()
        stay()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setpgid(0, 0)
            stay()
        os._exit(0)
    if "--leave" in sys.argv:
        note()
        while len(open(sys.argv[1], "rb").readlines()) < 4:  # noqa: SIM115
            select.select([], [], [], 0.01)
        sys.exit(0)
    stay()


if __name__ == "__main__":
    main()
