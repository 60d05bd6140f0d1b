"""Keys that were probably meant to be others."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache

_MOST_COMPARED = 5000
"""Words beyond which the search for a close one would take seconds."""

_MEANT = {
    "deps": "depends_on",
    "dep": "depends_on",
    "depend": "depends_on",
    "depends": "depends_on",
    "dependson": "depends_on",
    "dependon": "depends_on",
    "dependency": "depends_on",
    "dependencies": "depends_on",
    "needs": "depends_on",
    "need": "depends_on",
    "requires": "depends_on",
    "require": "depends_on",
    "after": "depends_on",
    "blockedby": "depends_on",
    "waitsfor": "depends_on",
    "waitfor": "depends_on",
    "prerequisites": "depends_on",
    "prereqs": "depends_on",
    "predecessors": "depends_on",
    "upstream": "depends_on",
    "title": "name",
    "command": "run",
    "commands": "run",
    "cmd": "run",
    "acceptancecriteria": "acceptance",
    "script": "run",
    "exec": "run",
    "check": "verify",
    "checks": "verify",
    "file": "files",
    "paths": "files",
    "environment": "env",
    "duration": "estimated_duration",
    "estimate": "estimated_duration",
    "timelimit": "timeout",
    "retry": "retries",
    "maxretries": "retries",
    "approval": "approve",
    "groups": "parallel_groups",
    "parallelgroup": "parallel_groups",
    "tasks": "nodes",
    "steps": "nodes",
    "workingdirectory": "project",
    "workers": "max_workers",
    "members": "tasks",
}
_UNMISTAKABLE = frozenset(("retry", "maxretries", "timelimit"))
"""Other words that can mean nothing else."""


@lru_cache(maxsize=1024)
def meant_key(key: str, known: tuple[str, ...]) -> str | None:
    """Return the known key that an unknown one was probably meant to be."""
    plain = _plain(key)
    meant = _MEANT.get(plain)
    return meant if meant in known else _close_key(plain, known)


def is_misspelt(key: str, meant: str) -> bool:
    """Whether the key is the other one but for a few letters or its number, not a word that may mean something else."""
    plain = _plain(key)
    return plain in _UNMISTAKABLE or _close_key(plain, (meant,)) is not None


def _plain(key: str) -> str:
    return "".join(c for c in key.lower() if c.isalnum())


def _close_key(plain: str, known: tuple[str, ...]) -> str | None:
    by_plain = {name.replace("_", ""): name for name in known}
    if plain in by_plain:
        return by_plain[plain]
    close = get_close_matches(plain[:64], by_plain, n=1, cutoff=0.82)
    return by_plain[close[0]] if close else None


def did_you_mean(word: str, known: Collection[str]) -> str | None:
    """Return a hint that names the closest of `known`, if any is close."""
    if len(known) > _MOST_COMPARED:
        return None
    close = get_close_matches(word[:200], known, n=1, cutoff=0.6)
    return f'Did you mean "{close[0]}"?' if close else None
