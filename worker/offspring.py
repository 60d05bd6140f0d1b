"""The tree of an attempt, as its worker reaps, sees and signals it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial

from bus.process import HAVE_PROC, children, is_shortage
from worker import tree
from worker.words import Event, Exited, Process, TreeSeen

CHASES = 200
"""How often, one right after the other, children are looked for that live too shortly to be found otherwise."""


class Offspring:
    """The process of the current step, and whatever came of it and of the steps before."""

    def __init__(self, keeps: Callable[[str], bool]) -> None:
        """`keeps` tells by its name whether policy lets a process live on."""
        self.pid = 0
        """Of the current step's own process, which leads its process group; set by whoever starts it."""
        self.reaped = False
        """Whether that one has ended and was reaped; to be set to False with a new `pid`."""
        self._end: Exited | None = None
        self._keeps = keeps
        self._signalled: set[tuple[int, int]] = set()
        """Pid and signal of who was signalled: many programs take a second TERM for impatience."""

    def reap(self) -> bool:
        """Reap all children that ended; True where there are none left, which proves that the tree is empty."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.pid and not self.reaped:
                self.reaped = True
                code = os.waitstatus_to_exitcode(status)
                self._end = Exited(code, None) if code >= 0 else Exited(None, -code)

    def take_end(self) -> list[Event]:
        """Tell once how the step's own process ended; nothing before it was reaped."""
        end, self._end = self._end, None
        return [] if end is None else [end]

    def look(self) -> TreeSeen:
        """Return the living processes, from two passes: one may miss whoever forks meanwhile. Raises OSError and
        MemoryError for a shortage.

        That none was seen proves nothing: who forks and ends all the time is another one by then. The kernel knows.
        """
        found: dict[int, Process] = {}
        for _ in range(2):
            if self.reap() and HAVE_PROC:
                return TreeSeen(())
            for info in tree.look_at_tree(os.getpid(), self.pid):
                found[info.pid] = Process(info.pid, info.name)
        return TreeSeen(tuple(found.values()), hidden=HAVE_PROC and not found and not self.reap())

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the process group of the step."""
        if not self.reaped:
            tree.signal_group(self.pid, number)

    def signal_all(self, number: signal.Signals) -> bool:
        """Signal everybody whom policy does not keep. False where we cannot see whom: the step's own process, which is
        ours to signal at least, is the only one then."""
        if number == signal.SIGKILL:
            self._chase()
        try:
            for info in tree.look_at_tree(os.getpid(), self.pid):
                if info.pid == self.pid or not self._keeps(info.name):
                    self._signal_once(info.pid, number, partial(tree.signal_processes, [info]))
        except (OSError, MemoryError) as error:
            if not is_shortage(error):
                raise
            if not self.reaped:
                self._signal_once(self.pid, number, partial(tree.signal_child, self.pid))
            return False
        return True

    def _chase(self) -> None:
        """KILL our own children as soon as we know of them, a bounded number of times: who forks and ends all the time
        has another pid when all processes have been read. Whose parent ends becomes our child, and its pid is its own
        until we reap it."""
        for _ in range(CHASES):
            prey = [pid for pid in children(os.getpid()) if not self._keeps(tree.name_of(pid))]
            for pid in prey:
                tree.signal_child(pid, signal.SIGKILL)
            if not prey or self.reap():
                return

    def _signal_once(self, pid: int, number: signal.Signals, send: Callable[[signal.Signals], None]) -> None:
        """KILL can be sent as often as we like."""
        if number == signal.SIGKILL or (pid, number) not in self._signalled:
            send(number)
            self._signalled.add((pid, number))
