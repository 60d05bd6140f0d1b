"""Paths as people and commands write them -> canonical keys. Looks at the disk, follows links, changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bus import keys


def key_of(path: str, *, project: str, cwd: str | None = None) -> str:
    """Return the key of a path, which is relative to `cwd` (the project, where that is None) and need not exist.

    Links, `.` and `..` are resolved as the system does it, up to the first wildcard; a name with wildcards in it that
    exists is that file or folder. Raises ValueError for what cannot be locked, OSError.
    """
    if not path or "\0" in path:
        keys.normal(path)
    root = os.path.realpath(project)
    base = root if cwd is None else cwd
    if path.startswith(f"{root}/"):  # wildcards in the project's own path are none
        base, path = root, path[len(root) + 1 :]
    literal, wild = keys.cut(path, lambda part: os.path.lexists(os.path.join(base, part)))
    return keys.key(os.path.realpath(os.path.join(base, literal)), root, wild, fold=folds_case(root))


def folds_case(folder: str) -> bool:
    """Tell whether names that differ only in case mean one file in this folder, as far as can be seen."""
    try:
        for name in _names(folder):
            other = name.swapcase()
            if other != name:
                return os.path.samefile(os.path.join(folder, name), os.path.join(folder, other))
    except OSError:
        return False
    return False


def _names(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name
    yield os.path.join(os.pardir, os.path.basename(folder))
