"""`conductor fail`: say that the work of a person cannot be done."""

from __future__ import annotations

import click

from conductor.cli.options import because_option, bus_dir_option, examples, json_option, tasks_argument, track_argument
from conductor.cli.steering import Result, Steered, begin, steer


@click.command(epilog=examples(("fail my-track 2.1 -m 'nobody has the key'", "")))
@track_argument
@tasks_argument
@because_option
@json_option("One JSON object.")
@bus_dir_option
def fail(track: str, tasks: tuple[str, ...], message: str | None, as_json: bool, bus_dir: str | None) -> int:
    """Say that TASKs of TRACK failed which a person does (`agent: manual`)."""
    steered = begin(track, bus_dir)
    return steer(steered, steered.orders("fail", tasks, message), _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    return f"{result.order.target} has failed."
