"""`conductor pause`: nothing new is started until `resume`; what runs goes on."""

from __future__ import annotations

import click

from conductor.cli.options import because_option, bus_dir_option, examples, json_option, track_argument
from conductor.cli.ordering import Order
from conductor.cli.steering import Result, Steered, begin, steer
from conductor.core.wording import plural


@click.command(epilog=examples(("pause my-track", "start nothing more for now"), ("resume my-track", "go on")))
@track_argument
@because_option
@json_option("One JSON object.")
@bus_dir_option
def pause(track: str, message: str | None, as_json: bool, bus_dir: str | None) -> int:
    """Start nothing new in TRACK until `resume`. What runs goes on, and the run stays open."""
    return steer(begin(track, bus_dir), [Order("pause", None, message)], _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    resume = f"Go on:    {steered.track.command('resume')}"
    if not result.live:
        return f"recorded: the next run starts paused.\n{resume}"
    workers = sum(task.worker is not None for task in steered.view.tasks)
    on = f"; {plural(workers, 'worker')} {'goes' if workers == 1 else 'go'} on" if workers else ""
    return f"paused: nothing new is started{on}.\n{resume}"
