"""What a shell is to a program on a terminal: the leader of the session, with one job in the foreground.

    python job_shell.py REPORT COMMAND…

The terminal is our stdin. Lines in REPORT: `pid N`, `stopped`, `continued`, `exit N` (below 0: the signal). A stopped
job goes on at SIGUSR1, with the terminal, or at SIGUSR2, in the background.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
from pathlib import Path

ORDERS = {signal.SIGUSR1, signal.SIGUSR2}


def main(report: Path, command: list[str]) -> None:
    """Run the job to its end."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGTTOU, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, ORDERS)

    def say(line: str) -> None:
        with report.open("a", encoding="ascii") as file:
            file.write(f"{line}\n")

    def foreground(group: int) -> None:
        try:
            os.tcsetpgrp(0, group)
        except OSError:  # the terminal is gone
            return

    defaulted = (signal.SIGTTOU, signal.SIGHUP, signal.SIGINT)
    job = os.posix_spawn(command[0], command, os.environ, setpgroup=0, setsigmask=(), setsigdef=defaulted)
    foreground(job)
    say(f"pid {job}")
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            say(f"exit {os.waitstatus_to_exitcode(status)}")
            return
        foreground(os.getpgrp())
        say("stopped")
        if signal.sigwait(ORDERS) == signal.SIGUSR1:
            foreground(job)
        os.killpg(job, signal.SIGCONT)
        say("continued")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
