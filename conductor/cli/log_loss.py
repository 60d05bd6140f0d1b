"""What an attempt printed and nobody could keep, as the disk was full or refused it; its result tells."""

from __future__ import annotations

import os
from dataclasses import dataclass

from bus._fs import why
from bus.contract import Reader
from bus.errors import BusError
from bus.wire import AttemptId
from conductor.core.wording import plural


@dataclass(frozen=True, slots=True)
class Loss:
    """Output that is not in the files of an attempt."""

    size: int
    """Bytes, of both streams."""
    why: str
    """What was in the way."""
    stream: str
    """`stdout` or `stderr`: which one `tail` is the end of."""
    tail: str

    @property
    def text(self) -> str:
        """Say it to people."""
        return f"{plural(self.size, 'byte')} of what it printed could not be kept: {self.why}"


def loss_of(reader: Reader, attempt: AttemptId | None) -> Loss | None:
    """Return what was lost of an attempt that has ended; None where nothing was, or where no result tells."""
    try:
        exit = reader.read_exit(attempt) if attempt else None
    except BusError:
        return None
    size = exit.log_bytes.get("lost", 0) if exit else 0
    if exit is None or not size:
        return None
    errno = exit.log_bytes.get("errno")
    cause = why(OSError(errno, os.strerror(errno))) if errno else "it could not be written"
    return Loss(size, cause, "stderr" if exit.log_bytes.get("stderr") else "stdout", exit.tail)
