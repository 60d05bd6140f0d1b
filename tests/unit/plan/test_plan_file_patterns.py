"""Entries of `files` as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.plan.file_patterns import leaves_project, split_list, split_note

LoadNodes = Any
Codes = Any


@pytest.mark.parametrize(
    ("text", "pattern", "note"),
    [
        ("src/a.py", "src/a.py", None),
        ("models.py (delete)", "models.py", "(delete)"),
        ("routers/*.py (16 files)", "routers/*.py", "(16 files)"),
        ("a.py [new]", "a.py", "[new]"),
        ("a.py - rewrite it", "a.py", "- rewrite it"),
        ("a.py — rewrite", "a.py", "— rewrite"),
        ("a.py # new", "a.py", "# new"),
        ("`src/a.py`", "src/a.py", None),
        ("./src//a/", "src/a", None),
        ("src/../b.py", "b.py", None),
        ("app/(group)/page.tsx", "app/(group)/page.tsx", None),
        ("app/[id]/page.tsx", "app/[id]/page.tsx", None),
        ("My Documents/a.txt", "My Documents/a.txt", None),
        ("Read Me.txt", "Read Me.txt", None),
        ("Makefile", "Makefile", None),
        (".", ".", None),
        ("a-b.py", "a-b.py", None),
        ("stubs from Phase 3", None, "stubs from Phase 3"),
        ("validation only", None, "validation only"),
    ],
)
def test_notes_are_split_off(text: str, pattern: str | None, note: str | None) -> None:
    assert split_note(text) == (pattern, note)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.py, b/c", ["a.py", "b/c"]),
        ("a.py,", ["a.py,"]),
        ("a.py\nb.py\n", ["a.py", "b.py"]),
        ("src/{a,b}.py", ["src/{a,b}.py"]),
        ("touched files, and more", ["touched files, and more"]),
    ],
)
def test_several_in_one_text(text: str, parts: list[str]) -> None:
    assert split_list(text) == parts


@pytest.mark.parametrize("path", ["/etc/passwd", "..", "../x", "~/x", "~"])
def test_paths_outside_the_project(path: str) -> None:
    assert leaves_project(path)


@pytest.mark.parametrize("path", ["a", "..a", "a/..b", "~a", "."])
def test_paths_inside_the_project(path: str) -> None:
    assert not leaves_project(path)


def test_outside_paths_stay_keys_with_a_warning(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes("- id: a\n  files: [/etc/passwd, a/../../x, ok/../y]\n")
    assert plan.tasks[0].files == ("/etc/passwd", "../x", "y")
    assert codes(plan) == ["file_outside_project", "file_outside_project"]
