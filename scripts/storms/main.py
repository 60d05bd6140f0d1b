"""A kill storm with real processes, and the proof that nothing was lost. See `--help`."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[2]))

from figures import Figures, measure
from history import History, forget_snapshots, journal_size
from killer import Killer
from proof import faults, read, reasons
from world import ROOT, World

from bus.wire import Record
from worker.tree import Bonds

BUSY = 1.4
"""Longest work of a task, as a part of what would keep all workers busy for the whole storm."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="storm", description=__doc__)
    parser.add_argument("--tasks", type=int, default=300, help="tasks of the plan (default 300)")
    parser.add_argument("--workers", type=int, default=5, help="at once (default 5)")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long to kill (default 300); then no more")
    parser.add_argument("--seed", type=int, default=None, help="of kills and plan; drawn and printed where not given")
    parser.add_argument("--journal-mb", type=float, default=0.0, metavar="M", help="begin on a journal of M megabytes")
    parser.add_argument("--without-snapshots", action="store_true", help="take away that journal's snapshots")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="use DIR, which must not exist, and leave it there")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return parser.parse_args()


def main() -> int:
    """Storm, prove, report; exit 1 where something does not hold."""
    options = arguments()
    if not Bonds().become_subreaper():
        print("error: the storm needs Linux, where it can see every process that was left behind", file=sys.stderr)
        return 2
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    if options.keep:
        options.keep.mkdir(parents=True)
        return storm(options, seed, World(options.keep.resolve()))
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        return storm(options, seed, World(Path(folder).resolve()))


def storm(options: argparse.Namespace, seed: int, world: World) -> int:
    """Carry it out in `world`."""
    chance = random.Random(seed)
    world.make(options.tasks, BUSY * options.seconds * options.workers / options.tasks, chance)
    since = prepare(options, world)
    command = [
        *(sys.executable, "-E", "-P", str(ROOT / "conductor_bus_start.py"), "run", str(world.track)),
        *("--max-workers", str(options.workers), "--retries", "50", "--restart-intensity", "none"),
    ]
    killer = Killer(world, command, chance)
    began = time.monotonic()
    if not killer.storm(options.seconds):
        killer.calm()
    seconds = time.monotonic() - began
    journal = read(world, since)
    found = [*faults(world, killer.lives, journal, since), *wrong_end(world, killer, options.tasks, journal)]
    figures = measure(killer.lives, journal)
    if options.json:
        print(json.dumps({"seed": seed, "seconds": seconds, "kills": killer.kills, "faults": found, **asdict(figures)}))
    else:
        report(figures, killer, seed, seconds, world)
        for fault in found:
            print(f"FAULT  {fault}")
        print("nothing lost, nothing twice, nothing left behind" if not found else f"{len(found)} faults")
    return 1 if found else 0


def prepare(options: argparse.Namespace, world: World) -> int:
    """Make the journal that the storm begins on; return its last record's number."""
    if not options.journal_mb:
        return 0
    seq = History(world).write(options.journal_mb)
    if options.without_snapshots:
        forget_snapshots(world.bus)
    return seq


def wrong_end(world: World, killer: Killer, tasks: int, journal: Sequence[Record]) -> list[str]:
    """Tell what is wrong with the end of the last conductor."""
    found = []
    if killer.lives[-1].code != 0:
        tail = world.output.read_text(encoding="utf-8", errors="replace")[-2000:]
        found.append(f"the last conductor ended with exit code {killer.lives[-1].code}:\n{tail}")
    done = sum(record.type == "TASK_COMPLETE" for record in journal)
    if done != tasks:
        found.append(f"{done} of {tasks} tasks are done")
    return found


def report(figures: Figures, killer: Killer, seed: int, seconds: float, world: World) -> None:
    """Print a table."""
    kills = ", ".join(f"{count} {kind}" for kind, count in killer.kills.most_common())
    ends = ", ".join(f"{count} {kind}" for kind, count in figures.ends.items())
    aside = ", ".join(f"{count} × {reason}" for reason, count in reasons(world).items()) or "nothing"
    rows = [
        ("seed", str(seed)),
        ("seconds", f"{seconds:.0f}"),
        ("killed", kills or "nobody"),
        ("conductors", f"{figures.lives}, of which {figures.idle} were killed before they recorded anything"),
        ("records of a life", f"{figures.least} at least, {figures.median:g} in the median"),
        ("start to first record", f"{figures.restart[0]:.3f} s in the median, {figures.restart[1]:.3f} s at most"),
        ("attempts", ends),
        ("records", f"{figures.recorded}, journal {journal_size(world.bus) / 1e6:.1f} MB"),
        ("open descriptors", f"{figures.descriptors} at most"),
        ("in quarantine", aside),
    ]
    for name, value in rows:
        print(f"{name:24}{value}")


if __name__ == "__main__":
    raise SystemExit(main())
