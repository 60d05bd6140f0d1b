"""What is said where there is no DAG."""

from __future__ import annotations

import pytest

from conductor.errors import PlanError
from conductor.plan import loads


def no_dag(text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        loads(text)
    assert caught.value.code == "plan_no_dag"
    return caught.value


@pytest.mark.parametrize("key", ["dga", "dags", "DAG", '"dga"'])
def test_a_misspelt_dag_gets_did_you_mean_with_its_line(key: str) -> None:
    error = no_dag(f"# P\n\n```yaml\n# c\n{key}:\n  nodes: []\nother: 1\n```\n")
    name = key.strip('"')
    assert f"no DAG: 1 YAML block without the key dag at the top: line 3 ({name}, other);" in error.message
    assert (error.line, error.hint) == (5, 'Did you mean "dag"?')


def test_nodes_without_dag_above_them_are_pointed_out() -> None:
    error = no_dag("```yaml\nnodes:\n  - id: a\n```\n")
    assert (error.line, error.hint) == (2, 'Write dag: above "nodes", and indent what is below it.')


def test_several_blocks_are_told_apart_by_line_and_keys() -> None:
    block = "```yaml\nx: 1\ny: 2\n```\n"
    assert "5 YAML blocks without the key dag at the top: line 1 (x, y), line 5 (x, y), " in no_dag(5 * block).message
    assert " and 2 more;" in no_dag(5 * block).message
    assert "line 1 (no keys);" in no_dag("```yaml\n- a: 1\n- b\n```\n").message


def test_one_box_and_one_heading_are_singular() -> None:
    assert "and 1 check box, which does not say" in no_dag("# P\n- [ ] a\n").message
    assert "and 1 heading that looks like a task, which does not say" in no_dag("### Task 1: a\n").message
    assert "2 check boxes, which do not say" in no_dag("- [ ] a\n- [ ] b\n").message


def test_nothing_to_make_a_dag_of_does_not_recommend_init_here() -> None:
    for text in ("", "# Plan\n\nwords\n"):
        assert no_dag(text).hint == "Add such a block; `conductor init NEW_FOLDER` writes a plan to look at."
