"""`conductor resume`: go on after `pause`, and with what waits for a provider."""

from __future__ import annotations

import click

from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.ordering import Order
from conductor.cli.steering import Result, Steered, begin, steer


@click.command(epilog=examples(("resume my-track", "start what is ready again")))
@track_argument
@json_option("One JSON object.")
@bus_dir_option
def resume(track: str, as_json: bool, bus_dir: str | None) -> int:
    """Let TRACK start tasks again: after `pause`, and of kinds of workers that were held back.

    A kind of workers is held back while its provider refuses work (a limit, a login, a bill), or where too many of its
    attempts failed in a row. This tries it again at once.
    """
    return steer(begin(track, bus_dir), [Order("resume")], _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    return "the run goes on." if result.live else "recorded: the next run is not paused."
