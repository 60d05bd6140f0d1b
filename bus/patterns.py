"""Do two file patterns mean a file in common? Decided on path segments, without looking at any disk.

A pattern covers what lies under it, so a folder conflicts with the files in it. `*`, `?` and `[…]` stay within a
segment, `**` stands for any number of segments, `{a,b}` is taken as `*`. In doubt the answer is yes: two tasks that
could have run side by side then run one after the other, which costs time and loses nothing. So a segment with
wildcards also stands for the file that has this very name: many a folder is called `[id]`. And what would take long to
compare has something in common.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

Segments = tuple[str, ...]

DEEP = "**"
_WILD = frozenset("*?[{")
_NOT_LITERAL = re.compile(r"[*?\[\]{}]")

WIDE = 1 << 8
"""Characters of a class that are told apart."""

MOST_STEPS = 1 << 16
"""Pairs of places that two patterns are compared at: two names as long as a disk has them."""

_Token = frozenset[str] | None
"""The characters that one place of a segment allows; None allows any."""
_STAR: frozenset[str] = frozenset()
"""Stands for any run of characters. An empty set allows none, so it means nothing else."""


def split(pattern: str) -> Segments:
    """Normalise a pattern into segments: `./a//b/` is `(a, b)`, `a/../b` is `(b,)`, `.` is the root `()`."""
    segments: list[str] = [""] if pattern.startswith("/") else []
    for segment in pattern.split("/"):
        if segment in ("", "."):
            continue
        if segment == ".." and segments and segments[-1] not in ("..", DEEP):
            if segments != [""]:
                segments.pop()
        else:
            segments.append(segment)
    return tuple(segments)


def is_wild(segment: str) -> bool:
    """Tell whether a segment stands for more than itself."""
    return not _WILD.isdisjoint(segment)


def overlap(a: Segments, b: Segments) -> bool:
    """Tell whether some path is covered by both patterns."""
    if DEEP not in a and DEEP not in b:
        return all(map(_may_be_equal, a, b))  # a pattern covers what lies under it
    if len(a) * len(b) > MOST_STEPS:
        return True
    reached = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        if i == len(a) or j == len(b):
            if _covers(a, b, j) if i == len(a) else _covers(b, a, i):
                return True
            continue
        if a[i] == DEEP or b[j] == DEEP:
            following = [(i + 1, j), (i, j + 1)]
        elif _may_be_equal(a[i], b[j]):
            following = [(i + 1, j + 1)]
        else:
            following = []
        fresh = [pair for pair in following if pair not in reached]
        reached.update(fresh)
        todo += fresh
    return False


def _covers(ended: Segments, other: Segments, at: int) -> bool:
    """Tell whether `ended`, matched whole against `other[:at]`, has something in common with what is left of `other`.

    A pattern that names a place below it segment by segment says itself that it is a folder. Behind a `**` that could
    stand for anything, only what looks like a folder is taken for one: `**/*.md` is not below `src/a.py`.
    """
    rest = other[at:]
    if all(segment == DEEP for segment in rest):
        return True
    return DEEP not in other[: at + 1] or _looks_like_folder(ended)


def _looks_like_folder(pattern: Segments) -> bool:
    return not pattern or "." not in pattern[-1].lstrip(".")


def _may_be_equal(a: str, b: str) -> bool:
    """Tell whether one name fits both segments."""
    if a == b:
        return True
    if not is_wild(a) and not is_wild(b):
        return False
    (begin, end), (other_begin, other_end) = _literal_ends(a), _literal_ends(b)
    if (
        (begin.startswith(other_begin) or other_begin.startswith(begin))
        and (end.endswith(other_end) or other_end.endswith(end))
        and _fit_one_name(a, b, left_is_name=False, right_is_name=False)
    ):
        return True
    return (_is_perhaps_a_name(a) and _fit_one_name(a, b, left_is_name=True, right_is_name=False)) or (
        _is_perhaps_a_name(b) and _fit_one_name(a, b, left_is_name=False, right_is_name=True)
    )


def _is_perhaps_a_name(segment: str) -> bool:
    """Tell whether the pattern may not mean the file that is called so: `*` and `?` fit themselves, `[id]` does not."""
    return "[" in segment or "{" in segment


@lru_cache(maxsize=1 << 16)
def _literal_ends(segment: str) -> tuple[str, str]:
    """Return what every name that fits the segment begins and ends with, as far as is seen at a glance."""
    if not is_wild(segment):
        return segment, segment
    parts = _NOT_LITERAL.split(segment)
    return parts[0], parts[-1]


@lru_cache(maxsize=4096)
def _fit_one_name(a: str, b: str, *, left_is_name: bool, right_is_name: bool) -> bool:
    left = [frozenset(char) for char in a] if left_is_name else _tokens(a)
    right = [frozenset(char) for char in b] if right_is_name else _tokens(b)
    if len(left) * len(right) > MOST_STEPS:
        return True
    reached = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        if (i, j) == (len(left), len(right)):
            return True
        for pair in _steps(left, i, right, j):
            if pair not in reached:
                reached.add(pair)
                todo.append(pair)
    return False


def _steps(left: Sequence[_Token], i: int, right: Sequence[_Token], j: int) -> list[tuple[int, int]]:
    if i < len(left) and left[i] is _STAR:
        return [(i + 1, j), *([(i, j + 1)] if j < len(right) else [])]
    if j < len(right) and right[j] is _STAR:
        return [(i, j + 1), *([(i + 1, j)] if i < len(left) else [])]
    if i == len(left) or j == len(right):
        return []
    one, other = left[i], right[j]
    return [(i + 1, j + 1)] if one is None or other is None or not one.isdisjoint(other) else []


def _tokens(segment: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(segment):
        char = segment[at]
        closing = segment.find({"[": "]", "{": "}"}.get(char, char), at + 1 + (char == "["))
        if char == "*":
            tokens.append(_STAR)
        elif char == "?":
            tokens.append(None)
        elif char == "[" and closing > 0:
            tokens.append(_char_class(segment[at + 1 : closing]))
            at = closing
        elif char == "{" and closing > 0:
            tokens.append(_STAR)
            at = closing
        else:
            tokens.append(frozenset(char))
        at += 1
    return tokens


def _char_class(body: str) -> _Token:
    """Return the characters of `[…]`; a negated class is taken as any character, and so is a wide one."""
    if body[0] in "!^":
        return None
    chars: set[str] = set()
    at = 0
    while at < len(body):
        if len(chars) > WIDE:
            return None
        if at + 2 < len(body) and body[at + 1] == "-":
            if ord(body[at + 2]) - ord(body[at]) > WIDE:
                return None
            chars.update(map(chr, range(ord(body[at]), ord(body[at + 2]) + 1)))
            at += 3
        else:
            chars.add(body[at])
            at += 1
    return frozenset(chars) or None
