"""Plans to start from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conductor.plan import loads
from conductor.plan.skeleton import ProposedTask, dag_block, plan_text, tasks_in


def test_the_example_is_valid_and_says_nothing_odd() -> None:
    plan = loads(plan_text("My track"))
    assert plan.warnings == ()
    assert plan.project == "."
    assert all(task.run and task.prose for task in plan.tasks)


def test_the_example_runs_as_it_is(tmp_path: Path) -> None:
    for task in loads(plan_text("x")).tasks:
        for command in (task.run or (), *task.verify):
            subprocess.run(command, cwd=tmp_path, check=True)
        assert all((tmp_path / file).is_file() for file in task.files)
    assert (tmp_path / "result.txt").read_text().startswith("hello\nHELLO\n")


def test_a_dag_is_proposed_from_check_boxes() -> None:
    text = '# Plan\n- [x] Task 1.1: First <!-- deps: none -->\n  - [ ] part\n- [ ] **Task 1.2**: Se"cond\n- [ ] note\n'
    tasks = tasks_in(text)
    assert tasks == [ProposedTask("1.1", "First"), ProposedTask("1.2", 'Se"cond')]
    plan = loads(f"{text.rstrip()}{dag_block(tasks)}")
    assert [(task.id, task.depends_on) for task in plan.tasks] == [("1.1", ()), ("1.2", ("1.1",))]
    assert plan.tasks[0].prose.startswith("- [x] Task 1.1: First")


def test_what_a_proposed_dag_recommends_exists() -> None:
    block = dag_block([ProposedTask("1", "A")])
    assert "--command 'my-worker {prompt_file}'" in block
    assert "--agent" not in block


def test_the_example_shows_how_verify_uses_a_shell() -> None:
    text = plan_text("x").replace("      # verify: [[", "      verify: [[").replace('      verify: ["test', "      # ")
    assert loads(text).tasks[-1].verify == (("sh", "-c", "test -s result.txt && test -s shout.txt"),)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("### Step 1: A (done)\n- x\n### Step 2: B\n", [("1", "A (done)"), ("2", "B")]),
        ("- [ ] UI-1: A\n- [ ] UI-2: B\n", [("UI-1", "A"), ("UI-2", "B")]),
        ("- [ ] write it\n  - [ ] part\n- [ ] test it\n", [("1", "write it"), ("2", "test it")]),
        ("- [ ] Task 1: A\n- [ ] Task 1: again\n", [("1", "A")]),
        ("- [ ] Task 1\n", [("1", "1")]),
        ("- [ ]\n", [("1", "Task 1")]),
        ("nothing\n", []),
        ("", []),
    ],
)
def test_what_is_taken_for_a_task(text: str, tasks: list[tuple[str, str]]) -> None:
    assert [(task.id, task.name) for task in tasks_in(text)] == tasks


def test_a_whole_plan_of_proposed_tasks() -> None:
    plan = loads(plan_text("a\nb", [ProposedTask("1", "\u2028x: 'y'\\"), ProposedTask("b", "z")]))
    assert [task.id for task in plan.tasks] == ["1", "b"]
    assert plan.tasks[0].name == "\u2028x: 'y'\\"
