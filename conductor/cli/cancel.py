"""`conductor cancel`: call tasks off."""

from __future__ import annotations

import click

from conductor.cli.options import because_option, bus_dir_option, examples, json_option, tasks_argument, track_argument
from conductor.cli.steering import Result, Steered, begin, steer


@click.command(
    epilog=examples(("cancel my-track 1.2", "it is not wanted any more"), ("retry my-track 1.2", "it is, after all"))
)
@track_argument
@tasks_argument
@because_option
@json_option("One JSON object.")
@bus_dir_option
def cancel(track: str, tasks: tuple[str, ...], message: str | None, as_json: bool, bus_dir: str | None) -> int:
    """Call TASKs of TRACK off. A worker of one is stopped; what depends on one is blocked."""
    steered = begin(track, bus_dir)
    return steer(steered, steered.orders("cancel", tasks, message), _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    task = steered.task(result.order.target)
    if task.worker is not None:
        return f"{task.id} is cancelled once its worker is stopped; it is told to stop."
    return f"{task.id} is cancelled." if result.live else f"recorded: {task.id} is to be cancelled."
