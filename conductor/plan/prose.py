"""What a Markdown plan says about each task: its check box with what is nested below, or its section.

A line belongs to a task only if an id stands on it exactly; `3.1` is never found in `3.10` or `13.1`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bus.wire import TaskId
from conductor.plan.locate import Block

_BOX = re.compile(r"^(\s*)(?:[-*+]|[0-9]{1,9}[.)])\s+\[(.)\](?:\s+(.*))?$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(?:\[(.)\]\s*)?(.*)$")
_WORD = re.compile(r"^(?:sub-?)?(?:task|step)s?\b[\s#:]*", re.IGNORECASE)
_TOKEN = re.compile(r"\S+")
_MARKS = "*_`~[]()"
"""Emphasis and brackets that may stand round an id."""
_ENDS = ":.),;"
_SEPARATORS = (": ", " - ", " – ", " — ")
"""What stands between an id and a name."""


@dataclass(frozen=True, slots=True)
class Item:
    """A check box, or a heading, that may speak of a task. Lines are counted from 0."""

    line: int
    mark: str | None
    """The character in the box; None for a heading without one."""
    level: int
    """Of a heading: 1–6; of a box: its indentation."""
    heading: bool
    text: str

    @property
    def ticked(self) -> bool:
        """Whether the box is ticked. Marks other than x and X say nothing."""
        return self.mark in ("x", "X")


@dataclass(frozen=True, slots=True)
class TaskProse:
    """What the plan says about one task."""

    text: str
    ticked: bool
    """Whether it has boxes of its own, and all are ticked."""


def find_items(lines: Sequence[str], blocks: Iterable[Block]) -> list[Item]:
    """Return all check boxes and headings outside of fenced blocks, in order."""
    items: list[Item] = []
    at = 0
    for start, end in [*((block.first, block.end) for block in blocks), (len(lines), len(lines))]:
        for number in range(at, start):
            item = _item(lines[number], number)
            if item is not None:
                items.append(item)
        at = end
    return items


def find_prose(
    lines: Sequence[str], blocks: Sequence[Block], dag: Block | None, known: Container[TaskId]
) -> dict[TaskId, TaskProse]:
    """Return the prose of every task that has some. Linear: no line is given to two tasks."""
    items = find_items(lines, blocks)
    named = [(item, *found) for item in items if (found := task_named(item, known)) is not None]
    certain = {task for _, task, sure in named if sure}
    entries = [(item, task) for item, task, sure in named if sure or task not in certain]
    walls = _Walls(lines, items, blocks, dag)
    texts: dict[TaskId, list[str]] = {}
    boxes: dict[TaskId, list[bool]] = {}
    covered = 0
    for (item, task), following in zip(entries, _starts_of_others(entries, len(lines)), strict=True):
        if item.mark is not None:
            boxes.setdefault(task, []).append(item.ticked)
        if item.line < covered:  # stands in the section of the same task
            continue
        covered = walls.end(item, following)
        texts.setdefault(task, []).append(walls.text(item.line, covered))
    return {task: TaskProse("\n\n".join(parts), all(boxes.get(task, [False]))) for task, parts in texts.items()}


def task_named(item: Item, known: Container[TaskId]) -> tuple[TaskId, bool] | None:
    """Return the task that the line speaks of, and whether it says so with the word "Task" or "Step"."""
    rest, word = without_word(item.text)
    for candidate, believed in _candidates(rest):
        task = TaskId(candidate)
        if task in known and (word or believed):
            return task, word
    return None


def without_word(text: str) -> tuple[str, bool]:
    """Return what follows "Task" or "Step" at the beginning of a line, and whether one of these stands there."""
    text = text.lstrip(_MARKS + " ")
    word = _WORD.match(text)
    return (text[word.end() :].lstrip(_MARKS), True) if word else (text, False)


def first_token(text: str) -> tuple[str, bool]:
    """Return the first word of a text without punctuation, and whether it looks like an id.

    `1.1 Name`, `UI-3 Name` and `build: …` begin with an id, `build the thing` does not.
    """
    token = _TOKEN.match(text)
    if token is None:
        return "", False
    first = token[0]
    bare = first.rstrip(_ENDS + _MARKS)
    behind = text[token.end() :].lstrip()
    marked = first != bare or not behind or behind[0] in ":-–—"
    return bare, marked or (not bare.isdecimal() and any(c.isdigit() for c in bare))


def _candidates(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what the id at the beginning of a text may be, longest first, and whether to believe it without "Task"."""
    bare, believed = first_token(text)
    if not bare:
        return
    whole = text.partition("<!--")[0].strip()
    yield whole, True
    yield whole.rstrip(_ENDS + _MARKS), True
    for separator in _SEPARATORS:
        before, here, _ = whole.partition(separator)
        if here:
            yield before.strip(), True
            yield before.strip(_MARKS + " "), True
    first = text.split(None, 1)[0]
    yield first, believed
    yield first.rstrip(_ENDS), believed
    yield bare, believed


def _starts_of_others(entries: Sequence[tuple[Item, TaskId]], end: int) -> list[int]:
    """Return for each entry the line on which the next entry of another task begins."""
    starts: list[int] = []
    following = end
    for number in range(len(entries) - 1, -1, -1):
        if number + 1 < len(entries) and entries[number + 1][1] != entries[number][1]:
            following = entries[number + 1][0].line
        starts.append(following)
    return starts[::-1]


class _Walls:
    """Where a task's prose ends."""

    def __init__(self, lines: Sequence[str], items: list[Item], blocks: Sequence[Block], dag: Block | None) -> None:
        self._lines = lines
        self._headings = [item for item in items if item.heading]
        self._next_heading = 0
        self._inside = bytearray(len(lines))  # 1 for lines inside a block
        for block in blocks:
            self._inside[block.first + 1 : block.end] = b"\1" * (block.end - block.first - 1)
        self._dag = range(dag.first, dag.end) if dag is not None else range(0)

    def end(self, item: Item, following: int) -> int:
        """Return the line behind the item's prose; `following` is the first line of another task. Called in order."""
        if not item.heading:
            return self._end_of_box(item, following)
        while self._next_heading < len(self._headings) and self._headings[self._next_heading].line <= item.line:
            self._next_heading += 1
        for number in range(self._next_heading, len(self._headings)):
            heading = self._headings[number]
            if heading.line >= following:
                break
            if heading.level <= item.level:
                return heading.line
        return following

    def text(self, start: int, end: int) -> str:
        """Return the lines, without the DAG and without blank lines at the end."""
        return "\n".join(self._lines[number] for number in range(start, end) if number not in self._dag).rstrip()

    def _end_of_box(self, item: Item, following: int) -> int:
        number = item.line + 1
        while number < following:
            line = self._lines[number]
            content = line.lstrip()
            inside = self._inside[number]
            if content and not inside and len(line) - len(content) <= item.level:
                break
            number += 1
        return number


def _item(line: str, number: int) -> Item | None:
    if "[" in line:
        box = _BOX.match(line)
        if box is not None:
            return Item(number, box[2], len(box[1]), False, box[3] or "")
    if "#" in line:
        heading = _HEADING.match(line)
        if heading is not None:
            return Item(number, heading[2], len(heading[1]), True, heading[3].rstrip("# "))
    return None
