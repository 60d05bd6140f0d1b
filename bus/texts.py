"""`in/` of an attempt: what people send to it, and the answers to its questions. Whole files that never change."""

from __future__ import annotations

from bus import layout
from bus._fs import Refused
from bus.folders import Folders
from bus.waits import open_texts
from bus.wire import AttemptId

MAX_TEXT = 1 << 20
"""Bytes of a text."""


def deliver(folders: Folders, owner: str, attempt: AttemptId, name: str, data: bytes) -> None:
    """Lay a text into the attempt's `in/`; the first one of a name stays. Nothing where the attempt is gone."""
    try:
        folder = folders.attempt(attempt)
    except FileNotFoundError:
        return
    fs = folders.fs
    try:
        at = open_texts(folders, folder)
        try:
            fs.publish(f"{owner}.{attempt}.text", folders.refresh(layout.TMP), name, at, data)
        finally:
            fs.close(at)
    finally:
        fs.close(folder)


def take_answer(folders: Folders, attempt: int, id: str) -> str | None:
    """Return the answer to a question of the attempt whose folder is open as `attempt`, once; None while there is none.

    It is removed first: of two processes that ask the same, one gets it.
    """
    fs, name = folders.fs, layout.answer_name(id)
    try:
        at = fs.open_directory(layout.IN, at=attempt)
    except FileNotFoundError:
        return None
    try:
        data = fs.read_file(name, at=at, cap=MAX_TEXT)
        return _text(data) if fs.discard(name, at) else None
    except (FileNotFoundError, Refused):
        return None
    finally:
        fs.close(at)


def read(folders: Folders, attempt: int) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of what people sent, in order."""
    fs = folders.fs
    try:
        at = fs.open_directory(layout.IN, at=attempt)
    except FileNotFoundError:
        return ()
    found = []
    try:
        for name in sorted(fs.names(at)):
            if layout.is_steer_name(name):
                try:
                    found.append((name, _text(fs.read_file(name, at=at, cap=MAX_TEXT))))
                except (FileNotFoundError, Refused):
                    continue
    finally:
        fs.close(at)
    return tuple(found)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
