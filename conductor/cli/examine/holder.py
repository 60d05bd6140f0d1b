"""Whether a conductor has the track with another bus, which that bus alone tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from bus.errors import HeldByOther
from conductor.cli.examine.finding import Finding, note
from conductor.cli.track import Track
from conductor.runtime.track_lock import TrackLock


def held_elsewhere(track: Track) -> Iterator[Finding]:
    """Ask for the lock on the track's folder, as a run does."""
    try:
        with closing(TrackLock(track.dir, track.bus)) as lock:
            lock.check()
    except HeldByOther as error:
        yield note("holder_elsewhere", f"{error.message}: a run with this one is refused", error.hint)
