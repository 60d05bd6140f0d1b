"""Memory of the conductor, its warm process and its waiting workers on a small track: USS and PSS, in MiB."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

START = Path(__file__).parent.parent.parent / "conductor_bus_start.py"


def main(_: int) -> dict[str, Any]:
    """Start five waiting workers, look, end them; print and return the figures."""
    with tempfile.TemporaryDirectory(prefix="conductor-bench-") as folder:
        nodes = "".join(f'    - {{id: "{n}", name: "wait {n}", run: ["sleep", "60"]}}\n' for n in range(5))
        Path(folder, "plan.md").write_text(f"```yaml\ndag:\n  project: .\n  nodes:\n{nodes}```\n")
        conductor = subprocess.Popen(
            [sys.executable, "-E", "-P", str(START), "run", folder, "--quiet"], stdout=subprocess.DEVNULL
        )
        try:
            figures = _figures(_started(conductor.pid))
        finally:
            for _ in range(2):
                conductor.send_signal(signal.SIGINT)
                time.sleep(0.2)
            conductor.wait()
    print("memory: one conductor, five waiting workers (MiB)")
    for name, sizes in figures.items():
        print(f"{name:20}USS {sizes['uss']:6.1f}   PSS {sizes['pss']:6.1f}   RSS {sizes['rss']:6.1f}")
    print()
    return figures


def _started(pid: int) -> psutil.Process:
    """Wait until five `sleep` run below the conductor."""
    conductor = psutil.Process(pid)
    deadline = time.monotonic() + 20
    while sum(child.name() == "sleep" for child in conductor.children(recursive=True)) < 5:
        if time.monotonic() > deadline:
            raise SystemExit("five workers did not start within 20 s")
        time.sleep(0.05)
    return conductor


def _figures(conductor: psutil.Process) -> dict[str, dict[str, float]]:
    [warm] = conductor.children()
    workers = [child for child in warm.children() if child.name() != "sleep"]
    figures = {"conductor": _sizes(conductor), "warm process": _sizes(warm)}
    sizes = [_sizes(worker) for worker in workers]
    figures["waiting worker"] = {name: max(one[name] for one in sizes) for name in sizes[0]}
    return figures


def _sizes(process: psutil.Process) -> dict[str, float]:
    info = process.memory_full_info()
    return {name: getattr(info, name) / (1 << 20) for name in ("uss", "pss", "rss")}
