"""`snapshots/<seq>.json`: a state that follows from the journal, so that a start reads only what came behind it.

Three lines: what it is of and where in the journal it belongs, the state, and a checksum over both. A snapshot is only
a saving. It is not synced, and one that is torn or whose place is not found in the journal is passed over. Only where a
repair had to give records up it is more: the state behind the gap stands nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bus import layout
from bus._fs import Refused
from bus.contract import Snapshot
from bus.folders import Folders
from bus.segments import Place, listed
from bus.wire import JsonObject, dumps

FORMAT = 1
KEPT = 2
"""Snapshots that are kept: the newest, and the one before it for when the newest cannot be used."""

EVERY = 4 << 20
"""Bytes of journal after which a snapshot pays, unless it is itself more than twice as large as they are."""

MAX_SNAPSHOT = 1 << 30


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot that was read back whole."""

    snapshot: Snapshot
    place: Place
    events: Mapping[str, str]
    """What `events/` must hold then: `bus.projection.View.dump`."""
    boot: str
    """The boot in which it was written; empty where `events/` had not been looked at in it yet."""
    size: int
    """Bytes of its file."""
    unsynced: str
    """The boot with which the records that it follows from may be lost; empty where they were on disk."""


class Keeper:
    """Decides when a snapshot is due, and keeps it. One: the host's."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.behind = 0
        """Bytes of journal behind the newest snapshot."""
        self.seen = False
        """Whether `events/` was compared with the journal in this boot: until then a snapshot names no boot, and the
        next start looks into the files again."""
        self.overdue = False
        """Whether another one pays however little is behind the newest: a recovery was long."""
        self._size = 0

    def begin(self, kept: Kept | None) -> None:
        """Count from this snapshot on."""
        self.behind, self._size = 0, kept.size if kept else 0

    def is_due(self, share: float = 0.5, at_least: int | None = None) -> bool:
        """Tell whether so much was journaled since that another one pays: `share` of the size of the last one."""
        return self.overdue or self.behind >= max(EVERY if at_least is None else at_least, share * self._size)

    def keep(self, scratch: str, snapshot: Snapshot, place: Place, events: Mapping[str, str], *, synced: bool) -> None:
        """Write a snapshot; where that is impossible now, nothing happens until the next one is due. `synced` says
        whether the journal is on disk."""
        self.behind, self.overdue = 0, False
        try:
            boot = self._folders.fs.boot() if self.seen else ""
            self._size = write(self._folders, scratch, snapshot, place, events, boot, synced=synced)
        except OSError:  # a full disk, a folder in its place, our scratch swept by a successor: no run ends for that
            return


def write(
    folders: Folders,
    scratch: str,
    snapshot: Snapshot,
    place: Place,
    events: Mapping[str, str],
    boot: str,
    *,
    synced: bool,
) -> int:
    """Keep a snapshot, then remove all but the last KEPT; return its size. Raises OSError.

    Where records were lost it is synced: no start gets over the gap without one.
    """
    head = {
        "format": FORMAT,
        "seq": snapshot.seq,
        "epoch": snapshot.epoch,
        "place": {"file": place.file, "end": place.end, "crc": place.crc},
        "events": events,
        "boot": boot,
        "unsynced": "" if synced else folders.fs.boot(),
    }
    body = f"{dumps(head)}\n{dumps(snapshot.state)}\n".encode()
    whole = b"%ssha256:%s\n" % (body, hashlib.sha256(body).hexdigest().encode())
    at = folders.refresh(layout.SNAPSHOTS)
    needed = any(segment.lost for segment in listed(folders))
    name = layout.snapshot_name(snapshot.seq)
    folders.fs.replace(scratch, folders.refresh(layout.TMP), name, at, whole, sync=needed)
    present = seqs(folders)
    later = [seq for seq in present if seq > snapshot.seq]  # of a journal that has lost its end since
    for seq in (*later, *present[len(later) + KEPT :]):
        folders.fs.discard(layout.snapshot_name(seq), at)
    return len(whole)


def read_all(folders: Folders) -> Iterator[Kept]:
    """Yield the snapshots that are whole, newest first. Whether their place fits the journal is for the reader."""
    for seq in seqs(folders):
        try:
            found = read(folders, seq)
        except FileNotFoundError:  # a newer one came, and this one went
            continue
        if found is not None:
            yield found


def read(folders: Folders, seq: int) -> Kept | None:
    """Read one snapshot; None where it is torn or none of ours."""
    try:
        whole = folders.read(layout.SNAPSHOTS, layout.snapshot_name(seq), cap=MAX_SNAPSHOT)
    except Refused:
        return None
    first, _, rest = whole.partition(b"\n")
    state, _, checksum = rest.partition(b"\n")
    body = len(first) + len(state) + 2
    if checksum != b"sha256:%s\n" % hashlib.sha256(whole[:body]).hexdigest().encode():
        return None
    try:
        head: JsonObject = json.loads(first)
        if head["format"] != FORMAT or head["seq"] != seq:
            return None
        place = Place(int(head["place"]["file"]), int(head["place"]["end"]), str(head["place"]["crc"]))
        found = Snapshot(seq, head["epoch"], json.loads(state))
        return Kept(found, place, head["events"], head["boot"], len(whole), head.get("unsynced", ""))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def seqs(folders: Folders) -> list[int]:
    """The seqs of the snapshots that are there, newest first."""
    names = folders.names(layout.SNAPSHOTS)
    return sorted((seq for name in names if (seq := layout.parse_snapshot_name(name)) is not None), reverse=True)
