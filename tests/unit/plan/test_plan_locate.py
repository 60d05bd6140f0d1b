"""Finding blocks in Markdown."""

from __future__ import annotations

import pytest

from conductor.errors import PlanError
from conductor.plan import loads
from conductor.plan.locate import split_lines

DAG = "dag:\n  nodes:\n    - id: a\n"


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("```yaml", "```"),
        ("```yml", "```  "),
        ("``` yaml", "```"),
        ("```YAML", "```"),
        ("```{yaml}", "```"),
        ("````yaml", "````"),
        ("````yaml", "``````"),
        ("~~~yaml", "~~~"),
        ("~~~ yaml `x`", "~~~"),
        ("```yaml name of=the block", "```"),
        ("```json", "```"),
        ("```yaml", ""),
    ],
)
def test_fences(opening: str, closing: str) -> None:
    assert loads(f"# P\n{opening}\n{DAG}{closing}\n").tasks[0].line == 5


def test_a_fence_inside_a_list_item_loses_its_indentation() -> None:
    text = "- the plan:\n\n    ```yaml\n" + "".join(f"    {line}\n" for line in DAG.splitlines()) + "    ```\n"
    task = loads(text).tasks[0]
    assert task.line == 6


def test_columns_count_the_indentation_of_the_fence() -> None:
    with pytest.raises(PlanError, match=r"line 3, column 8\)"):
        loads("  ```yaml\n  dag:\n    a: !t x\n  ```\n")


def test_a_longer_fence_holds_shorter_ones() -> None:
    assert loads(f"````md\n```yaml\n{DAG}```\n````\n\n```yaml\n{DAG}```\n").tasks[0].line == 12


def test_a_tilde_fence_is_not_closed_by_backticks() -> None:
    assert loads(f"~~~text\n```yaml\n{DAG}```\n~~~\n~~~yaml\n{DAG}~~~\n").tasks[0].line == 11


def test_text_in_the_dag_may_hold_fences_of_its_own() -> None:
    text = "      instructions: |\n        Run\n        ```sh\n        make\n        ```\n        and look.\n"
    task = loads(f"```yaml\n{DAG}{text}   ```\n# Rest\n").tasks[0]
    assert task.instructions == "Run\n```sh\nmake\n```\nand look.\n"


def test_inline_code_is_no_fence() -> None:
    assert loads(f"```yaml``` is how it begins\n\n```yaml\n{DAG}```\n").tasks[0].line == 6


def test_a_commented_out_block_does_not_count() -> None:
    assert loads(f"<!--\n```yaml\n{DAG}```\n-->\n```yaml\n{DAG}```\n").tasks[0].line == 11


def test_an_open_comment_hides_nothing() -> None:
    assert loads(f"<!-- note\n\n```yaml\n{DAG}```\n").tasks[0].line == 6


@pytest.mark.parametrize(
    "body",
    [
        "# dag:\nx: 1",
        "x:\n  dag: 1",
        "text: |\n  dag: 1",
        "dags: 1",
        "dag:x",
        '{"x": 1}',
    ],
)
def test_dag_must_be_the_top_level_key(body: str) -> None:
    with pytest.raises(PlanError) as caught:
        loads(f"```yaml\n{body}\n```\n")
    assert caught.value.code == "plan_no_dag"


@pytest.mark.parametrize("before", ["# c\n", "---\n", "version: 1\n", "\n\n"])
def test_dag_may_stand_behind_other_keys(before: str) -> None:
    assert loads(f"```yaml\n{before}{DAG}```\n").tasks[0].id == "a"


def test_a_nested_dag_in_a_flow_mapping_is_none() -> None:
    with pytest.raises(PlanError, match="no mapping with the key dag") as caught:
        loads('```json\n{"x": {"dag": {"nodes": [{"id": "a"}]}}}\n```\n')
    assert caught.value.code == "plan_no_dag"


def test_a_dag_in_a_fence_of_another_language_is_pointed_out() -> None:
    with pytest.raises(PlanError) as caught:
        loads(f"# P\n```\n{DAG}```\n")
    assert caught.value.code == "plan_no_dag"
    assert caught.value.line == 2
    assert "```yaml" in (caught.value.hint or "")


def test_front_matter_without_end_is_a_rule() -> None:
    assert loads(f"---\n\n```yaml\n{DAG}```\n").tasks[0].id == "a"


def test_front_matter_and_a_block_are_two_dags() -> None:
    with pytest.raises(PlanError, match=r"line 1 and plan\.md line 6"):
        loads(f"---\n{DAG}---\n```yaml\n{DAG}```\n")


def test_only_lf_cr_and_crlf_end_a_line() -> None:
    assert split_lines("\ufeffa\r\nb\rc\nd\x0be\u2028f\x85g") == ["a", "b", "c", "d\x0be\u2028f\x85g"]
