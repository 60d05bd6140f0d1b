"""The proof behind a kill storm finds what it is for: each promise is broken once, in a made-up aftermath."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.host import open_host
from bus.wire import Record, Stamp

STORMS = Path(__file__).resolve().parents[2] / "scripts" / "storms"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.fixture
def storms(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules of the storm, which stand beside its script."""
    monkeypatch.syspath_prepend(str(STORMS))
    import killer
    import proof
    import world

    monkeypatch.setattr(proof, "_processes", lambda world: iter(()))  # it reaps whatever child this process has
    yield {"killer": killer, "proof": proof, "world": world}
    for name in ("killer", "proof", "world"):
        sys.modules.pop(name)


class Aftermath:
    """One task that was done in its second attempt, all in order."""

    def __init__(self, storms: Any, root: Path) -> None:
        self.storms = storms
        self.world = storms["world"].World(root)
        self.world.ledger.mkdir()
        self.world.track.mkdir(parents=True)
        open_host(self.world.bus).close()
        self.lives = [storms["killer"].Life(began=0.0, ended=1.0, descriptors=20)]
        self.notes = ["begin a~1 1 1", "begin a~2 2 2", "beside a~2 3 3", "end a~2"]
        self.records = [
            ("WORKER_DISPATCHED", "a~1", {}),
            ("ATTEMPT_ENDED", "a~1", {}),
            ("WORKER_DISPATCHED", "a~2", {}),
            ("RESULT", "a~2", {"started": True, "command": {"code": 0, "signal": None}}),
            ("ATTEMPT_ENDED", "a~2", {}),
            ("TASK_COMPLETE", "a~2", {}),
        ]
        self.numbers = list(range(1, 7))

    def faults(self) -> list[str]:
        """What the proof finds."""
        (self.world.ledger / "a").write_text("".join(f"{line}\n" for line in self.notes))
        stamp = Stamp(0.0, 0.0, "boot")
        journal: list[Any] = [
            Record(number, 1, stamp, "0" * 32, type, "conductor", "", "a", attempt, payload)  # type: ignore[arg-type]
            for number, (type, attempt, payload) in zip(self.numbers, self.records, strict=False)
        ]
        return list(self.storms["proof"].faults(self.world, self.lives, journal, 0))


def twice(*types: str) -> Callable[[Aftermath], None]:
    """Record the last record of each type once more."""

    def plant(after: Aftermath) -> None:
        after.records += [[one for one in after.records if one[0] == type][-1] for type in types]
        after.numbers = list(range(1, len(after.records) + 1))

    return plant


def test_an_aftermath_in_order_has_no_faults(storms: Any, tmp_path: Path) -> None:
    assert Aftermath(storms, tmp_path).faults() == []


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (twice("TASK_COMPLETE"), "TASK_COMPLETE stands twice for a"),
        (twice("RESULT"), "RESULT stands twice for a~2"),
        (twice("WORKER_DISPATCHED"), "WORKER_DISPATCHED stands twice for a~2"),
        (lambda after: after.records.pop(), "successes and completed tasks differ"),
        (lambda after: after.records.pop(1), "dispatched and judged differ"),
        (lambda after: after.numbers.__setitem__(3, 9), "not numbered without gaps"),
        (lambda after: after.notes.pop(), "never ended its work"),
        (lambda after: after.notes.append("begin a~2 4 4"), "`begin` twice: a~2"),
        (lambda after: after.notes.append("overlap a~2 a~1"), "attempts overlap"),
        (lambda after: (after.world.bus / "heartbeats" / "a~1").touch(), "heartbeats/ holds a~1"),
        (lambda after: (after.world.bus / "quarantine" / "1-x").touch(), "quarantine/1-x without a reason"),
        (lambda after: setattr(after.lives[0], "descriptors", 500), "500 descriptors"),
    ],
)
def test_a_broken_promise_is_found(storms: Any, tmp_path: Path, plant: Callable[[Aftermath], Any], found: str) -> None:
    after = Aftermath(storms, tmp_path)
    plant(after)
    assert any(found in fault for fault in after.faults()), after.faults()
