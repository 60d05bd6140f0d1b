"""1,000 independent no-op commands, five at a time: conductor against make, GNU parallel and a bare spawn loop."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import Contender, count_system_calls, interleaved, median

COUNT = 1000
HERE = Path(__file__).parent
START = HERE.parent.parent / "conductor_bus_start.py"
TRUE = shutil.which("true") or "/bin/true"


def conductor(durability: str) -> Contender:
    """Our own program on a track of tasks without dependencies."""

    def prepare(folder: Path) -> Sequence[str]:
        nodes = "".join(f'    - {{id: "{n}", name: "no-op {n}", run: ["{TRUE}"]}}\n' for n in range(COUNT))
        (folder / "plan.md").write_text(f"# wide\n\n```yaml\ndag:\n  project: .\n  nodes:\n{nodes}```\n")
        command = ["run", str(folder), "--durability", durability, "--quiet", "--max-workers", "5"]
        return [sys.executable, "-E", "-P", str(START), *command]

    return prepare


def make(folder: Path) -> Sequence[str]:
    """`make -j5` with one phony target for each command."""
    names = " ".join(f"t{n}" for n in range(COUNT))
    (folder / "Makefile").write_text(f".PHONY: all {names}\nall: {names}\n{names}:\n\t@{TRUE}\n")
    return [shutil.which("make") or "make", "-C", str(folder), "-s", "-j5"]


def parallel(folder: Path) -> Sequence[str]:
    """GNU parallel with five jobs."""
    (folder / "list").write_text("".join(f"{n}\n" for n in range(COUNT)))
    return [shutil.which("parallel") or "parallel", "-j5", "-a", str(folder / "list"), TRUE]


def spawn_loop(_: Path) -> Sequence[str]:
    """The floor."""
    return [sys.executable, "-E", "-S", str(HERE / "spawn_loop.py"), str(COUNT), TRUE]


def main(runs: int) -> dict[str, Any]:
    """Measure, print the table, return the figures."""
    contenders: dict[str, Contender] = {
        "make -j5": make,
        "spawn loop": spawn_loop,
        "conductor process": conductor("process"),
        "conductor power": conductor("power"),
    }
    if shutil.which("make") is None:
        raise SystemExit("make is not installed, and ratios are against it")
    if shutil.which("parallel"):
        contenders["GNU parallel"] = parallel
    else:
        print("GNU parallel is not installed: left out")
    results = interleaved(contenders, runs)
    base = median(results["make -j5"][0])
    figures: dict[str, Any] = {}
    print(f"wide: {COUNT} no-op commands, five at a time, medians of {runs}")
    columns = {
        "wall s": 8,
        "× make": 8,
        "cpu s": 8,
        "× make cpu": 12,
        "peak MiB": 10,
        "inodes/task": 13,
        "syscalls/task": 15,
    }
    print(" " * 20 + "".join(f"{name:>{width}}" for name, width in columns.items()))
    for name, (costs, inodes) in results.items():
        cost = median(costs)
        calls = _system_calls(contenders[name])
        figures[name] = {
            "wall": cost.wall,
            "wall_ratio": cost.wall / base.wall,
            "cpu": cost.cpu,
            "cpu_ratio": cost.cpu / base.cpu,
            "peak_mib": cost.peak_mib,
            "inodes_per_task": inodes / COUNT,
            "system_calls_per_task": calls and calls / COUNT,
        }
        print(
            f"{name:20}{cost.wall:8.2f}{cost.wall / base.wall:8.1f}{cost.cpu:8.2f}{cost.cpu / base.cpu:12.1f}"
            f"{cost.peak_mib:10.0f}{inodes / COUNT:13.1f}{calls / COUNT if calls else float('nan'):15.0f}"
        )
    print()
    return figures


def _system_calls(contender: Contender) -> int | None:
    with tempfile.TemporaryDirectory(prefix="conductor-bench-") as folder:
        return count_system_calls(contender(Path(folder)), Path(folder))
