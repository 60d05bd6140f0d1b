"""`conductor stop`: an operator's order to the conductor that runs a track, and the wait until it is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from bus.errors import BusGone
from bus.wire import Record
from conductor.cli.guard import refuse_from_worker
from conductor.cli.operator import operator
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.ordering import Handing, Order, Wait, holder_of
from conductor.cli.output import err, out, print_json
from conductor.cli.track import Track, resolve, taking

if TYPE_CHECKING:
    from bus.reader import FileReader
    from conductor.cli.load import Loaded


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    state: str
    """`recorded`; `ended`: the run had ended meanwhile; `not_running`; `taken_over`: the conductor had died, and
    we ended its run in its place."""
    text: str


@click.command(epilog=examples(("stop my-track", "end the workers now"), ("stop my-track --drain", "let them finish")))
@track_argument
@click.option("--drain", is_flag=True, help="Start nothing more, but let the workers finish.")
@json_option("One JSON object.")
@bus_dir_option
def stop(track: str, drain: bool, as_json: bool, bus_dir: str | None) -> int:
    """End the run of TRACK: stop its workers, or let them finish with --drain. What is done stays done."""
    place = resolve(track, bus_dir)
    refuse_from_worker(place)
    outcome = _stop(place, "drain" if drain else "stop")
    if as_json:
        print_json({"state": outcome.state, "message": outcome.text}, pretty=False)
    else:
        out(outcome.text)
    return 0


def _stop(track: Track, verb: str) -> Outcome:
    from bus.reader import open_reader

    try:
        reader = open_reader(track.bus)
    except BusGone:
        if track.bus.exists():
            raise
        return Outcome("not_running", f"nothing is running: {track.no_bus()}")
    wait = Wait()
    while (holder := holder_of(reader, wait)) is not None:
        handing = Handing(track, reader, holder, Order(verb), wait)
        given = handing.look_on()
        if given.ended not in (None, "stopped"):
            return Outcome("ended", f"the run had ended meanwhile: {given.ended}")
        if given.record:
            return Outcome("recorded", _recorded_text(track, verb, ended=given.ended is not None))
        if given.ended:
            return Outcome("ended", f"the run had ended meanwhile: {given.ended}")
        if given.holder is None:
            return _without(track, reader, verb)
    return _take_over(track, reader, verb)


def _without(track: Track, reader: FileReader, verb: str) -> Outcome:
    """The conductor went without taking the order: it died, or there was nothing to do for it any more."""
    found = _take_over(track, reader, verb)
    return found if found.state == "taken_over" else Outcome("ended", "the run had ended meanwhile")


def _recorded_text(track: Track, verb: str, *, ended: bool) -> str:
    now = (
        "the run has ended"
        if ended
        else "the run starts nothing more and ends with its workers"
        if verb == "drain"
        else "the workers are being stopped"
    )
    stop = f"Stop them: {track.command('stop')}\n" if verb == "drain" and not ended else ""
    return f"recorded: {now}.\n{stop}Look on: {track.command('status')}\nGo on later: {track.command('run')}"


def _take_over(track: Track, reader: FileReader, verb: str) -> Outcome:
    """End the run of a conductor that died: hold the track, adopt its workers, stop them, record it."""
    from conductor.cli.load import load

    loaded = load(reader)
    if loaded.view.state != "interrupted":
        return Outcome("not_running", _nothing_runs(loaded))

    from conductor.config import Flags
    from conductor.core.events import ControlReceived
    from conductor.runtime.session import Session
    from conductor.runtime.start import Request

    with taking(track), Session(Request(track.dir, track.bus, Flags(), to_stop=True)) as session:
        if session.start.goes_on:
            session.run(Silent(), then=[ControlReceived(verb, f"operator:{operator()}")])
    return Outcome(
        "taken_over", f"the conductor had died; its run is ended and recorded.\nGo on later: {track.command('run')}"
    )


def _nothing_runs(loaded: Loaded) -> str:
    """Say so, and what lives all the same: it is no run's any more, so no conductor can be told to stop it."""
    from conductor.cli.strangers import strangers_text

    said = strangers_text(loaded)
    return f"nothing is running that the journal tells of, but {said}" if said else "nothing is running"


class Silent:
    """An observer that shows nothing."""

    def recorded(self, records: list[Record]) -> None:
        """Nothing to show."""

    def tick(self) -> float | None:
        """Nothing to show."""
        return None

    def trouble(self, text: str) -> None:
        """Say it all the same: somebody waits for the end."""
        err(text)
