"""Runs the benchmarks and prints tables of ratios; with --json FILE also writes the figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import load
import memory
import recover
import wide

BENCHMARKS: dict[str, Callable[[int], dict[str, Any]]] = {
    "wide": wide.main,
    "load": load.main,
    "memory": memory.main,
    "recover": recover.main,
}


def main() -> None:
    """Run the named benchmarks, all where none is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each command (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    figures = {name: BENCHMARKS[name](arguments.runs) for name in arguments.names or BENCHMARKS}
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
