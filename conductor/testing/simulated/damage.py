"""Damage to the journal of a track that nobody holds, what a repair must save of it, and whether it did."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from bus import layout, snapshots
from bus.errors import BusCorrupt
from bus.folders import open_folders
from bus.reader import FileReader
from bus.wire import Record
from conductor.plan import frozen
from conductor.runtime.replay import Replayed
from conductor.testing.disk import ModelDisk
from conductor.testing.disk.inodes import File
from conductor.testing.ledger import demand
from conductor.testing.simulated.conductor import BUS

if TYPE_CHECKING:
    from conductor.testing.simulation import Simulation

JOURNAL = f"{BUS}/{layout.JOURNAL}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file of the journal."""

    path: str
    start: int
    end: int
    seq: int | None
    """Its record's; None where it does not count."""


@dataclass(slots=True)
class Damage:
    """What was done to a journal, and what it held before."""

    hit: set[int] = field(default_factory=set)
    """Records that cannot be read any more, whatever a repair does."""
    before: dict[int, Record] = field(default_factory=dict)
    """What could be read before, by seq."""
    gone: set[int] = field(default_factory=set)
    """Records that an earlier repair gave up."""
    digest: str | None = None
    """Hash of the state before; None once somebody has gone on with the run, who did not notice."""
    wanted: set[int] | None = None
    """What a repair that has begun must save of that."""
    tried: bool = False
    """Whether a repair has begun, and perhaps done a part."""


class Vandal:
    """Damages the journal of one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._random: Random = simulation.odd
        self._disk = simulation.disk

    def strike(self, records: list[Record], gone: Collection[int], digest: str) -> Damage:
        """Do some damage, which is on disk then. `records` are all that can be read, without those that are `gone`."""
        damage = Damage(set(), {record.seq: record for record in records}, set(gone), digest)
        kinds: dict[str, Callable[[Damage], bool]] = {
            "a byte is flipped": lambda damage: self._on_lines(damage, _flip, 1),
            "a line is removed": lambda damage: self._on_lines(damage, _drop, 1),
            "two lines are damaged": lambda damage: self._on_lines(damage, _flip, 2),
            "a block of zeros": lambda damage: self._on_lines(damage, _zero, 1),
            "a line stands there twice": lambda damage: self._on_lines(damage, _double, 1),
            "a file is cut": self._cut,
            "a file is removed": self._remove,
            "a plan is removed": self._remove_plan,
            "a blob is removed": self._remove_blob,
            "a snapshot is damaged": self._hit_snapshot,
            "FORMAT is removed": lambda damage: self._unlink(f"{BUS}/{layout.FORMAT}"),
        }
        names = sorted(kinds)
        self._random.shuffle(names)
        kind = next(name for name in names if kinds[name](damage))
        self._sim.say(None, f"damage: {kind}, which hits {sorted(damage.hit) or 'no record'}")
        return damage

    # --- kinds ------------------------------------------------------------------------------------------------------

    def _on_lines(self, damage: Damage, change: Callable[[bytes, Random], bytes], count: int) -> bool:
        lines = list(lines_of(self._disk, damage.before))
        if self._random.random() < 0.3:  # what matters most
            rounds = {one.seq for one in damage.before.values() if one.type == "RUN_STARTED"}
            lines = [line for line in lines if line.seq in rounds] or lines
        chosen = self._random.sample(lines, k=min(count, len(lines)))
        if not self._may_lose(damage, () if change is _double else (line.seq for line in chosen)):
            return False
        for line in sorted(chosen, key=lambda line: -line.start):
            data = self._disk.read(line.path)
            changed = change(data[line.start : line.end], self._random)
            self._replace(line.path, data[: line.start] + changed + data[line.end :])
        return bool(chosen)

    def _cut(self, damage: Damage) -> bool:
        path = self._random.choice(paths(self._disk))
        data = self._disk.read(path)
        at = self._random.randint(0, len(data))
        lines = [line for line in lines_of(self._disk, damage.before) if line.path == path and line.end > at]
        if at == len(data) or not self._may_lose(damage, (line.seq for line in lines)):
            return False
        self._replace(path, data[:at])
        return True

    def _remove(self, damage: Damage) -> bool:
        path = self._random.choice(paths(self._disk))
        lines = [line for line in lines_of(self._disk, damage.before) if line.path == path]
        return self._may_lose(damage, (line.seq for line in lines)) and self._unlink(path)

    def _remove_plan(self, damage: Damage) -> bool:
        names = self._disk.names(f"{BUS}/{layout.PLAN}")
        if not names:
            return False
        sha = self._random.choice(names).removesuffix(".json")
        rounds = {one.seq for one in damage.before.values() if one.payload.get("plan_sha") == sha}
        if sha != self._sim.source_sha and not self._may_lose(damage, rounds):  # otherwise it can be made again
            return False
        return self._unlink(f"{BUS}/{layout.PLAN}/{layout.plan_name(sha)}")

    def _remove_blob(self, damage: Damage) -> bool:
        names = self._disk.names(f"{BUS}/{layout.BLOBS}")
        if not names:
            return False
        name = self._random.choice(names)
        lines = lines_of(self._disk, damage.before)
        lost = (line.seq for line in lines if name.encode() in self._disk.read(line.path)[line.start : line.end])
        return self._may_lose(damage, lost) and self._unlink(f"{BUS}/{layout.BLOBS}/{name}")

    def _hit_snapshot(self, damage: Damage) -> bool:
        names = self._disk.names(f"{BUS}/{layout.SNAPSHOTS}")
        if not names or damage.gone:  # one that stands for what is lost is no mere saving
            return False
        path = f"{BUS}/{layout.SNAPSHOTS}/{self._random.choice(names)}"
        whole = self._disk.read(path)
        if len(whole) < 2:  # a power cut has torn it
            return False
        self._replace(path, _flip(whole, self._random))
        return True

    def _may_lose(self, damage: Damage, seqs: Iterable[int | None]) -> bool:
        """Note what is lost; False, and nothing noted, where the journal would end before the round under way without
        a trace, while workers of it live: nobody could tell."""
        lost = {seq for seq in seqs if seq}
        begun = max((one.seq for one in damage.before.values() if one.type == "RUN_STARTED"), default=0)
        is_end = lost == {seq for seq in damage.before if seq >= min(lost, default=0)}
        alive = any(one.alive for one in self._sim.workers.values())
        if (
            lost
            and is_end
            and min(lost) <= begun
            and alive
            and max(bridges(self._sim, damage, ()), default=0) < min(lost)
        ):
            return False
        damage.hit |= lost
        return True

    def _replace(self, path: str, data: bytes) -> None:
        self._disk.write(path, data)
        file = self._disk.find(path)
        assert isinstance(file, File)
        file.rewrite(0, file.size)
        file.sync()

    def _unlink(self, path: str) -> bool:
        process = self._disk.process("somebody")
        folder, _, name = path.rpartition("/")
        at = process.open_directory(folder)
        done = process.discard(name, at)
        process.sync(at)
        process.kill()
        return done


def _flip(line: bytes, random: Random) -> bytes:
    at = random.randrange(len(line) - 1)
    return line[:at] + (b"y" if line[at : at + 1] == b"x" else b"x") + line[at + 1 :]


def _drop(line: bytes, random: Random) -> bytes:
    return b""


def _zero(line: bytes, random: Random) -> bytes:
    at = random.randrange(len(line) - 1)
    return line[:at] + bytes(len(line) - 1 - at) + line[-1:]


def _double(line: bytes, random: Random) -> bytes:
    return line * 2


# --- what there is --------------------------------------------------------------------------------------------------


def paths(disk: ModelDisk) -> list[str]:
    """The files of the journal that hold records."""
    sealed = [f"{BUS}/{layout.SEGMENTS}/{name}" for name in disk.names(f"{BUS}/{layout.SEGMENTS}")]
    there = [path for path in sealed if path.endswith(".jsonl")]
    return [*there, JOURNAL] if disk.find(JOURNAL) is not None else there


def lines_of(disk: ModelDisk, records: Mapping[int, Record]) -> Iterator[Line]:
    """The lines of the journal, those that count with their seq."""
    ids = {f'"id":"{record.id}"'.encode(): record.seq for record in records.values()}
    for path in paths(disk):
        start = 0
        for body in disk.read(path).split(b"\n")[:-1]:
            id = next((id for id in ids if id in body), b"")  # a second line of the same record does not count
            seq = ids.pop(id, None)
            end = start + len(body) + 1
            yield Line(path, start, end, seq)
            start = end


def bridges(sim: Simulation, damage: Damage, lost: Collection[int]) -> list[int]:
    """The snapshots that a repair may rest on, by their record, which must be there, and so must their plan: or it is
    the one of now, and a record tells of it."""
    folders = open_folders(sim.disk.process("look"), BUS)
    reader, now = FileReader(folders), sim.source_sha
    told = any(one.payload.get("plan_sha") == now for one in damage.before.values() if one.seq not in lost)
    found = []

    def load_plan(sha: str) -> bytes:
        return frozen.dump(sim.plan) if told and sha == now else reader.load_plan(sha)

    for kept in snapshots.read_all(folders):
        with suppress(BusCorrupt):
            if kept.snapshot.seq not in lost and Replayed().restore(kept.snapshot, load_plan):
                found.append(kept.snapshot.seq)
    folders.close()
    return found


# --- and what must be there after a repair --------------------------------------------------------------------------


def saved(sim: Simulation, damage: Damage) -> set[int]:
    """Which of the records that there were are to be there after a repair, or after a start that mended all by itself.

    All that can be read, up to the first that is lost behind the newest snapshot: that stands for whatever is lost
    before it.
    """
    lost = damage.hit | damage.gone
    newest = max(bridges(sim, damage, lost), default=0)
    end = min((seq for seq in lost if seq > newest), default=None)
    return {seq for seq in damage.before if seq not in lost and (end is None or seq < end)}


def check_saved(records: Iterable[Record], gone: Collection[int], damage: Damage, wanted: set[int]) -> None:
    """Compare with what is there after a repair; `gone` are those that it gave up."""
    found = {record.seq: record.id for record in records}
    for seq in wanted:
        demand(found.get(seq) == damage.before[seq].id, f"record {seq} was sound, and the repair has lost it")
    for seq, record in damage.before.items():
        demand(found.get(seq, record.id) == record.id, f"record {seq} is another one after the repair")
    end = max(found, default=0)
    for seq in range(1, end):
        demand(seq in found or seq in gone, f"record {seq} is missing, and nothing says so")
