"""What the next attempt of a task is told of the one before: how it ended, the end of what it printed, and what people
said to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bus import layout, texts
from bus.errors import BusError
from bus.reader import FileReader, Pieces
from bus.wire import AttemptId
from conductor.core.state import Task

TAIL = 4000
"""Bytes of each output stream that the next attempt is shown."""

_STREAMS = {"stdout": layout.STDOUT, "stderr": layout.STDERR}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIGITS = re.compile(r"[0-9]{1,12}\Z")


@dataclass(frozen=True, slots=True)
class Before:
    """The attempt before, which was no success."""

    attempt: AttemptId
    number: int
    error_class: str
    message: str
    output: Mapping[str, str] = field(default_factory=dict)
    """The end of `stdout` and `stderr`, where something was printed."""
    texts: tuple[str, ...] = ()
    """What people sent to it while it ran, oldest first."""

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "attempt": self.attempt,
            "attempt_number": self.number,
            "error": {"class": self.error_class, "message": self.message},
            "output": dict(self.output),
            "texts": list(self.texts),
        }

    def as_text(self) -> str:
        """Return it in words, for a prompt."""
        head = (
            f"## The attempt before this one\n\nAttempt {self.number} of this task ended without success "
            f"({self.error_class}): {self.message}\n\nWhat it wrote may still be in the project: look before you begin."
        )
        output = (_quoted(f"The end of its {stream}", text) for stream, text in self.output.items())
        said = (_quoted("Somebody who looked on said to it", text) for text in self.texts)
        return "\n\n".join([head, *output, *said])


def before(task: Task, reader: FileReader) -> Before | None:
    """Return what is to be told of the task's newest attempt that ended; None where there is none or it succeeded."""
    last = task.last
    if last is None or last.error_class is None:
        return None
    attempt = last.attempt
    told = _output(reader, attempt), _texts(reader, attempt)
    return Before(attempt, last.number, last.error_class, last.message, *told)


def _output(reader: FileReader, attempt: AttemptId) -> dict[str, str]:
    try:
        pieces = reader.open_pieces(attempt)
        if pieces is None:
            return {}
        try:
            ends = {stream: _shown(tail(pieces, name)) for stream, name in _STREAMS.items()}
        finally:
            pieces.close()
    except (OSError, BusError):  # deleted, or not what it should be: an attempt goes without it
        return {}
    return {stream: text for stream, text in ends.items() if text}


def _texts(reader: FileReader, attempt: AttemptId) -> tuple[str, ...]:
    try:
        folder = reader.folders.attempt(attempt)
        try:
            return tuple(text for _, text in texts.read(reader.folders, folder))
        finally:
            reader.fs.close(folder)
    except (OSError, BusError):
        return ()


def tail(pieces: Pieces, name: str, most: int = TAIL) -> bytes:
    """Return the last bytes of a stream, which lies in a first piece and the newest of the later ones."""
    head = f"{name}."
    later = (file.removeprefix(head) for file in pieces.names() if file.startswith(head))
    numbers = sorted((int(number) for number in later if _DIGITS.match(number)), reverse=True)
    found = b""
    for file in (*(f"{name}.{number}" for number in numbers), name):
        size = pieces.size(file)
        found = b"".join(pieces.read(file, max(0, size - (most - len(found))), size)) + found
        if len(found) >= most:
            break
    return found[-most:]


def _shown(data: bytes) -> str:
    """Return the text of it, without what only means something to a terminal, from the first whole line on."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if len(data) >= TAIL and "\n" in text:
        text = text.partition("\n")[2]
    return _CONTROL.sub("", text).strip("\n")


def _quoted(head: str, text: str) -> str:
    """Put it into a fence that nothing in it can close."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{head}:\n\n{fence}\n{text}\n{fence}"
