"""Which keys have a file in common: found by their folders, so that not all are compared with all."""

from __future__ import annotations

from collections.abc import Iterable

from bus.contention import overlap
from bus.patterns import Segments, is_wild, split


class Neighbours:
    """The keys that overlap, of a fixed set."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._found: dict[str, list[str]] = {}
        self._keys = list(keys)
        self._wild = [key for key in self._keys if _is_wild(key)]
        self._at: dict[Segments, list[str]] = {}
        """Keys without wildcards by their place."""
        self._under: dict[Segments, list[str]] = {}
        """They by each folder above them, and by their own place."""
        for key in self._keys:
            if not _is_wild(key):
                segments = split(key)
                self._at.setdefault(segments, []).append(key)
                for depth in range(len(segments) + 1):
                    self._under.setdefault(segments[:depth], []).append(key)

    def of(self, key: str) -> list[str]:
        """Return those that overlap one of the keys, itself among them."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look(key)
        return found

    def _look(self, key: str) -> list[str]:
        if _is_wild(key):
            return [other for other in self._keys if overlap(key, other)]
        segments = split(key)
        above = [other for depth in range(len(segments)) for other in self._at.get(segments[:depth], ())]
        return [*above, *self._under[segments], *(other for other in self._wild if overlap(key, other))]


def _is_wild(key: str) -> bool:
    return any(map(is_wild, split(key)))
