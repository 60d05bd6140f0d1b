"""Every promise of docs/guarantees.md has a test that is named after it, and the other way round."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def numbers_of_promises() -> set[int]:
    """Return the numbers of the tables."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    return {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}


def numbers_of_tests() -> set[int]:
    """Return the numbers in the names of tests."""
    names = [
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    return {int(match[1]) for name in names if (match := re.match(r"test_requirement_(\d+)_", name))}


def test_every_promise_has_a_test_named_after_it() -> None:
    assert sorted(numbers_of_promises() - numbers_of_tests()) == []


def test_every_test_named_after_a_promise_finds_it_in_the_document() -> None:
    assert sorted(numbers_of_tests() - numbers_of_promises()) == []
