"""File patterns as plans write them: with notes behind them, or as prose. Text only; nothing is opened."""

from __future__ import annotations

import posixpath
import re

_NOTE = re.compile(r"^(\S.*?)\s+(\([^()]*\)|\[[^\[\]]*\]|(?:[-–—]+|→|->|#)\s.*)$", re.DOTALL)
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,8}$")


_LONGEST = 4096
"""No path is longer; a longer text is prose, and is not searched for notes."""


def split_list(text: str) -> list[str]:
    """Split `a.py, b.py` and several lines into their parts; anything else is one part."""
    if "," not in text and "\n" not in text:
        return [text]
    parts = [part for part in re.split(r",\s+|\n", text.strip().rstrip(",")) if part.strip()]
    if len(parts) > 1 and ("\n" in text or all(" " not in part.strip() and _looks_like_path(part) for part in parts)):
        return [part.strip() for part in parts]
    return [text]


def split_note(text: str) -> tuple[str | None, str | None]:
    """Return the pattern and the note behind it; the pattern is None where the text is prose.

    `models.py (delete)` gives `models.py`, `(delete)`; `stubs from Phase 3` gives None and the whole text.
    """
    words = text.split()
    whole = " ".join(words)
    if len(whole) > _LONGEST:
        return None, whole
    found = _NOTE.match(whole) if len(words) > 1 else None
    pattern, note = (found[1], found[2]) if found else (whole, None)
    if len(pattern) > 1 and pattern[0] == pattern[-1] == "`":
        pattern = pattern[1:-1].strip()
    if " " in pattern and not _looks_like_path(pattern):
        return None, whole
    return (normalise(pattern), note) if pattern else (None, whole)


def normalise(pattern: str) -> str:
    """Return the pattern without `./`, doubled or trailing slashes, and with `a/../b` resolved; `.` is everything."""
    normal = posixpath.normpath(pattern)
    return normal[1:] if normal.startswith("//") else normal


def leaves_project(pattern: str) -> bool:
    """Whether a normalised pattern points outside the project: absolute, from a home folder, or by `..`."""
    return pattern.startswith(("/", "~/", "../")) or pattern in ("..", "~")


def _looks_like_path(text: str) -> bool:
    return "/" in text or "*" in text or _EXTENSION.search(text.strip().strip("`")) is not None
