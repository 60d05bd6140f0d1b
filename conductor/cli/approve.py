"""`conductor approve`: let tasks pass that wait for somebody to approve them."""

from __future__ import annotations

import click

from conductor.cli.options import because_option, bus_dir_option, examples, json_option, tasks_argument, track_argument
from conductor.cli.steering import Result, Steered, begin, steer


@click.command(
    epilog=examples(("approve my-track 1.2", "it may go on"), ("reject my-track 1.2 -m 'too risky'", "it may not"))
)
@track_argument
@tasks_argument
@because_option
@json_option("One JSON object.")
@bus_dir_option
def approve(track: str, tasks: tuple[str, ...], message: str | None, as_json: bool, bus_dir: str | None) -> int:
    """Let TASKs of TRACK pass that wait for approval: to start, or, once their work is done, to count as done."""
    steered = begin(track, bus_dir)
    return steer(steered, steered.orders("approve", tasks, message), _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    return f"approved: {result.order.target}."
