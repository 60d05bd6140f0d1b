"""Waiting for something on disk that only looking can tell."""

from __future__ import annotations

import threading

_never = threading.Event()


def pause(seconds: float) -> None:
    """Wait a moment before looking again; Ctrl-C ends it."""
    _never.wait(seconds)
