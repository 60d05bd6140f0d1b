"""Runs a command as a whole process and tells what it cost, by the operating system's own accounting."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Contender = Callable[[Path], Sequence[str]]
"""Prepares a fresh folder and returns the command to run in it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One run. Seconds, and MiB of the largest single process."""

    wall: float
    cpu: float
    peak_mib: float


def run_once(argv: Sequence[str]) -> Cost:
    """Run a command that must succeed; CPU counts it and all children that were waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ],
    )
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    if status != 0:
        raise SystemExit(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, usage.ru_maxrss / 1024)


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(*(statistics.median(getattr(cost, name) for cost in costs) for name in ("wall", "cpu", "peak_mib")))


def interleaved(contenders: Mapping[str, Contender], runs: int) -> dict[str, tuple[list[Cost], int]]:
    """Run the contenders in turn, `runs` times after a warm-up; return their costs and the inodes that a run left."""
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    inodes: dict[str, int] = {}
    for turn in range(runs + 1):
        for name, prepare in contenders.items():
            folder = Path(tempfile.mkdtemp(prefix="conductor-bench-"))
            try:
                argv = prepare(folder)
                there = count_inodes(folder)
                cost = run_once(argv)
                inodes[name] = count_inodes(folder) - there
                if turn:
                    costs[name].append(cost)
            finally:
                shutil.rmtree(folder)
    return {name: (costs[name], inodes[name]) for name in contenders}


def count_inodes(folder: Path) -> int:
    """Count files and folders below `folder`; names that are one inode count once."""
    seen = set()
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            seen.add(os.lstat(os.path.join(base, name)).st_ino)
    return len(seen)


def count_system_calls(argv: Sequence[str], cwd: Path) -> int | None:
    """Count the system calls of a command and all its children with strace; None where there is no strace."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    with tempfile.NamedTemporaryFile(mode="r") as table:
        command = [strace, "-f", "-c", "-U", "calls,name", "-o", table.name, *argv]
        subprocess.run(command, cwd=cwd, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        totals = [line.split() for line in table if line.rstrip().endswith("total")]
    return int(totals[-1][0])
