"""`conductor complete`: say that the work of a person is done."""

from __future__ import annotations

import click

from conductor.cli.options import because_option, bus_dir_option, examples, json_option, tasks_argument, track_argument
from conductor.cli.steering import Result, Steered, begin, steer


@click.command(epilog=examples(("complete my-track 2.1 -m 'the key is in the vault'", "")))
@track_argument
@tasks_argument
@because_option
@json_option("One JSON object.")
@bus_dir_option
def complete(track: str, tasks: tuple[str, ...], message: str | None, as_json: bool, bus_dir: str | None) -> int:
    """Say that TASKs of TRACK are done which a person does (`agent: manual`)."""
    steered = begin(track, bus_dir)
    return steer(steered, steered.orders("complete", tasks, message), _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    return f"{result.order.target} is done."
