"""docs/operations.md has the words that people are shown: who searches for them finds what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.errors import BusError
from conductor.cli.examine.mount import NEEDS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")

SHORTEST = 8
"""Characters below which a piece of a message says nothing."""

NOT_SHOWN = frozenset({"AlreadyFinished", "AttemptExists", "NoSpace", "Shortage"})
"""Errors that our own code acts on: no user meets them."""


def plain(text: str) -> str:
    """Return text on one line, without marks."""
    return " ".join(text.replace("`", "").replace("*", "").split())


def kinds() -> Iterator[str]:
    yield "BusError"
    for kind in BusError.__subclasses__():
        if kind.__name__ not in NOT_SHOWN:
            yield kind.__name__


def calls(*folders: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield (name, call) of all calls in our code."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if not file.name.startswith("memory"):  # the bus of tests
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Call):
                        yield getattr(node.func, "id", getattr(node.func, "attr", "")), node


def constants() -> dict[str, ast.expr]:
    """The texts that have a name in the bus."""
    found: dict[str, ast.expr] = {}
    for file in (ROOT / "bus").glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node.value
    return found


CONSTANTS = constants()


def longest(node: ast.expr) -> str:
    """The longest piece of a text that is always the same."""
    if isinstance(node, ast.Name):
        node = CONSTANTS.get(node.id, node)
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    pieces = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return plain(max(pieces, key=len, default=""))


def words_of_the_bus() -> Iterator[str]:
    """What errors of the bus say, and their hints."""
    known = set(kinds())
    for name, call in calls("bus", "conductor/runtime", "conductor/cli"):
        if name in known:
            texts = [call.args[0], *(word.value for word in call.keywords if word.arg == "hint")]
            yield from (text for node in texts if len(text := longest(node).strip(" :(;,")) >= SHORTEST)


@pytest.mark.parametrize("words", sorted(set(words_of_the_bus())))
def test_every_error_of_the_bus_and_its_hint_can_be_searched_for(words: str) -> None:
    assert words.lower() in plain(PAGE).lower()


def test_every_code_of_the_bus_is_explained() -> None:
    codes = {kind.code for kind in (BusError, *BusError.__subclasses__())}
    assert not [code for code in codes - {"held_by_other"} if f"`{code}`" not in PAGE]


def test_every_finding_of_doctor_stands_in_the_table_and_no_other() -> None:
    made = {
        str(call.args[0].value)
        for name, call in calls("conductor/cli/examine")
        if name in ("fine", "note", "problem") and isinstance(call.args[0], ast.Constant)
    }
    made |= {f"mount_{need}" for need, *_ in NEEDS}
    table = PAGE.split("## What doctor finds", 1)[1]
    assert set(re.findall(r"^\| `([a-z_]+)` \|", table, flags=re.MULTILINE)) == made
