"""`conductor answer`: what a worker asked, answered."""

from __future__ import annotations

import click

from conductor.cli.options import bus_dir_option, examples, json_option, text_argument, text_of, track_argument
from conductor.cli.ordering import Order
from conductor.cli.questions import find, questions_of
from conductor.cli.steering import Result, Steered, begin, steer


@click.command(
    epilog=examples(
        ("answer my-track 1a2b3c4d 'the red one'", ""),
        ("status my-track", "shows what is asked"),
    )
)
@track_argument
@click.argument("id", metavar="ID")
@text_argument
@json_option("One JSON object.")
@bus_dir_option
def answer(track: str, id: str, text: tuple[str, ...], as_json: bool, bus_dir: str | None) -> int:
    """Answer the question ID of a worker in TRACK with TEXT; `-` reads it from stdin.

    Where a task asks only one question, its id will do.
    """
    steered = begin(track, bus_dir)
    question = find(steered.track, questions_of(steered.machine.state), id)
    return steer(steered, [Order("answer", question.id, text_of(text))], _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    return f"answered: question {result.order.target}."
