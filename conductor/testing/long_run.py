"""Many seeds of the simulation on all cores: what `scripts/simulate` does."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from conductor.testing.planted import PLANTED
from conductor.testing.simulation import Simulation

CHUNK = 20
"""Seeds that one process plays before it reports."""


@dataclass(frozen=True, slots=True)
class Job:
    """Which seeds, and how."""

    first: int
    behind: int
    durability: str | None = None
    plant: str | None = None


def play(job: Job) -> tuple[int, str] | None:
    """Play seeds up to the first that fails; return it with what was violated, None where all are clean."""
    with planted(job.plant):
        for seed in range(job.first, job.behind):
            try:
                Simulation(seed, durability=job.durability).run()
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


def _jobs(options: argparse.Namespace) -> Iterator[Job]:
    behind = options.first + options.seeds
    for first in range(options.first, behind, CHUNK):
        yield Job(first, min(first + CHUNK, behind), options.durability, options.plant)


def _run_all(options: argparse.Namespace) -> int:
    began, done = time.monotonic(), 0
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for found in pool.imap(play, _jobs(options)):
            if found is not None:
                seed, what = found
                sys.stderr.write("\n")
                sys.stdout.write(f"seed {seed}: {what}\nreplay: {_command(seed, options)}\n")
                return 1
            done = min(done + CHUNK, options.seeds)
            speed = done / max(0.001, time.monotonic() - began)
            if sys.stderr.isatty() or done % 1000 == 0:
                sys.stderr.write(f"\r{done} of {options.seeds} seeds clean, {speed:.0f} a second")
                sys.stderr.flush()
    seconds = time.monotonic() - began
    sys.stderr.write("\n")
    sys.stdout.write(f"{options.seeds} seeds clean in {seconds:.0f} s ({options.seeds / seconds:.0f} a second)\n")
    return 0


def _command(seed: int, options: argparse.Namespace) -> str:
    words = ["scripts/simulate", "--seed", str(seed), "--trace"]
    words += [f"--{options.durability}"] if options.durability else []
    words += ["--plant", options.plant] if options.plant else []
    return " ".join(words)


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
    options = parser.parse_args(arguments)
    if options.seed is None:
        return _run_all(options)
    if options.trace:
        return 0 if trace(options.seed, options.durability, options.plant, print) else 1
    options.first, options.seeds, options.jobs = options.seed, 1, 1
    return _run_all(options)
