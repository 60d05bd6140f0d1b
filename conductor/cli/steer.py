"""`conductor steer`: words for a worker that works."""

from __future__ import annotations

import click

from conductor.cli.options import (
    bus_dir_option,
    examples,
    json_option,
    task_argument,
    text_argument,
    text_of,
    track_argument,
)
from conductor.cli.steering import Result, Steered, begin
from conductor.cli.steering import steer as give


@click.command(
    epilog=examples(
        ("steer my-track 1.2 'leave the tests alone'", "words for its worker"),
        ("steer my-track 1.2 - < notes.md", "from a file"),
    )
)
@track_argument
@task_argument
@text_argument
@json_option("One JSON object.")
@bus_dir_option
def steer(track: str, task: str, text: tuple[str, ...], as_json: bool, bus_dir: str | None) -> int:
    """Give TEXT to the worker of TASK, as a file in the folder `in/` of its attempt; `-` reads it from stdin.

    Nothing is stopped by it: the command reads it if it looks there.
    """
    steered = begin(track, bus_dir)
    return give(steered, steered.orders("steer", [task], text_of(text)), _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    task = steered.task(result.order.target)
    if result.live or (task.worker is not None and steered.reader.is_live(task.worker)):
        return f"given to the worker of {task.id}."
    gone = f"recorded, but the worker of {task.id} is gone: nobody reads it"
    return (
        f"{gone}. No conductor lives now; the next run tries the task again.\nRun:      {steered.track.command('run')}"
    )
