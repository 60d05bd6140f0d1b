"""What the members of a group share: kept apart by the schedule, or locked by the workers."""

from __future__ import annotations

from typing import Any

import pytest

LoadNodes = Any

NODES = """
- {id: a, files: [src/a.py]}
- {id: b, files: ["src/*"]}
- {id: c, reads: [src/a.py]}
- {id: d, resources: [db]}
- {id: out, files: [src/a.py]}
"""


def shared(load_nodes: LoadNodes, *names: str, strategy: str = "") -> tuple[list[Any], list[Any]]:
    listed = ", ".join(names)
    more = f", coordination_strategy: {strategy}" if strategy else ""
    group = f"{{id: g, tasks: [a, b, c, d], shared_resources: [{listed}]{more}}}"
    tasks = load_nodes(NODES, f"parallel_groups: [{group}]").tasks
    return [task.resources for task in tasks], [task.locks for task in tasks]


def test_what_nobody_says_he_uses_may_be_used_by_any_member(load_nodes: LoadNodes) -> None:
    assert shared(load_nodes, "README.md") == ([("README.md",)] * 3 + [("db", "README.md"), ()], [None] * 5)


def test_one_who_says_so_is_not_enough_and_is_not_made_to_hold_it_twice(load_nodes: LoadNodes) -> None:
    assert shared(load_nodes, "db", strategy="none")[0] == [("db",)] * 4 + [()]


def test_what_two_declare_keeps_them_apart_as_it_is(load_nodes: LoadNodes) -> None:
    assert shared(load_nodes, "./src/a.py") == ([(), (), (), ("db",), ()], [None] * 5)


@pytest.mark.parametrize(
    ("names", "locks"),
    [
        ((), [(), (), (), (), None]),
        (("src/a.py",), [("src/a.py",), ("src/a.py",), ("src/a.py",), (), None]),
        (("db", "src/a.py"), [("db", "src/a.py")] * 3 + [("db",), None]),
    ],
)
def test_with_file_locks_the_workers_of_the_group_lock(
    load_nodes: LoadNodes, names: tuple[str, ...], locks: list[Any]
) -> None:
    assert shared(load_nodes, *names, strategy="file_lock") == ([(), (), (), ("db",), ()], locks)
