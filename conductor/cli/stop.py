"""`conductor stop`: an operator's order to the conductor that runs a track, and the wait until it is recorded."""

from __future__ import annotations

from dataclasses import dataclass

import click

from bus.contract import Holder, Reader
from bus.errors import BusGone
from bus.wire import Record
from conductor.cli.guard import refuse_from_worker
from conductor.cli.operator import operator
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.output import err, out, print_json
from conductor.cli.polling import pause
from conductor.cli.track import Track, resolve, taking

SAY_AFTER = 5.0
"""Seconds of waiting after which we say what we wait for."""

LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    state: str
    """`recorded`; `ended`: the run ended by itself meanwhile; `not_running`; `taken_over`: the conductor had died, and
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
    outcome = _stop(place, "drain" if drain else "stop", say=not as_json)
    if as_json:
        print_json({"state": outcome.state, "message": outcome.text}, pretty=False)
    else:
        out(outcome.text)
    return 0


def _stop(track: Track, verb: str, *, say: bool) -> Outcome:
    from bus.reader import open_reader

    try:
        reader = open_reader(track.bus)
    except BusGone:
        if track.bus.exists():
            raise
        return Outcome("not_running", "nothing is running: this track was never run")
    holder = reader.holder()
    while holder is not None and holder.epoch == 0:  # it recovers: orders are bound to an epoch, and it has none yet
        pause(LOOK_EVERY)
        holder = reader.holder()
    if holder is None:
        return _take_over(track, reader, verb)
    return _order(track, reader, holder, verb, say=say)


def _order(track: Track, reader: Reader, holder: Holder, verb: str, *, say: bool) -> Outcome:
    from bus.control import drop

    seq = _last_seq(reader, 0)
    who = operator()
    drop(track.bus, verb, who=who, epoch=holder.epoch)
    waited = 0.0
    while True:
        for record in reader.records(seq):
            seq = record.seq
            if (
                record.type == "CONTROL"
                and record.payload.get("verb") == verb
                and who in str(record.payload.get("who"))
            ):
                return Outcome("recorded", _recorded_text(track, verb))
        now = reader.holder()
        if now is None or now.epoch != holder.epoch:
            return Outcome("ended", "the run ended by itself meanwhile")
        pause(LOOK_EVERY)
        waited += LOOK_EVERY
        if say and waited >= SAY_AFTER:
            say = False
            err(f"waiting for the conductor (pid {holder.pid} on {holder.host}) to take the order …")


def _recorded_text(track: Track, verb: str) -> str:
    now = (
        "the run starts nothing more and ends with its workers" if verb == "drain" else "the workers are being stopped"
    )
    stop = f"Stop them: {track.command('stop')}\n" if verb == "drain" else ""
    return f"recorded: {now}.\n{stop}Look on: {track.command('status')}\nGo on later: {track.command('run')}"


def _take_over(track: Track, reader: Reader, verb: str) -> Outcome:
    """End the run of a conductor that died: hold the track, adopt its workers, stop them, record it."""
    from conductor.cli.load import load

    if load(reader).view.state != "interrupted":
        return Outcome("not_running", "nothing is running")

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


def _last_seq(reader: Reader, seq: int) -> int:
    for record in reader.records(seq):
        seq = record.seq
    return seq
