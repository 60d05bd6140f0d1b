"""The program on a real terminal: a pty, a session, a job in the foreground."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.integration.tools import EVERY_RUN, START, Project, Running, wait_for

JOB_SHELL = Path(__file__).with_name("job_shell.py")


class Terminal:
    """A terminal with one command of the program on it."""

    def __init__(
        self,
        project: Project,
        *arguments: str,
        columns: int = 80,
        lines: int = 24,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._before = termios.tcgetattr(self._slave)
        self._report = project.root / f"report-{len(project.started)}"
        self._written = bytearray()
        command = [sys.executable, "-I", "-S", str(JOB_SHELL), str(self._report)]
        self._shell = subprocess.Popen(
            [*command, sys.executable, "-E", "-P", str(START), *arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=project.dir,
            env={**project.environment(env), "TERM": "xterm-256color"},
            start_new_session=True,
        )
        project.started.append(Running(self._shell, self._report, self._report))
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = int(wait_for(lambda: self._said("pid"), "the start of the job"))

    def type(self, keys: str) -> None:
        """Press keys: `^C` is one of them."""
        os.write(self._master, keys.replace("^C", "\x03").replace("^Z", "\x1a").encode())

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        os.kill(self.pid, number)

    def wait_stopped(self) -> None:
        """Wait until the program was suspended."""
        wait_for(lambda: "stopped" in self._lines(), "the stop of the job")

    def foreground(self) -> None:
        """`fg`."""
        self._go_on(signal.SIGUSR1)

    def background(self) -> None:
        """`bg`."""
        self._go_on(signal.SIGUSR2)

    def _go_on(self, order: signal.Signals) -> None:
        self._shell.send_signal(order)
        wait_for(lambda: "continued" in self._lines(), "the job going on")

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = -1

    def finish(self) -> int:
        """Wait for the end of the program; return its exit code, below 0 for a signal."""
        code = int(wait_for(lambda: self._said("exit"), "the end of the job"))
        self._shell.wait()
        return code

    def written(self) -> str:
        """What came on the screen so far."""
        return self._written.decode(errors="replace")

    def wait_written(self, text: str, *, behind: int = 0) -> None:
        """Wait until something comes on the screen."""
        wait_for(lambda: text in self.written()[behind:], f"{text!r} on the screen")

    def check_clean(self) -> None:
        """Check that the terminal is as it was: modes, cursor, screen."""
        assert termios.tcgetattr(self._slave) == self._before
        # The program may be done, or stand still, before we have read what it wrote.
        wait_for(self._shows_cursor, "the cursor being shown")
        written = self.written()
        assert written.count("\x1b[?1049h") == written.count("\x1b[?1049l"), "the other screen was left on"
        assert "Traceback" not in written

    def _shows_cursor(self) -> bool:
        written = self.written()
        return written.rfind("\x1b[?25h") >= written.rfind("\x1b[?25l")

    def close(self) -> None:
        """Put it away."""
        if self._master >= 0:
            self.hang_up()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:  # closed
                return
            if not data:
                return
            self._written += data

    def _lines(self) -> list[str]:
        return self._report.read_text(encoding="ascii").splitlines() if self._report.exists() else []

    def _said(self, word: str) -> str | None:
        return next((line.split()[1] for line in self._lines() if line.startswith(f"{word} ")), None)


def start_run(project: Project, *options: str, columns: int = 80, lines: int = 24) -> Terminal:
    """`conductor run` of the track on a terminal."""
    return Terminal(project, "run", str(project.track), *options, *EVERY_RUN, columns=columns, lines=lines)
