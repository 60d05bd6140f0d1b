"""Reading a track directory: files that are missing, large, unreadable, or no files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conductor.errors import PlanError
from conductor.plan import load, loads

DAG = "```yaml\ndag:\n  nodes:\n    - id: a\n```\n"


def refused(track: Path, **options: int) -> PlanError:
    with pytest.raises(PlanError) as caught:
        load(track, **options)
    return caught.value


def test_a_track_is_read(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(DAG)
    plan = load(tmp_path)
    assert (plan.source, [task.id for task in plan.tasks], plan.warnings) == ("plan.md", ["a"], ())


def test_a_dag_file_without_a_plan_is_read_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "dag.yaml").write_text("nodes: [{id: a}]")
    assert [warning.code for warning in load(tmp_path).warnings] == ["plan_md_missing"]


def test_an_unreadable_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.md"
    plan.mkdir()
    assert "not a regular file" in refused(tmp_path).message
    plan.rmdir()
    os.mkfifo(plan)
    assert refused(tmp_path).code == "plan_missing"
    plan.unlink()
    plan.symlink_to(plan)
    assert refused(tmp_path).code == "plan_missing"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_plan_without_permission(tmp_path: Path) -> None:
    plan = tmp_path / "plan.md"
    plan.write_text(DAG)
    plan.chmod(0)
    assert "denied" in refused(tmp_path).message


def test_requirement_26_a_plan_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(DAG)
    error = refused(tmp_path, max_bytes=20)
    assert error.code == "plan_bytes_exceeded"
    assert f"{len(DAG)} bytes" in error.message
    assert load(tmp_path, max_bytes=len(DAG)).tasks


def test_a_plan_beyond_its_own_limit(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("```yaml\ndag: {nodes: [{id: a}], limits: {max_plan_bytes: 10}}\n```\n")
    assert refused(tmp_path).code == "plan_bytes_exceeded"


def test_bytes_that_are_not_utf_8_name_offset_and_line(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_bytes(DAG.encode() + b"# caf\xe9\n")
    error = refused(tmp_path)
    assert (error.code, error.line, error.path) == ("plan_yaml", 6, "plan.md")
    assert f"byte 0xe9 at offset {len(DAG) + 5}" in error.message


@pytest.mark.parametrize("text", ["\x00", "dag: \x00", "\udc80"])
def test_texts_that_no_file_can_hold(text: str) -> None:
    with pytest.raises(PlanError):
        loads(text)


def test_an_error_in_a_dag_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# Plan\n")
    (tmp_path / "dag.json").write_text('{"dag": {"nodes": [\n {"id": "a", "depends_on": ["b"]}]}}')
    error = refused(tmp_path)
    assert (error.code, error.path, error.line) == ("plan_unknown_dependency", "dag.json", 2)


def test_json_escapes_in_two_halves(tmp_path: Path) -> None:
    (tmp_path / "dag.json").write_text(r'{"nodes": [{"id": "a", "name": "\ud83d\ude80 \\ud83d\/"}]}')
    assert load(tmp_path).tasks[0].name == "🚀 \\ud83d/"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n",
        "x\n",
        "dag:\n",
        "dag: x\n",
        "dag: []\n",
        "dag: {}\n",
        "dag: {nodes: }\n",
        "dag: {nodes: []}\n",
        "dag: {nodes: {a: b}}\n",
    ],
)
def test_dags_without_tasks(text: str) -> None:
    with pytest.raises(PlanError) as caught:
        loads(text, source="dag.yaml")
    assert caught.value.code in ("plan_no_dag", "plan_field")
    assert caught.value.hint


@pytest.mark.parametrize("key", ["limits", "defaults", "project"])
def test_keys_beside_the_dag_that_would_have_no_effect_are_refused(key: str) -> None:
    with pytest.raises(PlanError, match="beside dag"):
        loads(f"dag: {{nodes: [{{id: a}}]}}\n{key}: x\n", source="dag.yaml")


def test_a_deep_chain_and_a_long_cycle() -> None:
    count = 20_000
    nodes = "".join(f"- {{id: t{n}, depends_on: [t{n - 1}]}}\n" for n in range(1, count))
    assert len(loads(f"nodes:\n- id: t0\n{nodes}", source="dag.yaml").tasks) == count
    with pytest.raises(PlanError) as caught:
        loads(f"nodes:\n- {{id: t0, depends_on: [t{count - 1}]}}\n{nodes}", source="dag.yaml")
    assert caught.value.code == "plan_cycle"
    assert "19,977 more" in caught.value.message
    assert len(caught.value.message) < 500
