"""`conductor answer`: what a worker asked, answered."""

from __future__ import annotations

import click

from conductor.cli.escape import one_line, shortened
from conductor.cli.options import bus_dir_option, examples, json_option, text_argument, text_of, track_argument
from conductor.cli.ordering import Order
from conductor.cli.questions import LONGEST, find, questions_of
from conductor.cli.steering import Result, Steered, begin, steer
from conductor.core.wording import person
from conductor.errors import ConductorError


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
    questions = questions_of(steered.machine.state)
    if not any(id in (one.id, one.task) for one in questions):
        _raise_answered(steered, id)
    question = find(steered.track, questions, id)
    return steer(steered, [Order("answer", question.id, text_of(text))], _say, as_json=as_json)


def _raise_answered(steered: Steered, id: str) -> None:
    """Say who answered a question before, if somebody did. Raises `refused`."""
    for record in steered.reader.records():
        payload = record.payload
        if record.type == "CONTROL" and (payload.get("verb"), payload.get("target")) == ("answer", id):
            text = f"{person(str(payload.get('who')))} answered it: {shortened(str(payload.get('text')), LONGEST)}"
            raise ConductorError("refused", f"question {one_line(id)} is over: {text}", path=steered.track.label)


def _say(steered: Steered, result: Result) -> str:
    return f"answered: question {result.order.target}."
