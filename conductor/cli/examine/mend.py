"""`doctor --repair`: save what can be saved of a damaged bus, and say what was lost. Nothing else here writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from bus.errors import BusError, BusGone
from bus.repair import repair, told_done
from conductor.cli.examine.finding import Finding, fine, note
from conductor.cli.examine.root import as_problem
from conductor.cli.guard import refuse_from_worker
from conductor.cli.load import open_track
from conductor.cli.track import Track, taking
from conductor.core.wording import plural
from conductor.runtime.lost_work import LostWork, lost_work
from conductor.runtime.refreeze import plan_again
from conductor.runtime.replay import Replayed, replay
from conductor.runtime.strangers import refusal, strangers_of


def mend(track: Track) -> Iterator[Finding]:
    """Repair the bus of a track. Raises HeldByOther while a conductor holds it, `from_worker` inside its workers."""
    refuse_from_worker(track)
    try:
        with taking(track):
            told = _told_done(track)
            lost = repair(track.bus, follower=Replayed(), plan_again=partial(plan_again, track.dir))
    except BusGone:
        if track.bus.exists():
            raise
        yield fine("bus", f"there is no bus at {track.bus}: nothing to repair")
        return
    go_on = f"look: `{track.command('status')}`, then go on: `{track.command('run')}`"
    for one in lost:
        yield note("repair", one, go_on if one is lost[0] else None)
    if not lost:
        yield fine("repair", "nothing was damaged, and nothing was changed")
    yield from _after(track, told)


def _told_done(track: Track) -> list[str]:
    """What the records tell before some of them are set aside; a repair that cannot begin says why itself."""
    with suppress(BusError, OSError):
        return told_done(track.bus)
    return []


def _after(track: Track, told: list[str]) -> Iterator[Finding]:
    """Make sure that a start can read it now, and say what becomes of work that it does not tell of."""
    try:
        reader = open_track(track)
        if reader is not None:
            replayed = replay(reader)
            yield fine("repaired", "the journal can be read to its end")
            yield from _work(lost_work(reader, replayed, told))
            if strangers := strangers_of(reader, replayed):
                error = refusal(reader, strangers)
                yield note("repair", error.message, error.hint)
    except BusError as error:
        yield as_problem(error)


def _work(lost: LostWork) -> Iterator[Finding]:
    if lost.found:
        text = f"{plural(len(lost.found), 'task')} done meanwhile: the run that goes on finds the results again"
        yield fine("found_again", text, details=lost.found)
    if lost.again:
        number, one = len(lost.again), len(lost.again) == 1
        text = (
            f"{plural(number, 'task')} {'was' if one else 'were'} done, and the journal does not tell of it any more: "
            f"a run does {'it' if one else 'them'} again"
        )
        yield note("done_again", text, "to leave one out, tick its box in the plan before the run", details=lost.again)
