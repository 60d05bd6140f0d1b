"""What must hold of a bus after every recovery, read from the model disk by other code than what wrote it."""

from __future__ import annotations

from bus import layout
from bus.projection import View
from bus.reader import open_reader
from bus.wire import Record
from conductor.runtime.replay import Replayed
from conductor.testing.disk import ModelDisk
from conductor.testing.ledger import demand
from conductor.testing.simulated.conductor import BUS


def read_journal(disk: ModelDisk) -> tuple[list[Record], str]:
    """Return the whole journal, and the hash of what follows from it, which must be the same from a snapshot on."""
    whole, short = Replayed(), Replayed()
    reader = open_reader(BUS, fs=disk.process("check"))
    records = list(reader.records())
    for record in records:
        whole.take(record, reader.load_plan)
    reader.follow(short)
    reader.close()
    demand(whole.digest() == short.digest(), "snapshot and tail give another state than the whole journal")
    return records, whole.digest()


def check_events(disk: ModelDisk, records: list[Record]) -> None:
    """`events/` holds what follows from the journal, and nothing else."""
    view, wanted = View(), dict[str, bytes]()
    for record in records:
        gone, come = view.apply(record)
        for name in gone:
            wanted.pop(name, None)
        wanted.update(come)
    found = disk.files(f"{BUS}/{layout.EVENTS}")
    for name in sorted(wanted.keys() | found.keys()):
        demand(wanted.get(name) == found.get(name), f"events/{name} does not follow from the journal")


def check_quarantine(disk: ModelDisk, *, cut: bool) -> None:
    """What was set aside has its reason beside it. After a power cut only what is ours: foreign things are not worth
    a sync."""
    names = disk.files(f"{BUS}/{layout.QUARANTINE}").keys()
    for name in names:
        explained = name.endswith(".why") or f"{name}.why" in names
        demand(explained or (cut and layout.JOURNAL not in name), f"quarantine/{name} lies there without a reason")


def check_swept(disk: ModelDisk, records: list[Record]) -> None:
    """After the end of a run nothing of its attempts is left but their folders."""
    recorded = {record.id[:16] for record in records}
    for name in disk.names(f"{BUS}/{layout.INBOX}"):
        demand(name.split(".")[-2] not in recorded, f"inbox/{name} is recorded and was left")
    for folder in (layout.TMP, layout.HEARTBEATS, layout.WORKER_STATUS):
        names = list(disk.names(f"{BUS}/{folder}"))
        demand(not names, f"{folder}/{', '.join(names)} was left")
