"""`doctor --repair`: save what can be saved of a damaged bus, and say what was lost. Nothing else here writes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bus.errors import BusError, BusGone
from bus.repair import repair
from conductor.cli.examine.finding import Finding, fine, note
from conductor.cli.examine.root import as_problem
from conductor.cli.guard import refuse_from_worker
from conductor.cli.load import open_track
from conductor.cli.track import Track, taking
from conductor.runtime.refreeze import plan_again
from conductor.runtime.replay import Replayed, replay


def mend(track: Track) -> Iterator[Finding]:
    """Repair the bus of a track. Raises HeldByOther while a conductor holds it, `from_worker` inside its workers."""
    refuse_from_worker(track)
    try:
        with taking(track):
            lost = repair(track.bus, follower=Replayed(), plan_again=partial(plan_again, track.dir))
    except BusGone:
        if track.bus.exists():
            raise
        yield fine("bus", f"there is no bus at {track.bus}: nothing to repair")
        return
    go_on = f"look: `{track.command('status')}`, then go on: `{track.command('run')}`"
    for one in lost:
        yield note("repair", one, go_on if one is lost[-1] else None)
    if not lost:
        yield fine("repair", "nothing was damaged, and nothing was changed")
    yield _after(track)


def _after(track: Track) -> Finding:
    """Make sure that a start can read it now."""
    try:
        reader = open_track(track)
        if reader is not None:
            replay(reader)
    except BusError as error:
        return as_problem(error)
    return fine("repaired", "the journal can be read to its end")
