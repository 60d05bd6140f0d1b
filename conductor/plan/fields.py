"""Typed values out of YAML text. Each reader takes the key, for its message, and the node; it raises `plan_field`."""

from __future__ import annotations

import json
from collections.abc import Collection

from conductor.errors import PlanError
from conductor.plan.durations import parse_duration
from conductor.plan.errors import Placed, plan_error, shown
from conductor.plan.yaml_text import Map, Node, Seq, Text, as_json

_TRUE = frozenset(("true", "yes", "on"))
_FALSE = frozenset(("false", "no", "off"))
_DURATION_HINT = "Write 90 (seconds), 90s, 30m, 2h or 1h30m; none means no limit."


def field_error(key: str, message: str, at: Placed | None, hint: str) -> PlanError:
    """Make the error for a value that cannot be used."""
    return plan_error("plan_field", f"{key}: {message}", at, hint=hint)


def is_null(node: Node) -> bool:
    """Whether the value is empty or an unquoted null."""
    return isinstance(node, Text) and node.is_null


def text(key: str, node: Node) -> str:
    """Return a text as written."""
    if isinstance(node, Text):
        return str(node)
    raise field_error(key, f"expected text, found {kind(node)}", node, f'Write {key}: "…".')


def loose_text(node: Node) -> str:
    """Return any value as text: a list joined with commas, a mapping as JSON. For keys that nothing depends on."""
    if isinstance(node, Text):
        return str(node)
    if isinstance(node, Seq) and all(isinstance(item, Text) for item in node):
        return ", ".join(str(item) for item in node)
    return json.dumps(as_json(node), ensure_ascii=False)


def lines(node: Node) -> str:
    """Return text, or a list of texts as one line each."""
    if isinstance(node, Seq):
        return "\n".join(f"- {loose_text(item)}" for item in node)
    return loose_text(node)


def texts(key: str, node: Node) -> list[Text]:
    """Return a list of texts; a single text is a list of one; empty entries are left out."""
    items = node if isinstance(node, Seq) else [node]
    found: list[Text] = []
    for item in items:
        if not isinstance(item, Text):
            raise field_error(key, f"expected a list of texts, found {kind(item)}", item, f'Write {key}: ["…", "…"].')
        if item or not item.plain:
            found.append(item)
    return found


def integer(key: str, node: Node, *, least: int = 0, most: int = 1_000_000_000) -> int:
    """Return a whole number within bounds."""
    if isinstance(node, Text) and node.isascii() and node.isdecimal() and len(node) <= 10:
        number = int(node)
        if least <= number <= most:
            return number
    hint = f"Write a number from {least:,} to {most:,}."
    raise field_error(key, f"expected a whole number of at least {least}, found {described(node)}", node, hint)


def amount(key: str, node: Node) -> float:
    """Return a number that is not negative, such as an amount of money."""
    try:
        number = float(text(key, node)) if isinstance(node, Text) and "_" not in node else -1.0
    except ValueError:
        number = -1.0
    if 0.0 <= number < 1e12:
        return number
    hint = f"Write a plain number, such as {key}: 20."
    raise field_error(key, f"expected a number that is not negative, found {described(node)}", node, hint)


def boolean(key: str, node: Node) -> bool:
    """Return whether the value says yes: true, yes, on against false, no, off."""
    word = node.lower() if isinstance(node, Text) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise field_error(key, f"expected true or false, found {described(node)}", node, f"Write {key}: true.")


def duration(key: str, node: Node) -> float:
    """Return seconds; 0 means no limit."""
    if not isinstance(node, Text):
        raise field_error(key, f"expected a duration, found {kind(node)}", node, _DURATION_HINT)
    try:
        return parse_duration(node)
    except ValueError as error:
        raise field_error(key, str(error), node, _DURATION_HINT) from None


def choice(key: str, node: Node, words: Collection[str]) -> str:
    """Return one of `words`."""
    if isinstance(node, Text) and node in words:
        return str(node)
    hint = f"Write {key}: {next(iter(words))}, or leave the key out."
    raise field_error(key, f"expected {' or '.join(words)}, found {described(node)}", node, hint)


def mapping(key: str, node: Node) -> Map:
    """Return a mapping."""
    if isinstance(node, Map):
        return node
    hint = f"Write {key}: and below it, indented, a key: value on each line."
    raise field_error(key, f"expected a mapping, found {kind(node)}", node, hint)


def sequence(key: str, node: Node, hint: str) -> Seq:
    """Return a list."""
    if isinstance(node, Seq):
        return node
    raise field_error(key, f"expected a list, found {kind(node)}", node, hint)


def kind(node: Node) -> str:
    """Name what a node is, for a message."""
    if isinstance(node, Text):
        return "nothing" if node.is_null else "text"
    return "a list" if isinstance(node, Seq) else "a mapping"


def described(node: Node) -> str:
    """Show a text, or name what stands there instead."""
    return shown(node) if isinstance(node, Text) and not node.is_null else kind(node)
