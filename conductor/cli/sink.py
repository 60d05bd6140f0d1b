"""An output that may go away while a run goes on."""

from __future__ import annotations

import io
from typing import TextIO

from conductor.cli.output import is_gone, silence


class Sink(io.TextIOBase):
    """Writes to a stream, at once, until that fails; then it swallows everything.

    A stream itself, so that whoever draws on it needs to know nothing of broken pipes and hung-up terminals.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.gone = False

    def write(self, text: str) -> int:
        """Write and flush, or do nothing once the reader is gone."""
        if not self.gone:
            try:
                self.stream.write(text)
                self.stream.flush()
            except (OSError, ValueError) as error:  # a broken pipe, a hung-up terminal, a full disk, a closed file
                self.gone = True
                if is_gone(error):
                    silence(self.stream)
        return len(text)

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return not self.gone and self.stream.isatty()

    def fileno(self) -> int:
        """The stream's descriptor."""
        return self.stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return self.stream.encoding or "utf-8"
