"""What must hold of a bus after every recovery, read from the model disk by other code than what wrote it."""

from __future__ import annotations

import re

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
    digest = whole.digest()
    if disk.names(f"{BUS}/{layout.SNAPSHOTS}"):
        reader.follow(short)
        demand(digest == short.digest(), "snapshot and tail give another state than the whole journal")
    reader.close()
    return records, digest


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


def check_nothing_early(disk: ModelDisk) -> None:
    """What is shown in `events/` stands in the journal: looked at before a recovery would mend it."""
    segments = [f"{BUS}/{layout.SEGMENTS}/{name}" for name in disk.names(f"{BUS}/{layout.SEGMENTS}")]
    journal = b"".join(disk.read(path) for path in [f"{BUS}/{layout.JOURNAL}", *segments] if disk.find(path))
    for name, content in disk.files(f"{BUS}/{layout.EVENTS}").items():
        if found := _EVENT_ID.search(content):
            demand(found[0] in journal, f"events/{name} was shown before its record was on disk")


_EVENT_ID = re.compile(rb'"id":"[0-9a-f]{32}"')


def check_quarantine(disk: ModelDisk, *, cut: bool) -> None:
    """What was set aside has its reason beside it, and no result of an honest worker is among it.

    After a power cut the reason of what is foreign may be missing: that is not worth a sync.
    """
    files = disk.files(f"{BUS}/{layout.QUARANTINE}")
    for name, content in files.items():
        explained = name.endswith(".why") or f"{name}.why" in files
        demand(explained or (cut and layout.JOURNAL not in name), f"quarantine/{name} lies there without a reason")
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
