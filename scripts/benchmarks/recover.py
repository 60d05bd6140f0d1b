"""Starting on an old track: 100,000 finished tasks, a million records, a conductor that went without a word."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import old_track

TASKS = 100_000
PROGRESS = 6
"""Reports of progress for each task: four records and these make a million."""

START = [sys.executable, "-E", "-P", str(Path(__file__).parent.parent.parent / "conductor_bus_start.py")]

PARSER = """
import json, pathlib, sys
for name in sorted(pathlib.Path(sys.argv[1]).glob("segments/*.jsonl")) + [pathlib.Path(sys.argv[1], "queue.jsonl")]:
    for line in name.open("rb"):
        json.loads(line)
"""

REPLAY = """
import sys
sys.path.insert(0, sys.argv[2])
from bus.reader import open_reader
from conductor.runtime.replay import Replayed
open_reader(sys.argv[1]).follow(Replayed(), whole=True)
"""


def main(runs: int) -> dict[str, Any]:
    """Make the track, measure, print, return the figures."""
    runs = min(runs, 3)
    with tempfile.TemporaryDirectory(prefix="conductor-bench-") as folder:
        track = Path(folder)
        began = time.perf_counter()
        records = old_track.make(track, TASKS, unfinished=10, progress=PROGRESS)
        bus = track / ".message-bus"
        size = sum(path.stat().st_size for path in (*bus.glob("segments/*"), bus / "queue.jsonl"))
        print(
            f"recover: {TASKS} tasks, {records} records, {size / 1e6:.0f} MB of journal, "
            f"made in {time.perf_counter() - began:.0f} s; medians of {runs}"
        )
        root = str(Path(__file__).parent.parent.parent)
        works = {
            "JSON parser alone, all lines": [sys.executable, "-c", PARSER, str(bus)],
            "full replay": [sys.executable, "-c", REPLAY, str(bus), root],
            "status, from the snapshot": [*START, "status", folder],
        }
        times = {name: [_seconds(argv) for _ in range(runs)] for name, argv in works.items()}
        # Once: it works off what is left, and the run is over.
        times["run, to its first record"], times["run, to its end"] = _run([*START, "run", folder, "--json"])
        return _table(times)


def _seconds(argv: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _run(argv: Sequence[str]) -> tuple[list[float], list[float]]:
    """Seconds from the start of a run until it has recovered, which is what its first record says, and to its end."""
    began = time.perf_counter()
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        recovered = time.perf_counter() - began
        if b'"RUN_RESUMED"' not in first:
            raise SystemExit(f"this run did not go on with the one before: {first!r}")
        for _ in process.stdout:
            pass
    return [recovered], [time.perf_counter() - began]


def _table(times: dict[str, list[float]]) -> dict[str, Any]:
    base = statistics.median(next(iter(times.values())))
    figures = {}
    for name, values in times.items():
        value = statistics.median(values)
        figures[name] = {"seconds": value, "ratio": value / base}
        print(f"{name:40}{value:8.2f} s{value / base:8.2f} × the parser alone")
    print()
    return figures
