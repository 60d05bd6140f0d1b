"""`conductor bus …`: how a command inside a worker talks to the conductor, from its environment alone.

Called perhaps every second by scripts, so it imports next to nothing. What it hands in is a message like any other: a
worker in another language may write the same file itself (see `docs/protocol.md`).
"""

from __future__ import annotations

import os

import click

from bus.inside import Refusals, surroundings
from bus.strict import loads_strict
from bus.wire import CONDUCTOR_TYPES, PROVIDER_CLASSES, JsonObject
from conductor.cli.bus_locks import ask, inbox, lock, unlock, wait
from conductor.cli.bus_worker import duration_option, inside, standing, worker
from conductor.cli.exit_codes import BusExit
from conductor.cli.options import examples
from conductor.errors import ConductorError

RESERVED = CONDUCTOR_TYPES | {
    "RESULT",
    "REPORT",
    "PROGRESS",
    "FILE_LOCK",
    "FILE_UNLOCK",
    "BLOCKED",
    "QUESTION",
    "CLAIM",
}
"""Types that `post` refuses: each has a meaning of its own, and a verb or the conductor to say it."""


@click.group(
    no_args_is_help=False,
    epilog=examples(
        ("bus progress 40 'half way'", "say how far it is"),
        ("bus lock src/a.py docs", "keep other workers off these files"),
        ("bus unlock src/a.py docs", "let them have them"),
        ("bus wait 1.2", "go on when task 1.2 is done"),
        ("bus ask 'Which database?'", "print a person's answer"),
        ("bus fail 'no such branch'", "say why"),
    ),
)
def bus() -> None:
    """Talk to the conductor from inside a worker.

    Exit codes: 0 yes, 1 no, 2 wrong usage or not inside a worker, 5 the bus cannot be used, 75 timed out, 76 the
    attempt is being stopped (end your work).
    """


@bus.command()
@click.argument("percent", type=click.FloatRange(0, 100), metavar="PCT")
@click.argument("text", default="")
def progress(percent: float, text: str) -> int:
    """Say how far the task is, in percent, and what it does now."""
    with worker() as client:
        client.progress(percent, text)
        return standing(client)


@bus.command()
@click.option("--commit", metavar="SHA", help="The commit that holds the work.")
@click.option("--file", "files", multiple=True, metavar="P", help="A file that was changed; more may follow.")
@click.argument("more", nargs=-1, metavar="")
def complete(commit: str | None, files: tuple[str, ...], more: tuple[str, ...]) -> int:
    """Report the task as complete. The command must still end with exit status 0."""
    if more and not files:
        raise click.UsageError(f"unexpected argument {more[0]!r}; name files with --file")
    with worker() as client:
        client.complete(commit=commit, files=[*files, *more])
        return standing(client)


@bus.command()
@click.option(
    "--class",
    "error_class",
    type=click.Choice(PROVIDER_CLASSES),
    help="A limit of the provider that the task works with: no fault of the task, and no attempt is used up.",
)
@duration_option("--retry-after", "When that limit is over, from now:")
@click.argument("message")
def fail(error_class: str | None, retry_after: float | None, message: str) -> int:
    """Report the task as failed, and why. The attempt counts as failed whatever its exit status."""
    if retry_after is not None and error_class is None:
        raise click.UsageError("--retry-after is about a limit of a provider; name it with --class")
    with worker() as client:
        client.fail(message, error_class=error_class, retry_after=retry_after)
        return standing(client)


@bus.command()
@click.argument("type", metavar="TYPE")
@click.argument("payload", metavar="JSON")
def post(type: str, payload: str) -> int:
    """Put a message of your own into the journal: a TYPE in capitals and a JSON object."""
    if not (type.replace("_", "").isalnum() and type.isascii() and type.upper() == type and len(type) <= 64):
        raise click.UsageError(f"a type is made of capital letters, digits and _, not {type!r}")
    if type in RESERVED:
        raise click.UsageError(f"{type} has a meaning of its own and cannot be posted")
    body = _json_object(payload)
    if type == "NOTE" and not isinstance(body.get("text"), str):
        raise click.UsageError('a NOTE says something: \'{"text": "…"}\'')
    with worker() as client:
        client.post(type, body)
        return standing(client)


@bus.command()
@click.option("--since", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only records after this one.")
@click.option("--type", "type_", metavar="T", help="Only records of this type.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as in the journal.")
def read(since: int, type_: str | None, as_json: bool) -> int:
    """Show what the journal says."""
    from bus.reader import open_reader
    from conductor.cli.events import print_records

    with inside():
        root, _ = surroundings(os.environ)
    with Refusals(root, "the bus cannot be read"):
        records = open_reader(root).records(since)
        print_records((record for record in records if type_ in (None, record.type)), as_json=as_json)
    return BusExit.YES


def _json_object(text: str) -> JsonObject:
    try:
        value = loads_strict(text.encode())
    except ValueError as error:
        raise ConductorError("usage", f"the payload cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ConductorError("usage", "the payload must be a JSON object: {…}")
    return value


for _verb in (lock, unlock, wait, ask, inbox):
    bus.add_command(_verb)
