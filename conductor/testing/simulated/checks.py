"""What must hold of a bus after every recovery, read from the model disk by other code than what wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bus import layout, snapshots
from bus.contract import Snapshot
from bus.errors import BusCorrupt
from bus.projection import View
from bus.reader import FileReader, open_reader
from bus.wire import Record, TaskId
from conductor.core.task import Done
from conductor.runtime.replay import Replayed
from conductor.testing.disk import ModelDisk
from conductor.testing.ledger import Ledger, demand
from conductor.testing.simulated.conductor import BUS


@dataclass(frozen=True, slots=True)
class Found:
    """What the journal says."""

    records: list[Record]
    gone: frozenset[int]
    """Records that repairs gave up."""
    state: Replayed


def read_journal(disk: ModelDisk, *, placed: bool = False) -> Found:
    """Return the whole journal, and what follows from it: the same from each snapshot on. With `placed`, each of them
    must be one that a start finds in the journal.

    Where a repair gave records up, the snapshot behind them stands for what comes before it.
    """
    whole, records = Replayed(), list[Record]()
    reader = open_reader(BUS, fs=disk.process("check"))
    kept = {snapshot.seq: snapshot for snapshot in reader.snapshots()}
    gone = frozenset(seq for first, last in reader.lost() for seq in range(first, last + 1))
    lone = {one.snapshot.seq for one in snapshots.read_all(reader.folders)} - kept.keys() - gone
    demand(not (placed and lone), f"the place of snapshots {sorted(lone)} is not in the journal")
    if gone:  # a plan may be among what was lost, and then only newer snapshots are of use
        kept = {seq: one for seq, one in kept.items() if seq > max(gone) and _is_usable(one, reader)}
    begins = min(kept, default=0) if gone else 0
    demand(bool(begins or not gone), "records are lost, and there is no snapshot behind them")
    begun: list[Replayed] = []
    for record in reader.records():
        records.append(record)
        for one in (whole, *begun) if record.seq > begins else ():
            one.take(record, reader.load_plan)
        snapshot = kept.pop(record.seq, None)
        if record.seq == begins and snapshot:
            demand(whole.restore(snapshot, reader.load_plan), f"snapshot {begins} is not understood")
        elif record.seq > begins and snapshot:
            begun.append(Replayed())
            demand(begun[-1].restore(snapshot, reader.load_plan), f"snapshot {record.seq} is not understood")
            demand(_same(begun[-1], whole), f"snapshot {record.seq} is not what the journal says up to there")
    demand(not kept, f"snapshots {sorted(kept)} belong to no record")
    demand(all(_same(one, whole) for one in begun), "snapshot and tail give another state than the whole journal")
    reader.close()
    return Found(records, gone, whole)


def _is_usable(snapshot: Snapshot, reader: FileReader) -> bool:
    try:
        return Replayed().restore(snapshot, reader.load_plan)
    except BusCorrupt:
        return False


def _same(one: Replayed, other: Replayed) -> bool:
    return one.digest() == other.digest() and one.messages.dump() == other.messages.dump()


def check_state(replayed: Replayed, ledger: Ledger) -> None:
    """What is done is done by what the records say."""
    state = replayed.machine.state
    done = {task.id for task in state.order if isinstance(task.status, Done)}
    demand(done == ledger.done, f"done are {sorted(done)}, and by the records {sorted(ledger.done)}")


def check_events(disk: ModelDisk, records: list[Record], shown: Iterable[TaskId]) -> None:
    """`events/` holds what follows from the journal, and nothing else; `shown` are the tasks that are to be complete by
    other code than that which makes these files."""
    view, wanted = View(), dict[str, bytes]()
    for record in records:
        gone, come = view.apply(record)
        for name in gone:
            wanted.pop(name, None)
        wanted.update(come)
    found = disk.files(f"{BUS}/{layout.EVENTS}")
    odd = {name for name in found if name.startswith("archive.")}  # stood in the place of a folder, moved beside it
    for name in sorted((wanted.keys() | found.keys()) - odd):
        demand(wanted.get(name) == found.get(name), f"events/{name} does not follow from the journal")
    complete = {name for name in found if name.startswith("TASK_COMPLETE_")}
    demand(complete == {f"TASK_COMPLETE_{task}.event" for task in shown}, f"events/ shows {sorted(complete)}")


def check_nothing_early(disk: ModelDisk) -> None:
    """What is shown in `events/` stands in the journal: looked at before a recovery would mend it."""
    segments = [f"{BUS}/{layout.SEGMENTS}/{name}" for name in disk.names(f"{BUS}/{layout.SEGMENTS}")]
    journal = b"".join(disk.read(path) for path in [f"{BUS}/{layout.JOURNAL}", *segments] if disk.find(path))
    for name, content in disk.files(f"{BUS}/{layout.EVENTS}").items():
        if found := _EVENT_ID.search(content):
            demand(found[0] in journal, f"events/{name} was shown before its record was on disk")


_EVENT_ID = re.compile(rb'"id":"[0-9a-f]{32}"')


def check_quarantine(disk: ModelDisk, *, cut: bool, repaired: bool) -> None:
    """What was set aside has its reason beside it, and no result of an honest worker is among it.

    After a power cut the reason of what is foreign may be missing, and that of a file that a repair was just moving:
    that is not worth a sync.
    """
    files = disk.files(f"{BUS}/{layout.QUARANTINE}")
    for name, content in files.items():
        explained = name.endswith(".why") or f"{name}.why" in files
        excused = cut and (repaired or layout.JOURNAL not in name)
        demand(explained or excused, f"quarantine/{name} lies there without a reason")
        demand(cut or b"a RESULT without exit.json" not in content, f"{name}: a result came before its exit.json")


def check_left(disk: ModelDisk, owner: str) -> None:
    """Whoever came to its end in peace has left no scratch file."""
    left = [name for name in disk.names(f"{BUS}/{layout.TMP}") if layout.scratch_owner(name) == owner]
    demand(not left, f"tmp/{', '.join(left)} was left by whoever made it")


def check_swept(disk: ModelDisk, records: list[Record]) -> None:
    """After the end of a run nothing of its attempts is left but their folders."""
    recorded = {record.id[:16] for record in records}
    for name in disk.names(f"{BUS}/{layout.INBOX}"):
        demand(name.split(".")[-2] not in recorded, f"inbox/{name} is recorded and was left")
    for folder in (layout.TMP, layout.HEARTBEATS, layout.WORKER_STATUS):
        names = list(disk.names(f"{BUS}/{folder}"))
        demand(not names, f"{folder}/{', '.join(names)} was left")
