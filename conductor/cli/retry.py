"""`conductor retry`: take up again what failed, was cancelled or skipped; or now what waits for its next attempt."""

from __future__ import annotations

import click

from conductor.cli.options import because_option, bus_dir_option, examples, json_option, tasks_argument, track_argument
from conductor.cli.steering import Result, Steered, begin, steer
from conductor.core.wording import few

MOST = 20
"""Tasks that are named one by one."""


@click.command(epilog=examples(("retry my-track 1.2", "once what made it fail is mended")))
@track_argument
@tasks_argument
@because_option
@json_option("One JSON object.")
@bus_dir_option
def retry(track: str, tasks: tuple[str, ...], message: str | None, as_json: bool, bus_dir: str | None) -> int:
    """Take TASKs of TRACK up again that failed, were cancelled or skipped, with all their retries.

    What they blocked goes back to pending as well. A task that waits for its next attempt gets it now.
    """
    steered = begin(track, bus_dir)
    return steer(steered, steered.orders("retry", tasks, message), _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    task = steered.task(result.order.target)
    if any(wait.kind == "backoff" for wait in task.waits_for):
        return f"{task.id} is tried again now." if result.live else f"recorded: {task.id} is tried again at once."
    return f"back to pending: {few(result.tasks or (task.id,), MOST)}."
