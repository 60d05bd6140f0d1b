"""The command of a task in a kill storm: records that it began, works, records that it ended.

    task.py LEDGER SECONDS SHAPE

The task's own file in LEDGER gets a line for each event: `begin ATTEMPT PID TICKS`, `beside ATTEMPT PID TICKS` for
another process of it, `end ATTEMPT`, and `overlap ATTEMPT OTHER` where a process of another attempt of the task still
lives. One line is one write with O_APPEND, so a kill leaves it whole or not at all. SHAPE says what else lives while it
works: `alone`, `child` (in its group) or `session` (in a session of its own).
"""

import os
import select
import sys
import urllib.parse


def ticks(pid: int) -> str:
    """When a living process started, in clock ticks since boot; empty where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


class Ledger:
    """The file of this task."""

    def __init__(self, folder: str, task: str) -> None:
        self._path = os.path.join(folder, urllib.parse.quote(task, safe=""))
        self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def note(self, *words: object) -> None:
        """Append one line."""
        os.write(self._fd, (" ".join(map(str, words)) + "\n").encode())

    def begin(self, attempt: str) -> None:
        """Record that this process works for the attempt, and who of another attempt still lives."""
        others = [line.split() for line in os.pread(self._fd, 1 << 20, 0).decode().splitlines()]
        for word, other, *identity in others:
            if word in ("begin", "beside") and other != attempt and ticks(int(identity[0])) == identity[1]:
                self.note("overlap", attempt, other)
        self.note("begin", attempt, os.getpid(), ticks(os.getpid()))


def beside(shape: str, ledger: Ledger, attempt: str) -> int:
    """Start what lives beside the command; its pid, 0 for nothing. It works until it is killed."""
    pid = 0 if shape == "alone" else os.fork()
    if shape != "alone" and pid == 0:
        if shape == "session":
            os.setsid()
        ledger.note("beside", attempt, os.getpid(), ticks(os.getpid()))
        select.select([], [], [], 600)
        os._exit(0)
    return pid


def main() -> None:
    """Record, work, record."""
    folder, seconds, shape = sys.argv[1:]
    attempt = os.environ["CONDUCTOR_ATTEMPT"]
    ledger = Ledger(folder, os.environ["CONDUCTOR_TASK_ID"])
    ledger.begin(attempt)
    child = beside(shape, ledger, attempt)
    select.select([], [], [], float(seconds))
    if child:
        os.kill(child, 9)
        os.waitpid(child, 0)
    ledger.note("end", attempt)


if __name__ == "__main__":
    main()
