"""Whether the snapshots, and a start from one, say what a replay of the whole journal says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from bus.contract import Reader, Snapshot
from bus.errors import BusCorrupt
from conductor.runtime.replay import Replayed, replay

_GAP = "records are lost, as a repair said, and it stands for them"


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one comparison."""

    seq: int
    """The record behind which the compared states belong."""
    ok: bool
    text: str
    """What was compared and how it came out, as a sentence."""


def verify(reader: Reader) -> Iterator[Finding]:
    """Replay the whole journal, compare each snapshot at its place, and compare the state at the end with what a start
    from the newest snapshot makes of it. Raises BusError where the journal itself is damaged.

    Where a repair had to give records up, it begins with the oldest snapshot behind them.
    """
    kept = {one.seq: one for one in reader.snapshots()}
    any_kept = bool(kept)
    whole = Replayed()
    lost = max((last for _, last in reader.lost()), default=0)
    if lost:
        first = _bridge(kept, lost, reader, whole)
        yield Finding(first, True, f"what stands before the snapshot after record {first} cannot be compared: {_GAP}")
    for record in reader.records(whole.last_seq):
        whole.take(record, reader.load_plan)
        snapshot = kept.pop(record.seq, None)
        if snapshot is not None:
            yield _compare(snapshot, whole, reader)
    for seq in kept:
        yield Finding(seq, False, f"the snapshot after record {seq} belongs to no record of the journal")
    if any_kept:
        yield _end(whole, reader)
    else:
        text = (
            f"the whole journal can be replayed, all {whole.last_seq} records; there is no snapshot to compare with it"
        )
        yield Finding(whole.last_seq, True, text)


def _bridge(kept: dict[int, Snapshot], lost: int, reader: Reader, whole: Replayed) -> int:
    """Restore the oldest snapshot behind the last gap, and drop it and those before it from `kept`; return its seq."""
    for seq in sorted(kept):
        snapshot = kept.pop(seq)
        with suppress(BusCorrupt):  # its plan may be among what was lost: a start takes a newer one
            if seq >= lost and whole.restore(snapshot, reader.load_plan):
                return seq
    reader.follow(whole)  # which says that nothing leads over the gap
    return whole.last_seq


def _compare(snapshot: Snapshot, whole: Replayed, reader: Reader) -> Finding:
    restored = Replayed()
    name = f"the snapshot after record {snapshot.seq}"
    if not restored.restore(snapshot, reader.load_plan):
        return Finding(snapshot.seq, True, f"{name} was written by another version and is not used")
    if restored.digest() == whole.digest():
        return Finding(snapshot.seq, True, f"{name} is what the journal says")
    return Finding(snapshot.seq, False, f"{name} is not what the journal says up to there")


def _end(whole: Replayed, reader: Reader) -> Finding:
    """Compare at the same place: records that came meanwhile are taken in by the whole replay too."""
    started = replay(reader)
    for record in reader.records(whole.last_seq):
        if record.seq > started.last_seq:
            break
        whole.take(record, reader.load_plan)
    same = started.digest() == whole.digest()
    text = (
        f"a start from the newest snapshot and a replay of all {whole.last_seq} records give the same state"
        if same
        else f"a start from the newest snapshot gives another state than a replay of all {whole.last_seq} records"
    )
    return Finding(whole.last_seq, same, text)
