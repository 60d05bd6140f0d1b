"""Parallel groups are hints: what is odd is said, nothing but nonsense is refused."""

from __future__ import annotations

from typing import Any

import pytest

LoadNodes = Any
Refused = Any
Codes = Any

NODES = "- id: a\n- id: b\n"


def test_a_full_group(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes(
        NODES,
        """
        parallel_groups:
          - id: pg-1
            tasks: [a, b]
            conflict_free: yes
            shared_resources: [db]
            coordination_strategy: file_lock
            max_workers: 3
            timeout: 60m
        """,
    )
    group = plan.groups[0]
    assert (group.id, group.tasks, group.conflict_free, group.shared_resources) == ("pg-1", ("a", "b"), True, ("db",))
    assert (group.coordination_strategy, group.max_workers, group.timeout) == ("file_lock", 3, 3600.0)
    assert [task.locks for task in plan.tasks] == [("db",), ("db",)]
    assert codes(plan) == []


def test_what_nothing_acts_on_is_said_once(load_nodes: LoadNodes, codes: Codes) -> None:
    key = "coordination_strategy: merge_queue"
    plan = load_nodes(NODES, f"parallel_groups: [{{id: g, tasks: [a], {key}}}, {{id: h, tasks: [b], {key}}}]")
    assert codes(plan) == ["not_supported_yet"]
    assert 'coordination_strategy "merge_queue"' in plan.warnings[0].message
    assert plan.warnings[0].message.endswith("(2 places)")


@pytest.mark.parametrize(
    "key",
    [
        "timeout: none",
        "timeout: 1h",
        "shared_resources: []",
        "shared_resources: [other]",
        "shared_resources: [./src/a.py, db], coordination_strategy: file_lock",
        "coordination_strategy: file_lock",
        "coordination_strategy: none",
    ],
)
def test_what_happens_anyway_is_no_warning(load_nodes: LoadNodes, codes: Codes, key: str) -> None:
    nodes = "".join(f"- {{id: {name}, files: [src/a.py], resources: [db]}}\n" for name in "ab")
    assert codes(load_nodes(nodes, f"parallel_groups: [{{id: g, tasks: [a, b], {key}}}]")) == []


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("[{id: g, tasks: [a, x]}]", ["group_unknown_task"]),
        ("[{id: g, tasks: []}]", ["group_empty"]),
        ("[{id: g}]", ["group_empty"]),
        ("[{id: g, tasks: [a]}, {id: g, tasks: [b]}]", ["group_duplicate_id"]),
        ("[{id: g, tasks: [a]}, {id: h, tasks: [a, b]}]", ["group_duplicate_task"]),
        ("[{id: g, tasks: [a, a]}]", ["group_duplicate_task"]),
        ("[{id: g, tasks: [a], conflict_free: perhaps}]", ["group_field"]),
        ("[{id: g, tasks: [a], max_worker: 3}]", ["did_you_mean"]),
        ("[{id: g, members: [a]}]", ["did_you_mean", "group_empty"]),
        ("[{tasks: [a]}]", []),
        ("[{id: g, tasks: [a], depends_on: [x]}]", ["group_order"]),
        ("[{id: g, tasks: a}]", []),
    ],
)
def test_oddities_are_warnings(load_nodes: LoadNodes, codes: Codes, groups: str, expected: list[str]) -> None:
    plan = load_nodes(NODES, f"parallel_groups: {groups}")
    assert codes(plan) == expected
    assert all(warning.line == 9 for warning in plan.warnings)


@pytest.mark.parametrize(
    "groups",
    [
        "x",
        "{a: b}",
        "[a]",
        "[[a]]",
        "[{id: g, tasks: {a: b}}]",
        "[{id: g, tasks: [[a]]}]",
        "[{tasks: [a], max_workers: 0}]",
        "[{tasks: [a], timeout: soon}]",
    ],
)
def test_nonsense_is_refused(refused: Refused, groups: str) -> None:
    assert refused(NODES, f"parallel_groups: {groups}").code == "plan_field"


def test_groups_that_wait_for_ungrouped_tasks_give_one_warning(load_nodes: LoadNodes, codes: Codes) -> None:
    nodes = "- id: a\n- {id: b, depends_on: [a]}\n- {id: c, depends_on: [a]}\n"
    plan = load_nodes(nodes, "parallel_groups: [{id: g, tasks: [b]}, {id: h, tasks: [c]}]")
    assert codes(plan) == ["group_waits"]
    assert "b waits for a" in plan.warnings[0].message


def test_an_unknown_member_gets_did_you_mean(load_nodes: LoadNodes) -> None:
    plan = load_nodes("- id: build\n", "parallel_groups: [{id: g, tasks: [biuld]}]")
    assert 'Did you mean "build"?' in plan.warnings[0].message
    assert plan.groups[0].tasks == ()


def test_many_unknown_members_are_summarised(load_nodes: LoadNodes) -> None:
    members = ", ".join(f"x{n}" for n in range(30))
    plan = load_nodes(
        "".join(f"- id: t{n}\n" for n in range(6000)), f"parallel_groups: [{{id: g, tasks: [{members}]}}]"
    )
    assert len(plan.warnings) == 21
    assert plan.warnings[-1].message.startswith("and 10 more")


def test_groups_beside_the_dag_are_a_warning(codes: Codes) -> None:
    from conductor.plan import loads

    assert codes(loads("```yaml\ndag: {nodes: [{id: a}]}\nparallel_groups: []\n```\n")) == ["did_you_mean"]


def test_pairs_of_a_large_group_are_counted(load_nodes: LoadNodes) -> None:
    nodes = "".join(f"- {{id: t{n}, files: [a.py]}}\n" for n in range(2500))
    members = ", ".join(f"t{n}" for n in range(2500))
    plan = load_nodes(nodes, f"parallel_groups: [{{id: g, conflict_free: true, tasks: [{members}]}}]")
    messages = [warning.message for warning in plan.warnings]
    assert messages[0] == "group g says conflict_free, but t0 and t1 share a.py"
    assert len(messages) == 11
    assert messages[-1] == "group g says conflict_free, but at least 990 more pairs share a file"


def test_groups_past_those_that_are_shown_are_counted(load_nodes: LoadNodes) -> None:
    nodes = "".join(f"- {{id: t{n}, files: [a.py]}}\n" for n in range(80))
    groups = ", ".join(f"{{id: g{n}, conflict_free: true, tasks: [t{2 * n}, t{2 * n + 1}]}}" for n in range(40))
    plan = load_nodes(nodes, f"parallel_groups: [{groups}]")
    assert plan.warnings[-1].message == "and 20 more of the kind group_shared_files"


def test_groups_with_too_much_to_compare_are_believed_and_that_is_said(load_nodes: LoadNodes, codes: Codes) -> None:
    nodes = "".join(f'- {{id: t{n}, files: ["*/n{n}.py"]}}\n' for n in range(1500))
    members = ", ".join(f"t{n}" for n in range(1500))
    plan = load_nodes(nodes, f"parallel_groups: [{{id: g, conflict_free: true, tasks: [{members}]}}]")
    assert codes(plan) == ["group_not_compared"]
