"""Whether the journal has lost its end, as far as that can be told: from what was made after its records.

A snapshot, and the folder of an attempt, are made only when the record that they follow from stands in the journal. So
a journal that ends before a snapshot, or is empty while there are attempts, was cut by somebody: to go on would do
again what was done, beside workers that live. The one exception is a power cut while records were not synced, which is
what durability `process` means: then the snapshot is of another boot.

`journal.cut` says that this is known: a repair, or a start that cut off a damaged end, made it. While it is there, each
start looks for living attempts of which the journal does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from bus import layout, snapshots
from bus.errors import BusCorrupt, BusError
from bus.folders import Folders
from bus.lines import PUT_BACK, missing
from bus.wire import AttemptId


def attempts(folders: Folders) -> Iterator[AttemptId]:
    """Yield the attempts that have a folder, in no order."""
    try:
        buckets = folders.fs.names(folders.fd(layout.ATTEMPTS))
    except BusError:  # nobody has made it yet, or it was removed
        return
    for bucket in buckets:
        try:
            names = folders.fs.names(folders.fd(f"{layout.ATTEMPTS}/{bucket}"))
        except BusError:  # no folder: `doctor` tells of it
            continue
        for name in names:
            try:
                layout.parse_attempt(name)
            except layout.LayoutError:
                continue
            yield AttemptId(name)


def is_cut(folders: Folders) -> bool:
    """Tell whether it is known that the journal has lost its end."""
    try:
        folders.fs.stat(layout.CUT, at=folders.root)
    except FileNotFoundError:
        return False
    return True


def mark_cut(folders: Folders) -> None:
    """Let it be known, on disk when this returns."""
    with suppress(FileExistsError):  # by one who may have been killed before it was on disk
        folders.fs.create(layout.CUT, b"", at=folders.root, sync=True)
    folders.fs.sync(folders.root)


def forget_cut(folders: Folders) -> None:
    """No attempt lives any more of which the journal does not tell. On a disk that cannot be written the next start
    finds that out."""
    with suppress(OSError):
        folders.clear(layout.CUT)


def ahead(folders: Folders, last: int, newest: int | None = None) -> Iterator[snapshots.Kept]:
    """Yield the sound snapshots that were taken behind record `last`; none above `newest`."""
    for seq in snapshots.seqs(folders):
        if seq > last and (newest is None or seq <= newest):
            kept = snapshots.read(folders, seq)
            if kept is not None:
                yield kept


def is_excused(folders: Folders, kept: snapshots.Kept) -> bool:
    """Tell whether a power cut may have taken the records that this snapshot follows from."""
    return kept.unsynced not in ("", folders.fs.boot())


def lost_end(folders: Folders, last: int, newest: int | None = None) -> BusCorrupt | None:
    """The error where the journal, which ends with record `last`, has lost what stood behind; None where it has not.

    A reader names the newest snapshot that it saw before it read the journal: later ones may be of later records.
    """
    for kept in ahead(folders, last, newest):
        if not is_excused(folders, kept):
            seq = kept.snapshot.seq
            return _lost(f"{missing(last + 1, seq)}, as a snapshot was taken after record {seq}", last)
    if last == 0 and not is_cut(folders) and any(True for _ in attempts(folders)):
        return _lost("all records are missing, and there are attempts that they told of", last)
    return None


def _lost(what: str, last: int) -> BusCorrupt:
    """Records may have been sealed or not: which file held them, nothing tells any more."""
    where = f"{layout.SEGMENTS}/ and {layout.JOURNAL} hold none" + (f" behind record {last}" if last else "")
    return BusCorrupt(
        f"the journal is damaged: {what}; {where}", path=layout.SEGMENTS if last == 0 else layout.JOURNAL, hint=PUT_BACK
    )
