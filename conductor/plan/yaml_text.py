"""YAML in which every scalar keeps the text that stands in the file, and every value knows its place.

`1.10` stays `1.10`, `01` keeps its zero, `on` is a word. Built from the parser's events by hand and without recursion:
nothing is resolved, constructed or composed, so neither a tag nor a depth bomb has anything to act on.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias, TypeVar

import yaml

from conductor.errors import PlanError
from conductor.plan.errors import plan_error, shown
from conductor.plan.yaml_errors import ESCAPE_HINT, explain

MAX_DEPTH = 64
"""Deepest nesting of a plan; real ones have 5."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")  # can be written as an escape, can be stored nowhere
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Text(str):
    """A scalar: its text, where it stands, and whether it was written without quotes."""

    __slots__ = ("column", "line", "plain")
    line: int
    column: int
    plain: bool

    @property
    def is_null(self) -> bool:
        """Whether YAML would read it as null."""
        return self.plain and self in _NULLS

    def part(self, text: str) -> Text:
        """Return a piece of this text, standing where the whole stands."""
        piece = Text(text.strip())
        piece.line, piece.column, piece.plain = self.line, self.column, self.plain
        return piece


class Seq(list["Node"]):
    """A sequence and where it begins."""

    __slots__ = ("column", "line")
    line: int
    column: int


class Map(dict[Text, "Node"]):
    """A mapping and where it begins; its keys know their own place."""

    __slots__ = ("column", "line")
    line: int
    column: int


Node: TypeAlias = Text | Seq | Map
_C = TypeVar("_C", Seq, Map)


def read_yaml(text: str, *, line_offset: int = 0, column_offset: int = 0) -> Node | None:
    """Read one document; None where there is none.

    The offsets are added to every line and column. A character that is escaped in two halves, as JSON does, is read as
    JSON reads it, though YAML refuses it. Raises PlanError `plan_yaml`.
    """
    _refuse_characters(text, line_offset, column_offset)
    try:
        return _Builder(line_offset + 1, column_offset + 1).build(text)
    except PlanError:
        # Only what cannot be read as it stands: outside of double quotes such a pair is plain text.
        joined = _PAIR.sub(_joined_pair, text)
        if joined == text:
            raise
        return _Builder(line_offset + 1, column_offset + 1).build(joined)


def as_json(node: Node) -> Any:
    """Return the node as lists, dicts and strings (null for an unquoted null), for `extra`.

    The depth is at most MAX_DEPTH, so recursion is safe.
    """
    if isinstance(node, Text):
        return None if node.is_null else str(node)
    if isinstance(node, Seq):
        return [as_json(item) for item in node]
    return {str(key): as_json(value) for key, value in node.items()}


def _joined_pair(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return pair[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


class _Place:
    """A place that no node stands for."""

    def __init__(self, line: int, column: int) -> None:
        self.line = line
        self.column = column


def _refuse_characters(text: str, line_offset: int, column_offset: int) -> None:
    found = _FORBIDDEN.search(text)
    if found is None:
        return
    start = found.start()
    line_start = text.rfind("\n", 0, start) + 1
    place = _Place(text.count("\n", 0, start) + 1 + line_offset, start - line_start + 1 + column_offset)
    raise plan_error(
        "plan_yaml",
        f"the character U+{ord(found[0]):04X} is not allowed in YAML",
        place,
        hint="Remove the control character.",
    )


class _Builder:
    """Turns events into nodes, with an explicit stack of the collections that are open."""

    def __init__(self, first_line: int, first_column: int) -> None:
        self._first_line = first_line
        self._first_column = first_column
        self._documents = 0

    def build(self, text: str) -> Node | None:
        documents = Seq()
        try:
            loader = _LOADER(text)
            try:
                self._consume(loader.get_event, documents)
            finally:
                loader.dispose()
        except yaml.YAMLError as error:
            raise self._syntax_error(error, text) from None
        return documents[0] if documents else None

    def _consume(self, next_event: Any, documents: Seq) -> None:
        """Take events until the stream ends; `key` is the one that waits for its value in the mapping `parent`."""
        parent: Seq | Map = documents
        key: Text | None = None
        outer: list[tuple[Seq | Map, Text | None]] = []
        node: Node
        scalar, first_line, first_column = yaml.ScalarEvent, self._first_line, self._first_column
        while True:
            event = next_event()
            kind = event.__class__
            if kind is scalar:
                node = Text(event.value)
                mark = event.start_mark
                node.line = mark.line + first_line
                node.column = mark.column + first_column
                node.plain = not event.style
                if event.tag is not None or event.anchor is not None or event.style == '"':
                    self._check_text(node, event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                parent, key = outer.pop()
                continue
            elif kind is yaml.MappingStartEvent:
                node = self._collection(Map(), event, len(outer))
            elif kind is yaml.SequenceStartEvent:
                node = self._collection(Seq(), event, len(outer))
            elif kind is yaml.StreamEndEvent:
                return
            else:
                self._check_other(kind, event)
                continue
            if isinstance(parent, Seq):
                parent.append(node)
            elif key is None:
                key = self._key(node, parent)
            else:
                parent[key] = node
                key = None
            if not isinstance(node, Text):
                outer.append((parent, key))
                parent, key = node, None

    def _check_text(self, text: Text, event: Any) -> None:
        if event.tag is not None or event.anchor is not None:
            self._refuse_tag_and_anchor(event)
        if _UNUSABLE.search(text):
            message = "text must not contain NUL or half a character"
            raise plan_error("plan_yaml", message, text, hint=ESCAPE_HINT)

    def _collection(self, node: _C, event: Any, depth: int) -> _C:
        if event.tag is not None or event.anchor is not None:
            self._refuse_tag_and_anchor(event)
        mark = event.start_mark
        node.line = mark.line + self._first_line
        node.column = mark.column + self._first_column
        if depth >= MAX_DEPTH:
            hint = "Check the brackets and the indentation; a plan needs some five levels."
            raise plan_error("plan_yaml", f"nested deeper than {MAX_DEPTH} levels", node, hint=hint)
        return node

    def _key(self, node: Node, parent: Map) -> Text:
        if not isinstance(node, Text):
            hint = "Put text that begins with [ or { in quotes."
            raise plan_error("plan_yaml", "a key must be plain text, not a list or a mapping", node, hint=hint)
        if node not in parent:
            return node
        first = next(known for known in parent if known == node)
        raise plan_error(
            "plan_yaml",
            f"the key {shown(node)} stands twice, first on line {first.line}",
            node,
            hint="Keep one of the two.",
        )

    def _check_other(self, kind: type[Any], event: Any) -> None:
        if kind is yaml.AliasEvent:
            hint = "Write the value out."
            raise plan_error("plan_yaml", "aliases (*name) are not allowed", self._place(event), hint=hint)
        if kind is yaml.DocumentStartEvent:
            self._documents += 1
            if self._documents > 1:
                hint = "Keep one document; remove the line ---."
                raise plan_error("plan_yaml", "a second YAML document begins here", self._place(event), hint=hint)

    def _refuse_tag_and_anchor(self, event: Any) -> None:
        what, hint = (
            (f"the tag {shown(event.tag)} is", "Remove it: every value is read as text.")
            if event.tag is not None
            else (f"the anchor &{event.anchor} is", "Remove it and write the value out.")
        )
        raise plan_error("plan_yaml", f"{what} not allowed", self._place(event), hint=hint)

    def _place(self, event: Any) -> _Place:
        return self._place_of(event.start_mark)

    def _place_of(self, mark: Any) -> _Place:
        return _Place(mark.line + self._first_line, mark.column + self._first_column)

    def _syntax_error(self, error: yaml.YAMLError, text: str) -> PlanError:
        slip = explain(error, text, _LOADER, self._first_line)
        place = None if slip.mark is None else self._place_of(slip.mark)
        return plan_error("plan_yaml", f"not valid YAML: {slip.message}", place, hint=slip.hint)
