"""The processes of an attempt, seen from the worker that is their ancestor.

On Linux the worker is a subreaper: whoever loses its parent becomes the worker's own child, whatever session it made,
however often it forked. So its descendants are the whole tree, and a wait that says "no children" proves that the tree
is empty. Without a subreaper (macOS) only the process group of the step is seen: what left it is not found there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

from bus.process import HAVE_CHILDREN, HAVE_PROC, ProcessInfo, all_processes, family, send_signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Bonds:
    """How the kernel ties a process to its parent and its children; nothing where the system has no such ties.

    The system call is looked up once, in the warm process: ctypes costs milliseconds.
    """

    def __init__(self) -> None:
        self._prctl: Callable[..., int] = lambda *_: -1
        try:
            import ctypes

            self._prctl = ctypes.CDLL(None, use_errno=False).prctl
        except (ImportError, OSError, AttributeError):  # not Linux
            return

    def become_subreaper(self) -> bool:
        """Adopt whoever loses its parent below us; tell whether that works."""
        return self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

    def end_with_parent(self) -> bool:
        """Have the kernel KILL us once the thread that started us has ended; tell whether that works.

        That ends a suspended process as well, which reads no end of file. Children do not inherit it.
        """
        return self._prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0


def descendants(root: int, processes: Iterable[ProcessInfo]) -> list[ProcessInfo]:
    """Return those of `processes` that come from `root` and are not dead yet, `root` left out."""
    children: dict[int, list[ProcessInfo]] = {}
    for info in processes:
        children.setdefault(info.parent, []).append(info)
    found: list[ProcessInfo] = []
    parents = [root]
    while parents:
        offspring = children.pop(parents.pop(), [])
        found.extend(info for info in offspring if not info.dead)
        parents.extend(info.pid for info in offspring)
    return found


def look_at_tree(root: int, group: int) -> list[ProcessInfo]:
    """Return the living processes below `root`. Without /proc: one entry for the process group, if it has members."""
    if HAVE_PROC:
        return descendants(root, all_processes())
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [ProcessInfo(group, "", "?", root, group, root, 0)]


def name_of(pid: int) -> str:
    """Return the name of a process; empty where it is gone, and where it cannot be read now."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except (OSError, MemoryError):
        return ""


def processor_time(root: int) -> float:
    """Return the seconds of processor time that the living processes below `root`, and what they reaped, have used."""
    ticks = sum(info.cpu_ticks for info in _below(root))
    return ticks / os.sysconf("SC_CLK_TCK")


def suspended(root: int) -> list[ProcessInfo]:
    """Return the processes below `root` that stand still: SIGSTOP, Ctrl-Z, a debugger."""
    return [info for info in _below(root) if info.suspended] if HAVE_PROC else []


def _below(root: int) -> list[ProcessInfo]:
    return list(family(root) if HAVE_CHILDREN else descendants(root, all_processes()))


def signal_processes(processes: Iterable[ProcessInfo], number: signal.Signals) -> None:
    """Signal each process, its identity being compared first; those of another user are left to the next look."""
    for info in processes:
        try:
            if HAVE_PROC:
                send_signal(info.pid, info.start_ticks, number)
            else:
                signal_group(info.group, number)
        except PermissionError:
            continue


def signal_child(pid: int, number: signal.Signals) -> None:
    """Signal a child that we have not reaped yet (so its pid is its own): that takes no look at it."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal a process group whose leader we have not reaped yet (so its id is its own)."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return
