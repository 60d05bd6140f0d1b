"""The prose that belongs to a task."""

from __future__ import annotations

from typing import Any

import pytest

LoadNodes = Any


def prose_of(load_nodes: LoadNodes, prose: str, *ids: str) -> dict[str, str]:
    nodes = "".join(f'- id: "{task}"\n' for task in ids)
    return {task.id: task.prose for task in load_nodes(nodes, prose=prose).tasks if task.prose}


@pytest.mark.parametrize(
    "line",
    [
        "- [ ] Task 1.1: Name",
        "* [ ] Task 1.1 Name",
        "1. [ ] Task 1.1 - Name",
        "- [ ] **Task 1.1**: Name",
        "- [ ] **Task 1.1: Name**",
        "- [ ] task #1.1: Name",
        "- [ ] TASK: 1.1 Name",
        "- [ ] Step 1.1. Name",
        "- [ ] 1.1 Name",
        "- [ ] 1.1: Name",
        "- [ ] `1.1` Name",
        "- [ ] Task 1.1",
        "- [ ] Task 1.1 <!-- deps: none -->",
        "### Task 1.1 Name",
        "### Task 1.1: Name ###",
        "### [ ] Task 1.1 — Name",
        "#### 1.1 Name",
    ],
)
def test_ways_to_name_a_task(load_nodes: LoadNodes, line: str) -> None:
    assert prose_of(load_nodes, line + "\n", "1.1", "1", "1.10") == {"1.1": line}


@pytest.mark.parametrize(
    "line",
    [
        "- [ ] Task 1.11: Name",
        "- [ ] Task 11.1: Name",
        "- [ ] Task 1.1.1: Name",
        "- [ ] Task 1.1a: Name",
        "- [ ] After Task 1.1: Name",
        "- Task 1.1: no box",
        "Task 1.1: no box",
        "- [  ] Task 1.1: two spaces",
        "####### Task 1.1",
        "```\n- [ ] Task 1.1: in a fence\n```",
    ],
)
def test_lines_that_name_no_task(load_nodes: LoadNodes, line: str) -> None:
    assert prose_of(load_nodes, line + "\n", "1.1") == {}


def test_a_plain_word_is_no_id_unless_it_is_marked(load_nodes: LoadNodes) -> None:
    assert prose_of(load_nodes, "- [ ] build the thing\n- [ ] 2 tests\n", "build", "2") == {}
    assert prose_of(load_nodes, "- [ ] build: the thing\n", "build") == {"build": "- [ ] build: the thing"}
    assert prose_of(load_nodes, "- [ ] Task build\n", "build") == {"build": "- [ ] Task build"}


@pytest.mark.parametrize("task", ["a b", "C++", "a/b", "x (old)", "任务", "end.", "a:b"])
def test_ids_that_are_hard_to_cut_out(load_nodes: LoadNodes, task: str) -> None:
    line = f"- [ ] Task {task}: do"
    assert prose_of(load_nodes, line, task) == {task: line}


def test_a_box_ends_at_the_next_line_that_is_not_nested(load_nodes: LoadNodes) -> None:
    text = "- [ ] Task 1: a\n  - one\n\n  more\n    ```sh\nless indented\n    ```\n- [ ] other\n  - two\n"
    assert prose_of(load_nodes, text, "1")["1"].endswith("less indented\n    ```")


def test_a_section_ends_at_a_heading_of_its_level_or_at_another_task(load_nodes: LoadNodes) -> None:
    text = "## Task 1\na\n### Notes\nb\n### Task 2\nc\n#### More\n## Rest\nd\n"
    assert prose_of(load_nodes, text, "1", "2") == {"1": "## Task 1\na\n### Notes\nb", "2": "### Task 2\nc\n#### More"}


def test_a_section_holds_the_boxes_of_its_own_task(load_nodes: LoadNodes) -> None:
    text = "### Task 1: a\n- [x] Task 1: a\n  - deep\n- [ ] something\n"
    assert prose_of(load_nodes, text, "1") == {"1": text.rstrip()}


def test_a_section_does_not_repeat_the_dag(load_nodes: LoadNodes) -> None:
    from conductor.plan import loads

    plan = loads("# Task 1\nabove\n```yaml\ndag: {nodes: [{id: 1}]}\n```\nbelow\n")
    assert plan.tasks[0].prose == "# Task 1\nabove\nbelow"


def test_prose_in_two_places_is_joined(load_nodes: LoadNodes) -> None:
    text = "- [ ] Task 1: a\n\n# Rest\n\n### Task 1\nb\n"
    assert prose_of(load_nodes, text, "1") == {"1": "- [ ] Task 1: a\n\n### Task 1\nb"}


def test_the_word_task_wins_over_a_bare_number(load_nodes: LoadNodes) -> None:
    assert prose_of(load_nodes, "## 3. Testing\nx\n- [ ] Task 3: a\n", "3") == {"3": "- [ ] Task 3: a"}


@pytest.mark.parametrize(
    ("text", "ticked"),
    [
        ("- [x] Task 1: a", True),
        ("- [X] Task 1: a", True),
        ("### [x] Task 1: a", True),
        ("- [ ] Task 1: a\n  - [x] part", False),
        ("### Task 1\n- [x] part", False),
        ("- [x] Task 1: a\n- [ ] Task 1: again", False),
        ("- [~] Task 1: a", False),
    ],
)
def test_a_task_is_ticked_by_its_own_boxes(load_nodes: LoadNodes, text: str, ticked: bool) -> None:
    assert load_nodes('- id: "1"', prose=text).tasks[0].ticked is ticked
