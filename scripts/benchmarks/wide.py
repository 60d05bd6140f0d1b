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
BASE = "make -j5"
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
    """Measure, print the table, return the figures; each figure is followed by its ratio to make's."""
    contenders = _contenders()
    results = interleaved(contenders, runs)
    figures: dict[str, dict[str, float | None]] = {}
    for name, (costs, inodes) in results.items():
        cost = median(costs)
        calls = _system_calls(contenders[name])
        figures[name] = {
            "wall s": cost.wall,
            "cpu s": cost.cpu,
            "peak MiB": cost.peak_mib,
            "calls/task": None if calls is None else calls / COUNT,
            "inodes/task": inodes / COUNT,
        }
    print(f"wide: {COUNT} no-op commands, five at a time, medians of {runs}; × is the ratio to {BASE}")
    for line in _table(figures):
        print(line)
    print()
    return figures


def _contenders() -> dict[str, Contender]:
    if shutil.which("make") is None:
        raise SystemExit("make is not installed, and ratios are against it")
    found: dict[str, Contender] = {
        BASE: make,
        "spawn loop": spawn_loop,
        "conductor process": conductor("process"),
        "conductor power": conductor("power"),
    }
    if shutil.which("parallel"):
        found["GNU parallel"] = parallel
    else:
        print("GNU parallel is not installed: left out")
    return found


def _table(figures: dict[str, dict[str, float | None]]) -> list[str]:
    """Lay the figures out. What make does not have at all (kept inodes), or strace could not count, has no ratio."""
    base = figures[BASE]
    lines = [" " * 20 + "".join(f"{column:>12}{'×':>6}" for column in base)]
    for name, row in figures.items():
        cells = ""
        for column, value in row.items():
            reference = base[column]
            ratio = f"{value / reference:.1f}" if value is not None and reference else "-"
            cells += f"{'-' if value is None else f'{value:.2f}':>12}{ratio:>6}"
        lines.append(f"{name:20}{cells}")
    return lines


def _system_calls(contender: Contender) -> int | None:
    with tempfile.TemporaryDirectory(prefix="conductor-bench-") as folder:
        return count_system_calls(contender(Path(folder)), Path(folder))
