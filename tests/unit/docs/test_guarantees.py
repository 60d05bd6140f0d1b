"""Every promise of docs/guarantees.md has a test that is named after it, and the other way round."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


SIGNS = (
    ("c", ("faults/test_every_call.py", "faults/test_crash_points.py")),
    ("s", ("faults/test_simulation.py",)),
    ("p", ("faults/test_bus_processes.py", "integration/")),
    ("d", ("faults/",)),
    ("u", ("unit/", "contract/")),
)
"""How tests in which place hold a promise, the first that fits. Beyond the tests that are named after it the simulation
holds more: whatever it demands of each seed."""


def promises() -> dict[int, set[str]]:
    """Return the signs of each promise in the tables."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|.*\| ([a-z ]+) \|$", page, re.MULTILINE)
    return {int(number): set(signs.split()) for number, signs in rows}


def named() -> dict[int, set[str]]:
    """Return the signs of each number in the names of tests."""
    found: dict[int, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        place = str(path.relative_to(ROOT / "tests"))
        sign = next((sign for sign, places in SIGNS if place.startswith(places)), None)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match = re.match(r"test_requirement_(\d+)_", node.name) if isinstance(node, ast.FunctionDef) else None
            if match and sign:
                found.setdefault(int(match[1]), set()).add(sign)
    return found


def test_every_promise_has_tests_named_after_it_and_they_find_it_in_the_document() -> None:
    assert sorted(promises()) == sorted(named())


def test_how_a_promise_is_held_is_said_as_its_tests_are() -> None:
    assert {number: signs - {"s"} for number, signs in promises().items()} == {
        number: signs - {"s"} for number, signs in named().items()
    }
