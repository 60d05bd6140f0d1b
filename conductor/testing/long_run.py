"""Many seeds of the simulation on all cores: what `scripts/simulate` does.

The seeds are played by children that are started, not forked: a fork of a process that has threads may copy a lock that
nobody will ever open, and whoever calls this (a test runner) may have some. Each child says a line for each of its
blocks, so the first failure in the order of the seeds is found, and one that dies without a word is noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import cycle

import conductor_bus_start
from conductor.testing.planted import PLANTED
from conductor.testing.simulation import Simulation

BLOCK = 20
"""Seeds that a child plays before it says how they went."""

_CHILD = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from conductor.testing.long_run import main
sys.exit(main(sys.argv[1:]))
"""
"""The program of a child: this module, of this very copy of the project, whatever the caller's `sys.path` is."""


def play(seeds: range, durability: str | None, plant: str | None) -> tuple[int, str] | None:
    """Play seeds up to the first that fails; return it with what was violated, None where all are clean."""
    with planted(plant):
        for seed in seeds:
            try:
                Simulation(seed, durability=durability).run()
            except Exception as error:  # whatever the program lets out is a finding
                return seed, f"{type(error).__name__}: {error}"
    return None


def planted(name: str | None) -> AbstractContextManager[object]:
    """Plant a bug for as long as the context lasts; nothing for None."""
    return PLANTED[name]() if name else nullcontext()


def trace(seed: int, durability: str | None, plant: str | None, out: Callable[[str], None]) -> bool:
    """Play one seed and tell its story; False where it fails."""
    simulation = Simulation(seed, durability=durability)
    simulation.tell = out
    try:
        with planted(plant):
            simulation.run()
    except Exception:
        out(traceback.format_exc())
        return False
    out(f"clean: {simulation.recoveries} recoveries, {len(simulation.records)} records")
    return True


def _blocks(options: argparse.Namespace) -> Iterator[range]:
    behind = options.first + options.seeds
    for first in range(options.first, behind, BLOCK):
        yield range(first, min(first + BLOCK, behind))


def _play_share(options: argparse.Namespace) -> int:
    """Be a child: play every `jobs`-th block, and say a line for each."""
    for number, block in enumerate(_blocks(options)):
        if number % options.jobs == options.share:
            found = play(block, options.durability, options.plant)
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
    return 0


@contextmanager
def _children(options: argparse.Namespace) -> Iterator[list[subprocess.Popen[str]]]:
    """Start the children; those that still play afterwards are ended."""
    words = ["--seeds", str(options.seeds), "--from", str(options.first), "--jobs", str(options.jobs), *_kind(options)]
    with ExitStack() as stack:
        made = []
        for share in range(options.jobs):
            argv = [sys.executable, "-P", "-c", _CHILD, conductor_bus_start.HOME, *words, "--share", str(share)]
            child = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
            stack.callback(child.kill)
            made.append(child)
        yield made


def _run_all(options: argparse.Namespace) -> int:
    began, done = time.monotonic(), 0
    with _children(options) as children:
        for block, child in zip(_blocks(options), cycle(children), strict=False):
            assert child.stdout is not None
            line = child.stdout.readline()
            if not line:
                sys.stdout.write(f"the process that played the seeds {block[0]} to {block[-1]} died: {child.wait()}\n")
                return 1
            if found := json.loads(line):
                seed, what = found
                sys.stderr.write("\n")
                sys.stdout.write(f"seed {seed}: {what}\nreplay: {_command(seed, options)}\n")
                return 1
            done += len(block)
            _show(done, options.seeds, time.monotonic() - began)
    seconds = time.monotonic() - began
    sys.stderr.write("\n")
    sys.stdout.write(f"{options.seeds} seeds clean in {seconds:.0f} s ({options.seeds / seconds:.0f} a second)\n")
    return 0


def _show(done: int, seeds: int, seconds: float) -> None:
    if sys.stderr.isatty() or done % 1000 == 0:
        sys.stderr.write(f"\r{done} of {seeds} seeds clean, {done / max(0.001, seconds):.0f} a second")
        sys.stderr.flush()


def _kind(options: argparse.Namespace) -> list[str]:
    words = [f"--{options.durability}"] if options.durability else []
    return words + (["--plant", options.plant] if options.plant else [])


def _command(seed: int, options: argparse.Namespace) -> str:
    words = ["scripts/simulate", "--seed", str(seed), "--trace"]
    return " ".join([*words, *_kind(options)])


def main(arguments: list[str]) -> int:
    """Parse the command line and do it; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/simulate", description="the whole system, simulated under many seeds"
    )
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many (1000)")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="S", help="the first one (0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="J", help="processes (one for each core)"
    )
    kinds = parser.add_mutually_exclusive_group()
    for kind in ("power", "process"):
        kinds.add_argument(
            f"--{kind}", dest="durability", action="store_const", const=kind, help=f"durability {kind} only"
        )
    parser.add_argument(
        "--plant", choices=sorted(PLANTED), metavar="NAME", help="with a bug: " + ", ".join(sorted(PLANTED))
    )
    parser.add_argument("--seed", type=int, metavar="S", help="this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: tell the story")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.share is not None:
        return _play_share(options)
    if options.seed is None:
        return _run_all(options)
    if options.trace:
        return 0 if trace(options.seed, options.durability, options.plant, print) else 1
    options.first, options.seeds, options.jobs = options.seed, 1, 1
    return _run_all(options)
