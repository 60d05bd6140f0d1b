"""The files that a plan is read from: whether they changed, without reading them as a plan."""

from __future__ import annotations

import hashlib
from pathlib import Path

from conductor.errors import PlanError
from conductor.plan import MAX_PLAN_BYTES
from conductor.plan.files import read_bytes

FILES = ("plan.md", "dag.yaml", "dag.yml", "dag.json")
"""Where a plan may stand, by name in the track."""

Signature = tuple[tuple[int, int, int] | None, ...]


def signature(track: Path) -> Signature:
    """Return what changes whenever one of the files does, as a rule; costs four calls."""
    found: list[tuple[int, int, int] | None] = []
    for name in FILES:
        try:
            status = (track / name).stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def size(track: Path) -> int:
    """Return the bytes of the files together."""
    return sum(one[1] for one in signature(track) if one)


def fingerprint(track: Path) -> str:
    """Return a SHA-256 over all that the files hold; a file that cannot be read counts as that."""
    hashed = hashlib.sha256()
    for name in FILES:
        try:
            body = read_bytes(track / name, MAX_PLAN_BYTES)
        except PlanError as error:
            body = error.code.encode()
        if body is not None:
            hashed.update(f"{name} {len(body)}\n".encode())
            hashed.update(body)
    return hashed.hexdigest()
