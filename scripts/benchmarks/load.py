"""A plan of 100,000 tasks: read, validated, frozen and thawed, against the bare YAML parser on the same text."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import yaml

from conductor.plan import frozen, loads

COUNT = 100_000


def plan_text() -> str:
    """Layers of ten, each task with a file of its own and a dependency on the layer before."""
    nodes = []
    for n in range(COUNT):
        depends = f'"{n - 10}"' if n >= 10 else ""
        nodes.append(
            f'    - id: "{n}"\n      name: "Task number {n}"\n      type: code\n      files: ["src/f{n}.py"]\n'
            f'      depends_on: [{depends}]\n      run: ["true"]\n'
        )
    return "```yaml\ndag:\n  nodes:\n" + "".join(nodes) + "```\n"


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main(runs: int) -> dict[str, Any]:
    """Measure, print, return the figures."""
    text = plan_text()
    block = text.removeprefix("```yaml\n").removesuffix("```\n")
    plan = loads(text)
    body = frozen.dump(plan)
    works: dict[str, Callable[[], object]] = {
        "YAML events alone": lambda: sum(1 for _ in yaml.parse(block, Loader=yaml.CSafeLoader)),
        "read and validate": lambda: loads(text),
        "freeze": lambda: frozen.dump(plan),
        "thaw": lambda: frozen.parse(body),
    }
    times = {name: [] for name in works}
    for _ in range(min(runs, 3)):
        for name, work in works.items():
            times[name].append(seconds(work))
    base = statistics.median(times["YAML events alone"])
    print(f"load: {COUNT} tasks, {len(text) / 1e6:.1f} MB, medians of {min(runs, 3)}")
    figures = {}
    for name, values in times.items():
        value = statistics.median(values)
        figures[name] = {"seconds": value, "ratio": value / base}
        print(f"{name:20}{value:8.2f} s{value / base:8.1f} × the parser alone")
    print()
    return figures
