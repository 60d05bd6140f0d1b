"""Starts conductors and kills them, and workers, their commands and whole sessions besides, by a seeded chance."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from world import World

from bus.process import ProcessInfo, look, send_signal

SHORTEST_LIFE, LONGEST_LIFE = 0.2, 2.0
"""Seconds that a conductor lives."""

VICTIMS = ("worker", "command", "session", "warm")


def now() -> float:
    """The clock of the journal's time stamps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class Life:
    """One conductor from its start to its end."""

    began: float
    """On the clock of the journal."""
    ended: float = 0.0
    code: int = 0
    descriptors: int = 0
    """Open at the last look."""


class Killer:
    """Runs `conductor run` again and again."""

    def __init__(self, world: World, command: Sequence[str], chance: random.Random) -> None:
        self.lives: list[Life] = []
        self.kills: Counter[str] = Counter()
        self._world = world
        self._command = command
        self._chance = chance

    def storm(self, seconds: float) -> bool:
        """Kill for so long; True where all was done before time was up."""
        until = now() + seconds
        while now() < until:
            length = min(self._chance.uniform(SHORTEST_LIFE, LONGEST_LIFE), until - now())
            if self._live(length, self._chance.random() < 0.5):
                return True
        return False

    def calm(self) -> None:
        """One more conductor, which is left alone."""
        self._live(None, False)

    def _live(self, length: float | None, hit: bool) -> bool:
        """Let a conductor live for so long, hitting somebody else halfway; True where it ended by itself."""
        life = Life(began=now())
        self.lives.append(life)
        with open(self._world.output, "ab") as output:
            conductor = subprocess.Popen(
                self._command,
                env=self._world.environment(),
                cwd=self._world.track.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        ended = False
        if length is None:
            while not ended:
                ended = _ends_within(conductor, 0.05)
                life.descriptors = max(life.descriptors, _descriptors(conductor.pid))
        else:
            ended = _ends_within(conductor, length / 2)
            if hit and not ended:
                self._hit(conductor.pid)
            ended = ended or _ends_within(conductor, length / 2)
            life.descriptors = _descriptors(conductor.pid)
            if not ended:
                self.kills["conductor"] += 1
                conductor.kill()
        life.code = conductor.wait()
        life.ended = now()
        reap()
        return ended

    def _hit(self, conductor: int) -> None:
        """Kill a worker, its command or its whole session, or the warm process."""
        kind = self._chance.choice(VICTIMS)
        mine = [info for pid in self._world.processes() if (info := look(pid)) and not info.dead]
        commands = [info for info in mine if _carries_attempt(info.pid)]
        warm = [info for info in mine if info.parent == conductor and info not in commands]
        if kind == "warm" or not commands:
            victims = warm
        else:
            chosen = self._chance.choice(sorted(commands, key=lambda info: info.pid))
            worker = [info for info in mine if info.pid == chosen.session and info not in commands]
            session = [info for info in mine if info.session == chosen.session]
            victims = {"worker": worker, "command": [chosen], "session": session}[kind]
        if victims:
            self.kills[kind if commands else "warm"] += 1
        for info in victims:
            _kill(info)


def reap() -> None:
    """Reap whoever lost its parent to us: we are the subreaper of the storm."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def _kill(info: ProcessInfo) -> None:
    send_signal(info.pid, info.start_ticks, signal.SIGKILL)


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    fd = os.pidfd_open(process.pid)
    try:
        return bool(select.select([fd], [], [], max(seconds, 0.0))[0])
    finally:
        os.close(fd)


def _carries_attempt(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0CONDUCTOR_ATTEMPT=" in b"\0" + file.read()
    except OSError:
        return False


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0
