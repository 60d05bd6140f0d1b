"""`conductor bus …`: how a command inside a worker talks to the conductor, from its environment alone.

Called perhaps every second by scripts, so it imports next to nothing. What it hands in is a message like any other: a
worker in another language may write the same file itself (see `docs/protocol.md`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bus.errors import BusError, BusGone
from bus.strict import loads_strict
from bus.times import utc
from bus.wire import CONDUCTOR_TYPES, AttemptId, JsonObject, Message, decode_message, encode_message
from conductor.cli.escape import shortened
from conductor.cli.exit_codes import BusExit
from conductor.cli.options import examples
from conductor.cli.output import err
from conductor.errors import ConductorError

if TYPE_CHECKING:
    from bus.hand import FileHand

RESERVED = CONDUCTOR_TYPES | {
    "RESULT",
    "REPORT",
    "PROGRESS",
    "USAGE",
    "FILE_LOCK",
    "FILE_UNLOCK",
    "BLOCKED",
    "QUESTION",
    "CLAIM",
}
"""Types that `post` refuses: each has a meaning of its own, and a verb or the conductor to say it."""


MAX_TEXT = 1000
"""Characters of a progress text that the worker's status keeps; the journal has all."""


@click.group(
    no_args_is_help=False,
    epilog=examples(("bus progress 40 'half way'", "say how far it is"), ("bus fail 'no such branch'", "say why")),
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
    with _hand() as hand:
        message = _message(hand.attempt, "PROGRESS", {"pct": percent, "text": text})
        hand.publish(message)
        hand.report_status({"progress_pct": percent, "text": text[:MAX_TEXT], "timestamp": message.timestamp})
        return _standing(hand)


@bus.command()
@click.option("--commit", metavar="SHA", help="The commit that holds the work.")
@click.option("--file", "files", multiple=True, metavar="P", help="A file that was changed; more may follow.")
@click.argument("more", nargs=-1, metavar="")
def complete(commit: str | None, files: tuple[str, ...], more: tuple[str, ...]) -> int:
    """Report the task as complete. The command must still end with exit status 0."""
    if more and not files:
        raise click.UsageError(f"unexpected argument {more[0]!r}; name files with --file")
    return report({"verb": "complete", "commit": commit, "files": [*files, *more]})


@bus.command()
@click.argument("message")
def fail(message: str) -> int:
    """Report the task as failed, and why. The attempt counts as failed whatever its exit status."""
    return report({"verb": "fail", "message": message})


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
    return hand_in(type, body)


@bus.command()
@click.option("--since", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only records after this one.")
@click.option("--type", "type_", metavar="T", help="Only records of this type.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as in the journal.")
def read(since: int, type_: str | None, as_json: bool) -> int:
    """Show what the journal says."""
    from bus.reader import open_reader
    from conductor.cli.events import print_records

    root, _ = environment()
    with _refusals(root, "the bus cannot be read"):
        records = open_reader(root).records(since)
        print_records((record for record in records if type_ in (None, record.type)), as_json=as_json)
    return BusExit.YES


def hand_in(type: str, payload: JsonObject) -> int:
    """Publish one message of our attempt; tells the caller where the attempt is being stopped."""
    with _hand() as hand:
        hand.publish(_message(hand.attempt, type, payload))
        return _standing(hand)


def report(body: Mapping[str, Any]) -> int:
    """Leave the report where the worker finds it when the command ends, then announce it."""
    with _hand() as hand:
        hand.report(_message(hand.attempt, "REPORT", body))
        return _standing(hand)


def environment(environ: Mapping[str, str] = os.environ) -> tuple[Path, AttemptId]:
    """Return bus directory and attempt of the worker that we run in."""
    root, attempt = environ.get("CONDUCTOR_BUS_DIR"), environ.get("CONDUCTOR_ATTEMPT")
    if not root or not attempt:
        raise ConductorError(
            "usage",
            "not inside a worker: CONDUCTOR_BUS_DIR and CONDUCTOR_ATTEMPT are not set",
            hint="these verbs are for the commands that `conductor run` starts",
        )
    return Path(root), AttemptId(attempt)


@contextmanager
def _hand() -> Iterator[FileHand]:
    from bus.hand import open_hand
    from bus.layout import LayoutError, parse_attempt

    root, attempt = environment()
    try:
        parse_attempt(attempt)
    except LayoutError as error:
        raise ConductorError("usage", f"CONDUCTOR_ATTEMPT: {error}") from error
    with _refusals(root, "could not hand it in"):
        try:
            yield open_hand(root, attempt)
        except FileNotFoundError as error:
            raise BusGone("the bus or the attempt is gone", path=str(root)) from error


@contextmanager
def _refusals(root: Path, what: str) -> Iterator[None]:
    """Say what the system refused, and what to do; a reader of ours that went away is no trouble of the bus."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        from bus.room import remedy

        raise BusError(f"{what}: {error.strerror or error}", path=str(root), hint=remedy(error)) from error


def _message(attempt: AttemptId, type: str, payload: JsonObject) -> Message:
    message = Message(os.urandom(16).hex(), type, attempt, utc(), payload)
    try:
        decode_message(encode_message(message))
    except ValueError as error:  # too long, too deep, no finite number, no Unicode text
        raise ConductorError("usage", f"this message cannot be handed in: {error}") from error
    return message


def _standing(hand: FileHand) -> int:
    reason = hand.revoked()
    if reason is None:
        return BusExit.YES
    err(f"this attempt is being stopped: {shortened(reason)}")
    return BusExit.REVOKED


def _json_object(text: str) -> JsonObject:
    try:
        value = loads_strict(text.encode())
    except ValueError as error:
        raise ConductorError("usage", f"the payload cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ConductorError("usage", "the payload must be a JSON object: {…}")
    return value
