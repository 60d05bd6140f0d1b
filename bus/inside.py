"""What a program inside a worker needs to talk to the bus: where it is, how messages are made, what errors say."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from bus.errors import BusError, NotInWorker
from bus.times import utc
from bus.wire import AttemptId, JsonObject, Message, decode_message, encode_message


class Refusals:
    """Says what the system refused, and what to do."""

    def __init__(self, path: str | None, what: str) -> None:
        self._path = path
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            from bus.room import remedy

            text = f"{self._what}: {error.strerror or error}"
            raise BusError(text, path=self._path, hint=remedy(error)) from error


def surroundings(environ: Mapping[str, str]) -> tuple[str, AttemptId]:
    """Return bus directory and attempt of the worker that this program runs in. Raises NotInWorker."""
    root, attempt = environ.get("CONDUCTOR_BUS_DIR"), environ.get("CONDUCTOR_ATTEMPT")
    if not root or not attempt:
        hint = "this is for the commands that `conductor run` starts"
        raise NotInWorker("not inside a worker: CONDUCTOR_BUS_DIR and CONDUCTOR_ATTEMPT are not set", hint=hint)
    return root, AttemptId(attempt)


def new_message(attempt: AttemptId, type: str, payload: JsonObject) -> Message:
    """Make a message. Raises ValueError where it would be refused: too long, too deep, no finite number, no text."""
    message = Message(os.urandom(16).hex(), type, attempt, utc(), payload)
    try:
        decode_message(encode_message(message))
    except ValueError as error:
        raise ValueError(f"this message cannot be handed in: {error}") from error
    return message


def check_usage(payload: JsonObject) -> None:
    """Raise ValueError where that is no content of a USAGE message: the conductor would put it aside."""
    for name, kinds, what in (("input_tokens", int, "a whole number"), ("output_tokens", int, "a whole number"),
                              ("cost_usd", (int, float), "a number")):  # fmt: skip
        value = payload.get(name)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) or value < 0):
            raise ValueError(f"{name} of a USAGE is {what} from 0 on, not {value!r}")


def paths_of(keys: Sequence[str]) -> dict[str, Any]:
    """The keys, in the shape of older tools, which know one path, and all of them."""
    return {"filepath": keys[0], "filepaths": list(keys)}


def listed(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
