"""`conductor unlock`: take a lock on a file from a worker that holds it."""

from __future__ import annotations

import click

from conductor.cli.operator import operator
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.ordering import Order
from conductor.cli.steering import Result, Steered, begin, steer
from conductor.core.events import ControlReceived
from conductor.core.wording import few
from conductor.errors import ConductorError
from conductor.runtime.controls import unlock as decide


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
    found = decide(ControlReceived("unlock", operator(), path), steered.machine.state).order
    if not force and found.refused and steered.reader.holder():
        raise ConductorError("refused", found.refused, path=path)
    if not force:
        again = steered.track.command("unlock", path, options=["--force"])
        who = few(found.tasks) or "somebody"
        raise ConductorError(
            "usage",
            f"held by {who}, which may still write there: it is stopped, and what it did is not taken",
            path=path,
            hint=f"if that is meant: `{again}`",
        )
    return steer(steered, [order], _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    return f"the lock on {result.order.target} is taken away; who held it is stopped."
