"""`conductor reject`: refuse what waits for approval."""

from __future__ import annotations

import click

from conductor.cli.options import because_option, bus_dir_option, examples, json_option, tasks_argument, track_argument
from conductor.cli.steering import Result, Steered, begin, steer


@click.command(epilog=examples(("reject my-track 1.2 -m 'it drops a table'", "")))
@track_argument
@tasks_argument
@because_option
@json_option("One JSON object.")
@bus_dir_option
def reject(track: str, tasks: tuple[str, ...], message: str | None, as_json: bool, bus_dir: str | None) -> int:
    """Refuse TASKs of TRACK that wait for approval. They fail, as `rejected`, and are not tried again."""
    steered = begin(track, bus_dir)
    return steer(steered, steered.orders("reject", tasks, message), _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    return f"rejected: {result.order.target} fails, and is not tried again."
