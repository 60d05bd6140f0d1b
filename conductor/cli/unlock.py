"""`conductor unlock`: take a lock on a file from a worker that holds it."""

from __future__ import annotations

import click

from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.ordering import Order
from conductor.cli.steering import Result, Steered, begin, steer
from conductor.errors import ConductorError


@click.command(epilog=examples(("unlock my-track src/a.py --force", "its holder is stopped")))
@track_argument
@click.argument("path", metavar="PATH")
@click.option("--force", is_flag=True, help="Do it: whoever holds it is stopped, and what it did is not taken.")
@json_option("One JSON object.")
@bus_dir_option
def unlock(track: str, path: str, force: bool, as_json: bool, bus_dir: str | None) -> int:
    """Take the lock on PATH, a file or folder of the project, from the worker that holds it.

    A lock ends by itself with its worker, and never by time. So this is for a worker that is no use any more: it is
    stopped, its result is not taken, its files stay as they are, and its task is tried again at no cost.
    """
    steered = begin(track, bus_dir)
    order = Order("unlock", path)
    if not force:
        again = steered.track.command("unlock", path, options=["--force"])
        raise ConductorError(
            "usage",
            "whoever holds the lock may still write there: it is stopped, and what it did is not taken",
            hint=f"if that is meant: `{again}`; `{steered.track.command('status')}` shows who holds what",
        )
    return steer(steered, [order], _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    return f"the lock on {result.order.target} is taken away; who held it is stopped."
