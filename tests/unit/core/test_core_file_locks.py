"""What a worker locks before its command starts."""

from __future__ import annotations

import pytest

from conductor.core.file_locks import locks_of
from conductor.core.task import RunOptions
from conductor.testing.plans import task_of

LOCK = RunOptions(on_conflict="lock")


def test_nothing_unless_the_run_or_the_group_asks_for_it() -> None:
    task = task_of("a", files=("x",), reads=("y",))
    assert locks_of(task, RunOptions()) == ()
    assert locks_of(task, RunOptions(on_conflict="allow")) == ()
    assert locks_of(task, LOCK) == (("x", False), ("y", True))
    assert locks_of(task_of("a"), LOCK) == ()
    assert locks_of(task_of("a", files=("x",), locks=()), RunOptions()) == (("x", False),)


def test_what_is_read_and_written_is_locked_once_and_alone() -> None:
    assert locks_of(task_of("a", files=("x",), reads=("x", "y")), LOCK) == (("x", False), ("y", True))


@pytest.mark.parametrize(
    ("fields", "shared"),
    [
        ({}, False),
        ({"reads": ("src",)}, True),
        ({"reads": ("src",), "files": ("src/*",)}, False),
        ({"reads": ("other",)}, False),
    ],
)
def test_what_a_group_shares_is_shared_by_those_who_only_read_it(fields: dict[str, object], shared: bool) -> None:
    task = task_of("a", locks=("src/a.py",), **fields)
    assert dict(locks_of(task, RunOptions()))["src/a.py"] is shared
