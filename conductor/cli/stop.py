"""`conductor stop`: an operator's order to the conductor that runs a track, and the wait until it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from bus.contract import Holder, Reader, Snapshot
from bus.errors import BusGone
from bus.wire import Record
from conductor.cli.guard import refuse_from_worker
from conductor.cli.holder import how_to_wake, is_suspended
from conductor.cli.operator import operator
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.output import err, out, print_json
from conductor.cli.polling import pause
from conductor.cli.track import Track, resolve, taking

if TYPE_CHECKING:
    from bus.reader import FileReader
    from conductor.cli.load import Loaded

SAY_AFTER = 5.0
"""Seconds of waiting after which we say what for."""

LOOK_EVERY = 0.1

LoadPlan = Callable[[str], bytes]


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


class Wait:
    """Waits for a conductor and says so once: at the first look where it is suspended, else after a while."""

    def __init__(self) -> None:
        self._waited = 0.0
        self._said: set[str] = set()

    def pause(self, holder: Holder) -> None:
        """Let some time pass."""
        who = f"the conductor (pid {holder.pid} on {holder.host})"
        if is_suspended(holder):
            self._say("suspended", f"{who} is suspended and takes no orders; {how_to_wake(holder)}. Waiting for that …")
        elif self._waited >= SAY_AFTER:
            self._say("slow", f"waiting for {who} to take the order …")
        pause(LOOK_EVERY)
        self._waited += LOOK_EVERY

    def _say(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            err(text)


def _stop(track: Track, verb: str) -> Outcome:
    from bus.reader import open_reader

    try:
        reader = open_reader(track.bus)
    except BusGone:
        if track.bus.exists():
            raise
        return Outcome("not_running", f"nothing is running: {track.no_bus()}")
    wait = Wait()
    holder = reader.holder()
    while holder is not None and holder.epoch == 0:  # it recovers: orders are bound to an epoch, and it has none yet
        wait.pause(holder)
        holder = reader.holder()
    if holder is None:
        return _take_over(track, reader, verb)
    return _order(track, reader, holder, verb, wait)


def _order(track: Track, reader: FileReader, holder: Holder, verb: str, wait: Wait) -> Outcome:
    from bus.control import drop

    seq = _last_seq(reader)
    who = operator()
    drop(track.bus, verb, who=who, epoch=holder.epoch)
    while True:
        # Asked first: what a conductor recorded before it went is then found.
        now = reader.holder()
        fresh = list(reader.records(seq))
        seq = fresh[-1].seq if fresh else seq
        end = next((str(record.payload.get("state")) for record in fresh if record.type == "RUN_ENDED"), None)
        if end not in (None, "stopped"):
            return Outcome("ended", f"the run had ended meanwhile: {end}")
        if any(_is_order(record, verb, who) for record in fresh):
            return Outcome("recorded", _recorded_text(track, verb, ended=end is not None))
        if end is not None:
            return Outcome("ended", f"the run had ended meanwhile: {end}")
        if now is None:
            return _without(track, reader, verb)
        if now.epoch != holder.epoch:
            return _stop(track, verb)
        wait.pause(now)


def _is_order(record: Record, verb: str, who: str) -> bool:
    payload = record.payload
    return record.type == "CONTROL" and payload.get("verb") == verb and who in str(payload.get("who"))


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


class _End:
    """Follows the journal only to know where it ends: from the newest snapshot, whatever that holds."""

    seq = 0

    def restore(self, snapshot: Snapshot, load_plan: LoadPlan) -> bool:
        """Begin behind it."""
        self.seq = snapshot.seq
        return True

    def take(self, record: Record, load_plan: LoadPlan) -> None:
        """Pass it over."""
        self.seq = record.seq

    def dump(self) -> None:
        """There is nothing to keep."""


def _last_seq(reader: Reader) -> int:
    end = _End()
    reader.follow(end)
    return end.seq
