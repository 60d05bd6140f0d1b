"""JSON that somebody handed in, read so that all readers agree on what it says. Pure: standard library only."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 32
"""Deepest nesting of a message."""


class WireError(ValueError):
    """Bytes that are not what this format says; the text says what is wrong with them."""


def loads_strict(body: bytes) -> Any:
    """Parse JSON that somebody handed in. Raises WireError for more than one value, nesting beyond MAX_DEPTH, double
    keys, NaN and infinities, whole numbers beyond all floats, lone surrogates, and bytes that are no UTF-8."""
    try:
        text = body.decode()
        value = _STRICT.decode(text)
        if "\\u" in text:  # the only way to a lone surrogate, as the bytes are sound UTF-8
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise WireError(f"not sound JSON: {error}" if str(error) else "not sound JSON") from error
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise WireError(f"nested deeper than {MAX_DEPTH}")
    return value


def number(value: object) -> float | None:
    """Return a number that somebody handed in; None for whatever else stands there: text, true, a whole number beyond
    all floats (older journals may have one), an infinity."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _depth(value: Any) -> int:
    depth = 0
    level = [value]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise WireError("a key stands twice in one object")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise WireError(f"{text} is no finite number" if len(text) <= 20 else "a number is too large")
    return value


def _whole(text: str) -> int:
    _finite(text)
    return int(text)


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_int=_whole, parse_constant=_finite)
