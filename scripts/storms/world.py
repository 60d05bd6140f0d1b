"""The track of a storm: a plan with dependencies, whose commands keep a ledger, and what can be seen of it."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TASK = Path(__file__).with_name("task.py")
SHAPES = ("alone", "alone", "child", "session")


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the ledger."""

    word: str
    """start | end | overlap."""
    attempt: str
    rest: tuple[str, ...]


class World:
    """A folder with a project, its track, the ledger and the output of the conductors."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.track = root / "project" / "track"
        self.bus = self.track / ".message-bus"
        self.ledger = root / "ledger"
        self.output = root / "output"
        self.mark = f"STORM={root}"
        """Stands in the environment of every process of the storm."""

    def make(self, tasks: int, longest: float, chance: random.Random) -> None:
        """Write a plan: each task works up to `longest` seconds and depends on up to two of the twenty before it."""
        for folder in (self.track, self.ledger):
            folder.mkdir(parents=True)
        ids = [f"t.{number}" for number in range(1, tasks + 1)]
        nodes = [self._node(id, ids[max(0, index - 20) : index], longest, chance) for index, id in enumerate(ids)]
        lines = ["# Storm", "", "```yaml", "dag:", "  nodes:", *(f"    - {json.dumps(node)}" for node in nodes), "```"]
        (self.track / "plan.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (self.track / "conductor.toml").write_text(
            'retry_delay = "0.05s"\nretry_delay_max = "1s"\nterminate_grace = "1s"\nheartbeat = "0.5s"\n', "utf-8"
        )

    def _node(self, id: str, before: list[str], longest: float, chance: random.Random) -> dict[str, object]:
        after = chance.sample(before, min(len(before), chance.randrange(3)))
        work = [str(self.ledger), f"{chance.uniform(0.0, longest):.3f}", chance.choice(SHAPES)]
        return {
            "id": id,
            "name": f"Task {id}",
            "depends_on": sorted(after),
            "run": [sys.executable, "-I", "-S", str(TASK), *work],
        }

    def environment(self) -> dict[str, str]:
        """What the conductor is started with."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        name, _, value = self.mark.partition("=")
        return {**kept, name: value}

    def notes(self) -> dict[str, list[Note]]:
        """The ledger by task's file."""
        found = {}
        for path in sorted(self.ledger.iterdir()):
            lines = (line.split(" ") for line in path.read_text(encoding="utf-8").splitlines())
            found[path.name] = [Note(word, attempt, tuple(rest)) for word, attempt, *rest in lines]
        return found

    def processes(self) -> Iterator[int]:
        """Pids of everything alive that was started in this storm."""
        wanted = self.mark.encode()
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    environ = Path("/proc", name, "environ").read_bytes()
                except OSError:
                    continue
                if wanted in environ.split(b"\0"):
                    yield int(name)
