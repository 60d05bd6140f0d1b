"""`conductor stop`: an operator's order to the conductor that runs a track, and the wait until it is recorded."""

from __future__ import annotations

import getpass
from dataclasses import dataclass

import click

from bus.contract import Holder, Reader
from bus.errors import BusGone
from bus.wire import AttemptId
from conductor.cli.guard import refuse_from_worker
from conductor.cli.options import bus_dir_option, json_option, track_argument
from conductor.cli.output import err, out, plural, print_json
from conductor.cli.polling import pause
from conductor.cli.track import Track, resolve

SAY_AFTER = 5.0
"""Seconds of waiting after which we say what we wait for."""

LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    state: str
    """`recorded`; `ended`: the run ended by itself meanwhile; `not_running`; `orphans`: workers of a dead conductor."""
    text: str
    alive: tuple[AttemptId, ...] = ()


@click.command()
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
        print_json({"state": outcome.state, "message": outcome.text, "alive": list(outcome.alive)}, pretty=False)
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
    if holder is None:
        return _nobody(track, reader)
    return _order(track, reader, holder, verb, say=say)


def _order(track: Track, reader: Reader, holder: Holder, verb: str, *, say: bool) -> Outcome:
    from bus.control import drop

    seq = _last_seq(reader, 0)
    who = _user()
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
    return f"recorded: {now}.\nLook on: {track.command('status')}\nGo on later: {track.command('run')}"


def _nobody(track: Track, reader: Reader) -> Outcome:
    from conductor.cli.load import load

    alive = load(reader).alive()
    if not alive:
        return Outcome("not_running", "nothing is running")
    return Outcome(
        "orphans",
        f"no conductor is running, but {plural(len(alive), 'worker')} of an earlier one still "
        f"{'works' if len(alive) == 1 else 'work'}: {', '.join(alive)}\n"
        f"Take them over: {track.command('run')}, then stop that with Ctrl-C twice",
        alive,
    )


def _last_seq(reader: Reader, seq: int) -> int:
    for record in reader.records(seq):
        seq = record.seq
    return seq


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"
