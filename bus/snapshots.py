"""`snapshots/<seq>.json`: a state that follows from the journal, so that a start reads only what came behind it.

Three lines: what it is of and where in the journal it belongs, the state, and a checksum over both. A snapshot is only
a saving. It is not synced, and one that is torn or whose place is not found in the journal is passed over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from bus import layout
from bus._fs import Refused
from bus.contract import Snapshot
from bus.errors import BusGone
from bus.folders import Folders
from bus.wire import JsonObject, dumps

FORMAT = 1
KEPT = 2
"""Snapshots that are kept: the newest, and the one before it for when the newest cannot be used."""

MAX_SNAPSHOT = 1 << 30


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the journal a snapshot belongs: behind this line."""

    file: int
    """First seq of the file that holds the line."""
    end: int
    """Offset of the byte behind it."""
    crc: str
    """Its checksum."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot that was read back whole."""

    snapshot: Snapshot
    place: Place
    size: int
    """Bytes of its file."""


def write(folders: Folders, scratch: str, snapshot: Snapshot, place: Place) -> int:
    """Keep a snapshot, then remove all but the last KEPT; return its size. Raises OSError where the disk is full."""
    head = {
        "format": FORMAT,
        "seq": snapshot.seq,
        "epoch": snapshot.epoch,
        "place": {"file": place.file, "end": place.end, "crc": place.crc},
    }
    body = f"{dumps(head)}\n{dumps(snapshot.state)}\n".encode()
    whole = b"%ssha256:%s\n" % (body, hashlib.sha256(body).hexdigest().encode())
    at = folders.refresh(layout.SNAPSHOTS)
    folders.fs.replace(scratch, folders.refresh(layout.TMP), layout.snapshot_name(snapshot.seq), at, whole)
    for seq in _seqs(folders)[KEPT:]:
        folders.fs.discard(layout.snapshot_name(seq), at)
    return len(whole)


def read_all(folders: Folders) -> Iterator[Kept]:
    """Yield the snapshots that are whole, newest first. Whether their place fits the journal is for the reader."""
    for seq in _seqs(folders):
        try:
            found = read(folders, seq)
        except FileNotFoundError:  # a newer one came, and this one went
            continue
        if found is not None:
            yield found


def read(folders: Folders, seq: int) -> Kept | None:
    """Read one snapshot; None where it is torn or none of ours."""
    at = folders.fd(layout.SNAPSHOTS)
    try:
        whole = folders.fs.read_file(layout.snapshot_name(seq), at=at, cap=MAX_SNAPSHOT)
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
        place = Place(head["place"]["file"], head["place"]["end"], head["place"]["crc"])
        return Kept(Snapshot(seq, head["epoch"], json.loads(state)), place, len(whole))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _seqs(folders: Folders) -> list[int]:
    """The seqs of the snapshots that are there, newest first."""
    try:
        names = folders.fs.names(folders.fd(layout.SNAPSHOTS))
    except BusGone:  # a bus that was made before there were snapshots
        return []
    return sorted((seq for name in names if (seq := layout.parse_snapshot_name(name)) is not None), reverse=True)
