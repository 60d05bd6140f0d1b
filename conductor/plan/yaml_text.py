"""YAML in which every scalar keeps the text that stands in the file, and every value knows its place.

`1.10` stays `1.10`, `01` keeps its zero, `on` is a word. Built from the parser's events by hand and without recursion:
nothing is resolved, constructed or composed, so neither a tag nor a depth bomb has anything to act on.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import yaml

from conductor.errors import PlanError
from conductor.plan.errors import plan_error, shown

MAX_DEPTH = 64
"""Deepest nesting of a plan; real ones have 5."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")  # can be written as an escape, can be stored nowhere
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


def read_yaml(text: str, *, line_offset: int = 0, column_offset: int = 0) -> Node | None:
    """Read one document; None where there is none.

    The offsets are added to every line and column. Raises PlanError `plan_yaml`.
    """
    _refuse_characters(text, line_offset, column_offset)
    return _Builder(line_offset + 1, column_offset + 1).build(text)


def as_json(node: Node) -> Any:
    """Return the node as lists, dicts and strings (null for an unquoted null), for `extra`.

    The depth is at most MAX_DEPTH, so recursion is safe.
    """
    if isinstance(node, Text):
        return None if node.is_null else str(node)
    if isinstance(node, Seq):
        return [as_json(item) for item in node]
    return {str(key): as_json(value) for key, value in node.items()}


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
        self._open: list[Seq | Map] = []
        self._keys: list[Text | None] = []
        """Per open collection: the key that waits for its value (always None in a sequence)."""
        self._root: Node | None = None
        self._documents = 0

    def build(self, text: str) -> Node | None:
        try:
            loader = _LOADER(text)
            try:
                self._consume(loader.get_event)
            finally:
                loader.dispose()
        except yaml.YAMLError as error:
            raise self._syntax_error(error, text) from None
        return self._root

    def _consume(self, next_event: Any) -> None:
        """Take events until the stream ends. Scalars, nearly all of them, come first and take the short way."""
        first_line, first_column, add = self._first_line, self._first_column, self._add
        while True:
            event = next_event()
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                text = Text(event.value)
                mark = event.start_mark
                text.line = mark.line + first_line
                text.column = mark.column + first_column
                text.plain = not event.style
                if not text.plain or event.tag is not None or event.anchor is not None:
                    self._check_scalar(event, text)
                add(text)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._open.pop()
                self._keys.pop()
            elif kind is yaml.StreamEndEvent:
                return
            else:
                self._rarer(kind, event)

    def _rarer(self, kind: type[Any], event: Any) -> None:
        if kind is yaml.MappingStartEvent:
            self._begin(Map(), event)
        elif kind is yaml.SequenceStartEvent:
            self._begin(Seq(), event)
        elif kind is yaml.AliasEvent:
            raise plan_error(
                "plan_yaml", "aliases (*name) are not allowed", self._place(event), hint="Write the value out."
            )
        elif kind is yaml.DocumentStartEvent:
            self._begin_document(event)

    def _begin_document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise plan_error(
                "plan_yaml",
                "a second YAML document begins here",
                self._place(event),
                hint="Keep one document; remove the line ---.",
            )

    def _check_scalar(self, event: Any, text: Text) -> None:
        if event.tag is not None or event.anchor is not None:
            self._refuse_tag_and_anchor(event)
        if event.style == '"' and _UNUSABLE.search(text):
            raise plan_error("plan_yaml", "text must not contain NUL or half a character", text)

    def _begin(self, node: Seq | Map, event: Any) -> None:
        if event.tag is not None or event.anchor is not None:
            self._refuse_tag_and_anchor(event)
        mark = event.start_mark
        node.line = mark.line + self._first_line
        node.column = mark.column + self._first_column
        if len(self._open) >= MAX_DEPTH:
            raise plan_error("plan_yaml", f"nested deeper than {MAX_DEPTH} levels", node)
        self._add(node)
        self._open.append(node)
        self._keys.append(None)

    def _add(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if isinstance(parent, Seq):
            parent.append(node)
            return
        key = self._keys[-1]
        if key is not None:
            parent[key] = node
            self._keys[-1] = None
        elif isinstance(node, Text):
            if node in parent:
                self._refuse_duplicate(parent, node)
            self._keys[-1] = node
        else:
            raise plan_error("plan_yaml", "a key must be plain text, not a list or a mapping", node)

    def _refuse_duplicate(self, parent: Map, key: Text) -> None:
        first = next(known for known in parent if known == key)
        raise plan_error(
            "plan_yaml",
            f"the key {shown(key)} stands twice, first on line {first.line}",
            key,
            hint="Keep one of the two.",
        )

    def _refuse_tag_and_anchor(self, event: Any) -> None:
        what, hint = (
            (f"the tag {shown(event.tag)} is", "Remove it: every value is read as text.")
            if event.tag is not None
            else (f"the anchor &{event.anchor} is", "Remove it and write the value out.")
        )
        raise plan_error("plan_yaml", f"{what} not allowed", self._place(event), hint=hint)

    def _place(self, event: Any) -> _Place:
        mark = event.start_mark
        return _Place(mark.line + self._first_line, mark.column + self._first_column)

    def _syntax_error(self, error: yaml.YAMLError, text: str) -> PlanError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        context = getattr(error, "context", None)
        message = f"not valid YAML: {context}, {problem}" if context else f"not valid YAML: {problem}"
        place = _Place(mark.line + self._first_line, mark.column + self._first_column) if mark else None
        return plan_error("plan_yaml", message, place, hint=_hint(problem, _line_at(text, mark.line) if mark else ""))


def _line_at(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number] if number < len(lines) else ""


def _hint(problem: str, line: str) -> str:
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "Indent with spaces; YAML does not allow tabs there."
    if "cannot start any token" in problem:
        return "Put text that begins with a special character in quotes."
    if "mapping values are not allowed" in problem:
        return 'Put text that contains ": " in quotes.'
    return "Check indentation and quotes on this line and the one before."
