"""Signals of a worker, turned into a readable descriptor and a flag."""

from __future__ import annotations

import os
import signal


class Signals:
    """TERM means stop, CHLD means look at the children; either makes `fd` readable.

    HUP, INT and PIPE are ignored since the warm process: a terminal is the conductor's business.
    """

    def __init__(self) -> None:
        self.stop_asked = False
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, _on_child)

    def drain(self) -> None:
        """Make `fd` quiet again."""
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            return

    def _on_term(self, number: int, frame: object) -> None:
        self.stop_asked = True


def _on_child(number: int, frame: object) -> None:
    """Nothing: a handler has to be there for the wake-up descriptor to be written."""
