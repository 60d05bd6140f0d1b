"""Files that are named by another way than from the project still exclude each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.core import conflicts
from conductor.plan.claims import from_project
from conductor.testing import plan_of, task_of

PROJECT = Path("/home/me/project")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("src/a.py", "src/a.py"),
        ("/home/me/project/src/a.py", "src/a.py"),
        ("/home/me/project/src/*.py", "src/*.py"),
        ("/home/me/project/docs/", "docs/"),
        ("../project/src/a.py", "src/a.py"),
        ("src/../lib/**", "lib/**"),
        ("/etc/hosts", "/etc/hosts"),
        ("../other/a.py", "../other/a.py"),
        ("/home/me/projects/a.py", "/home/me/projects/a.py"),
        ("a..b.py", "a..b.py"),
    ],
)
def test_what_lies_in_the_project_is_named_from_it(named: str, expected: str) -> None:
    plan = from_project(plan_of(task_of("1", files=(named,), reads=(named,))), PROJECT)
    assert (plan.tasks[0].files, plan.tasks[0].reads) == ((expected,), (expected,))


def test_two_ways_to_one_file_are_a_conflict() -> None:
    plan = plan_of(task_of("1", files=("/home/me/project/f",)), task_of("2", files=("f",)))
    assert conflicts.pairs(plan) == []
    assert [pair[:2] for pair in conflicts.pairs(from_project(plan, PROJECT))] == [("1", "2")]
