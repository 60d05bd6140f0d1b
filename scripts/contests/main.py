"""A contest for locks among real workers that are killed and suspended at random. See `--help`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT))

from bus.process import ProcessInfo, look, send_signal  # noqa: E402

CONTENDER = Path(__file__).with_name("contender.py")

HITS = ("command", "suspend", "worker", "suspend", "both")
"""What happens to a contender, in turn: it, its worker, or both are killed; or it stands still for a while."""

STILL = 2.0
"""Longest time for which a contender stands still."""


def pause(seconds: float) -> None:
    """Let others go on."""
    select.select([], [], [], max(seconds, 0.0))


class Contest:
    """A folder with a project, its track, the witnesses and the ledger."""

    def __init__(self, root: Path, options: argparse.Namespace, chance: random.Random) -> None:
        self.root = root
        self.track = root / "project" / "track"
        self.hits: Counter[str] = Counter()
        self._options = options
        self._chance = chance
        self._kinds = itertools.cycle(HITS)
        self._still: list[tuple[float, ProcessInfo]] = []
        self._mark = f"CONTEST={root}"
        """Stands in the environment of every process of the contest."""

    def make(self) -> None:
        """Write the plan: as many tasks as workers, each of which contends until it is over."""
        for folder in (self.track, self.root / "witnesses", self.root / "identities"):
            folder.mkdir(parents=True)
        words = [str(self.root), str(self._options.files), repr(self._options.hold)]
        run = [sys.executable, "-E", "-P", str(CONTENDER), *words]
        ids = [f"t{number}" for number in range(self._options.workers)]
        nodes = [json.dumps({"id": id, "name": f"Task {id}", "depends_on": [], "run": run}) for id in ids]
        lines = ["# Contest", "", "```yaml", "dag:", "  nodes:", *(f"    - {node}" for node in nodes), "```"]
        (self.track / "plan.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (self.track / "conductor.toml").write_text(
            'retry_delay = "0.05s"\nretry_delay_max = "0.5s"\nterminate_grace = "1s"\n', "utf-8"
        )

    def run(self) -> int:
        """Let them contend, hitting one of them now and then; return the conductor's exit code."""
        conductor = self._start()
        while conductor.poll() is None and len(os.listdir(self.root / "identities")) < self._options.workers / 2:
            pause(0.1)
        until = time.monotonic() + self._options.seconds
        while conductor.poll() is None and (time.monotonic() < until or self.hits.total() < self._options.least):
            pause(self._chance.expovariate(self._options.hits))
            self._let_go(time.monotonic())
            conductor = self._hit(conductor)
        self._let_go(float("inf"))
        (self.root / "end").touch()
        return conductor.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        flags = ["--max-workers", str(self._options.workers), "--retries", "1000", "--restart-intensity", "none"]
        command = [sys.executable, "-E", "-P", str(ROOT / "conductor_bus_start.py"), "run", str(self.track), *flags]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        name, _, value = self._mark.partition("=")
        with open(self.root / "output", "ab") as output:
            return subprocess.Popen(
                command, env={**kept, name: value}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def _hit(self, conductor: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        if self._chance.random() < self._options.conductors:
            self.hits["conductor"] += 1
            conductor.kill()
            conductor.wait()
            return self._start()
        contenders = sorted(self._contenders(), key=lambda info: info.pid)
        if contenders:
            victim, kind = self._chance.choice(contenders), next(self._kinds)
            worker = look(victim.session)
            self.hits[kind] += 1
            if kind == "suspend":
                if _signal(victim, signal.SIGSTOP):
                    self._still.append((time.monotonic() + self._chance.uniform(0.1, STILL), victim))
            else:
                for info in (worker, victim) if kind == "both" else (victim if kind == "command" else worker,):
                    if info is not None:
                        _signal(info, signal.SIGKILL)
        return conductor

    def _let_go(self, time: float) -> None:
        for _, info in [one for one in self._still if one[0] <= time]:
            _signal(info, signal.SIGCONT)
        self._still = [one for one in self._still if one[0] > time]

    def _contenders(self) -> list[ProcessInfo]:
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                    environ = Path("/proc", name, "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                info = look(int(name))
                if str(CONTENDER).encode() in words and self._mark.encode() in environ and info and not info.dead:
                    found.append(info)
        return found

    def figures(self) -> dict[str, Any]:
        """What the ledger tells."""
        lines = [line.split(" ") for line in (self.root / "ledger").read_text(encoding="utf-8").splitlines()]
        waits = sorted(float(line[3]) for line in lines if line[0] == "turn")
        turns = Counter(line[1] for line in lines if line[0] == "turn")
        locks = self.track / ".message-bus" / "locks"
        return {
            "turns": len(waits),
            "fewest_turns": min((turns[f"t{number}"] for number in range(self._options.workers)), default=0),
            "wait_median": statistics.median(waits) if waits else None,
            "wait_longest": waits[-1] if waits else None,
            "clashes": [" ".join(line) for line in lines if line[0] == "clash"],
            "starved": [" ".join(line) for line in lines if line[0] == "starved"],
            "left": sorted(path.name for path in locks.glob("*.grant")),
            "hits": dict(self.hits),
        }


def _signal(info: ProcessInfo, number: int) -> bool:
    return send_signal(info.pid, info.start_ticks, number)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="contest", description=__doc__)
    parser.add_argument("--workers", type=int, default=50, help="at once (default 50)")
    parser.add_argument("--files", type=int, default=20, help="to contend for (default 20)")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long (default 120)")
    parser.add_argument("--hold", type=float, default=0.05, help="longest time for which a set is held (default 0.05)")
    parser.add_argument("--hits", type=float, default=3.0, help="kills and suspensions a second (default 3)")
    parser.add_argument("--least", type=int, default=10, help="hits at least, however long that takes (default 10)")
    parser.add_argument("--conductors", type=float, default=0.02, help="part of them that kill the conductor")
    parser.add_argument("--seed", type=int, default=None, help="of the hits; drawn and printed where not given")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="use DIR, which must not exist, and leave it there")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return parser.parse_args()


def main() -> int:
    """Hold the contest; exit 1 where a file had two holders, somebody starved, or something was left."""
    options = arguments()
    if options.keep:
        options.keep.mkdir(parents=True)
        return contest(options, options.keep.resolve())
    with tempfile.TemporaryDirectory(prefix="contest-") as folder:
        return contest(options, Path(folder).resolve())


def contest(options: argparse.Namespace, root: Path) -> int:
    """Carry it out below `root`."""
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    held = Contest(root, options, random.Random(seed))
    held.make()
    code = held.run()
    figures = {"seed": seed, "exit_code": code, **held.figures()}
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:16}{value}")
    if code != 0:
        print((root / "output").read_text(encoding="utf-8", errors="replace")[-2000:], file=sys.stderr)
    return 1 if code or figures["clashes"] or figures["starved"] or figures["left"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
