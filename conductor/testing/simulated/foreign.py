"""What somebody does to the bus who is no part of the program: an editor, a clean-up, a person.

State does not change by it, nothing is lost but what was removed, and the next start at the latest has all in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bus import layout
from conductor.testing.disk import ModelProcess
from conductor.testing.disk.inodes import File, Folder
from conductor.testing.ledger import demand
from conductor.testing.simulated.conductor import BUS, SimulatedConductor
from conductor.testing.simulated.troubles import Trouble
from conductor.testing.simulated.world import Actor

if TYPE_CHECKING:
    from conductor.testing.simulation import Simulation

REPLACED = (
    layout.INBOX,
    layout.CONTROL,
    layout.EVENTS,
    layout.ARCHIVE,
    layout.TMP,
    layout.HEARTBEATS,
    layout.WORKER_STATUS,
    layout.QUARANTINE,
    layout.SNAPSHOTS,
    layout.BIN,
)
"""Folders that hold nothing that the state rests on. To remove one of the others is damage."""


class ForeignHand:
    """Somebody who writes into the bus."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._random = simulation.odd
        self._disk = simulation.disk
        self._marks: dict[bytes, str] = {}
        """What was left, each with a mark of its own, and where."""
        self._events_went = False
        """Whether `events/` was ever removed."""
        self._recovering: list[SimulatedConductor] = []
        self._surprised: set[Actor] = set()
        self._met: set[Actor] = set()
        """Those in whose step somebody has written to the journal."""

    def spares(self, conductor: SimulatedConductor) -> bool:
        """Tell whether nothing was done while this one looked at what it found: it puts all in order then."""
        return conductor not in self._recovering

    def strike(self, trouble: Trouble) -> None:
        """Do it, if it is possible now."""
        done = {Trouble.APPEND: self.append, Trouble.BY_HAND: self.by_hand, Trouble.FOLDER: self.replace_folder}
        if not done[trouble]():
            return
        self._recovering += [one for one in self._sim.conductors if one.epoch == 0]
        if trouble is Trouble.FOLDER:
            self._surprised.update(self._sim.on_stage)

    def surprises(self, actor: Actor) -> bool:
        """Tell whether a folder went away in the midst of this step of somebody: it may end with that as its error."""
        return actor in self._surprised

    def begins(self, actor: Actor) -> None:
        """Somebody begins another step, and opens what is there now."""
        self._surprised.discard(actor)
        self._met.discard(actor)

    def forget(self) -> None:
        """What was left may be gone: the power was cut, or a folder removed."""
        self._marks.clear()

    # --- what is left behind ----------------------------------------------------------------------------------------

    def append(self) -> bool:
        """Write to the journal; False where there is none."""
        journal = self._disk.find(f"{BUS}/{layout.JOURNAL}")
        busy = self._sim.on_stage
        cutting = isinstance(journal, File) and any(mark in journal.data for mark in self._marks)
        if not isinstance(journal, File) or cutting or not self._met.isdisjoint(busy):
            return False  # what is added while other such bytes are just being cut out may go with them
        self._met.update(busy)
        mark = self._mark(layout.JOURNAL)
        shapes = (b"%s", b"%s\n", b'{"seq":7,"mark":"%s"}\n', b"\0\0\n%s\n\xff\n", b'{"seq":%s')
        journal.data += self._random.choice(shapes) % mark
        self._disk.changed(journal)
        stopped = self._sim.strikes.disk_was_ill and any(one in busy for one in self._sim.conductors)
        if stopped or any(one.epoch == 0 for one in self._sim.conductors):
            del self._marks[mark]  # a recovery may just be copying the file, or a short write be taken back
        return True

    def by_hand(self) -> bool:
        """Make a file where events, orders or messages are; False where it cannot be made."""
        task = self._random.choice([*(spec.id for spec in self._sim.plan.tasks), "x"])
        events = [f"{type}_{task}.event" for type in ("TASK_COMPLETE", "TASK_FAILED", "DEP_READY")]
        folder, names = self._random.choice(
            (
                (layout.EVENTS, events),
                (layout.CONTROL, ["00000007-reset", "00000009-stop", "00000003-drain", "notes.txt"]),
                (layout.INBOX, ["notes.txt", *(f"{one}.{'5' * 16}.msg" for one in self._sim.workers)]),
            )
        )
        name = self._random.choice(names)
        if folder == layout.EVENTS and self._events_went:  # it may be one that was there: no start looks into all files
            return False
        where = self._disk.find(f"{BUS}/{folder}")
        if not isinstance(where, Folder) or name in where.names:
            return False
        order = folder == layout.CONTROL and self._random.random() < 0.5
        self._disk.write(f"{BUS}/{folder}/{name}", b"" if order else self._mark(f"{folder}/{name}") + b"\n")
        return True

    def _mark(self, where: str) -> bytes:
        mark = f"mark-{self._random.randbytes(6).hex()}"
        self._sim.say(None, f"somebody leaves {mark} in {where}")
        self._marks[mark.encode()] = where
        return mark.encode()

    # --- what is taken away -----------------------------------------------------------------------------------------

    def replace_folder(self) -> bool:
        """Remove a folder, move it away, or put something else in its place; False where that is impossible."""
        name = self._random.choice(REPLACED)
        lost = any(one.endswith(".lost") for one in self._disk.names(f"{BUS}/{layout.SEGMENTS}"))
        if name == layout.SNAPSHOTS and lost:  # there they are the only word of what is lost
            return False
        found = self._disk.find(f"{BUS}/{name}")
        if not isinstance(found, Folder):
            return False
        process = self._disk.process("somebody")
        parent, _, leaf = f"{BUS}/{name}".rpartition("/")
        at = process.open_directory(parent)
        ways: dict[str, tuple[Callable[..., object], ...]] = {
            "is removed": (self._remove,),
            "is moved away": (_move,),
            "is moved away, and another one is made": (_move, lambda *_: process.mkdir(leaf, at=at)),
            "is removed, and a file is made in its place": (self._remove, lambda *_: process.create(leaf, b"x", at=at)),
        }
        way = self._random.choice(sorted(ways))
        self._sim.say(None, f"{name}/ {way}")
        for step in ways[way]:
            step(process, leaf, at)
        process.kill()
        self.forget()
        self._events_went |= name == layout.EVENTS
        if name in (layout.INBOX, layout.QUARANTINE):  # a message that was seen late is looked for there too
            self._sim.accounts.messages.clear()
        if name in (layout.CONTROL, layout.QUARANTINE):
            self._sim.accounts.orders.clear()
        return True

    def _remove(self, process: ModelProcess, name: str, at: int) -> None:
        fd, late = process.open_directory(name, at=at), self._disk.late
        self._disk.late = 0.0  # all of it goes
        for inner in process.names(fd):
            if process.is_folder(inner, fd):
                self._remove(process, inner, fd)
            else:
                process.unlink(inner, fd)
        self._disk.late = late
        process.close(fd)
        process.rmdir(name, at)

    # --- checks -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What was left is kept somewhere, and out of the file that is written to."""
        if not self._marks:
            return
        active = f"{BUS}/{layout.JOURNAL}"
        journal = self._disk.read(active)
        kept = b"\n".join(self._disk.read(path) for path in self._disk.paths(BUS) if path != active)
        for mark, where in self._marks.items():
            demand(mark not in journal, f"what somebody left in {where} stands in the journal")
            # Without hard links a file is sealed by copying it: what is added meanwhile goes with the old one.
            demand(mark in kept or self._disk.faults.no_links, f"what somebody left in {where} is gone")


def _move(process: ModelProcess, name: str, at: int) -> None:
    process.rename(name, at, f"{name}.{process.disk.next_number()}", at)
