"""An output that may go away while a run goes on."""

from __future__ import annotations

from typing import TextIO


class Sink:
    """Writes to a stream until that fails; then it is silent."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.open = True

    def write(self, text: str) -> None:
        """Write and flush, or do nothing once the reader is gone."""
        if not self.open:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # a broken pipe, a hung-up terminal, a full disk, a closed file
            self.open = False
