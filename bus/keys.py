"""What may be locked: canonical keys. Pure; the disk is looked at in `bus.real_paths`.

A key is a path relative to the project, so that equal paths in all worktrees are one key; `.` is the project itself. A
path outside of it is absolute. A folder stands for all that lies under it, and wildcards mean what they mean in the
`files` of a plan (`bus.patterns`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from bus import patterns

MAX_KEY = 4096
"""Bytes of a key."""

MAX_KEYS = 256
"""Keys of one lock."""

ROOT = "."


def cut(path: str, exists: Callable[[str], bool] = lambda _: False) -> tuple[str, str]:
    """Split a path in front of its first segment with a wildcard: `src/*/a.py` is (`src`, `*/a.py`). What `exists` is
    no pattern: a folder may be called `[id]`."""
    segments = path.split("/")
    for index, segment in enumerate(segments):
        if patterns.is_wild(segment) and not exists("/".join(segments[: index + 1])):
            return "/".join(segments[:index]) or ("/" if index else ""), "/".join(segments[index:])
    return path, ""


def key(real: str, project: str, wild: str = "", *, fold: bool = False) -> str:
    """Return the key of an absolute path without links, `real`, followed by the pattern `wild`.

    `project` is absolute, without links. What reaches over the project (a folder above it) is the project. `fold` says
    that names which differ only in case mean one file here.
    """
    inside = "" if project == "/" else project
    if real == project:
        found = wild or ROOT
    elif real.startswith(f"{inside}/"):
        found = real[len(inside) + 1 :] + (f"/{wild}" if wild else "")
    else:
        found = real.rstrip("/") + (f"/{wild}" if wild else "")
        if patterns.overlap(patterns.split(found), patterns.split(project)):
            found = ROOT
    return normal(unicodedata.normalize("NFC", found.casefold()) if fold else found)


def normal(text: str) -> str:
    """Return the one spelling of a key: `./a//b/` is `a/b`, `a/..` is `.`. Raises ValueError where it is none."""
    if not text:
        raise ValueError("an empty path cannot be locked")
    if "\0" in text:
        raise ValueError("a path with a NUL byte cannot be locked")
    segments = patterns.split(text)
    found = "/".join(segments) or ("/" if segments else ROOT)
    try:
        size = len(found.encode())
    except UnicodeEncodeError as error:
        raise ValueError("a path that is no Unicode text cannot be locked") from error
    if size > MAX_KEY:
        raise ValueError(f"a path of {size} bytes cannot be locked: at most {MAX_KEY}")
    return found
