"""What real plans look like: one test for each row of the table of oddities, in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conductor.errors import PlanError
from conductor.plan import load, loads

LoadNodes = Any
Refused = Any
Codes = Any

THREE = """
- {id: "1.1", name: One}
- {id: "1.2", name: Two, depends_on: ["1.1"]}
- {id: "2.1", name: Three}
"""


def test_tasks_in_no_group_and_groups_absent_or_empty(load_nodes: LoadNodes, codes: Codes) -> None:
    for groups in ("", "parallel_groups: []", "parallel_groups:", 'parallel_groups: [{id: g, tasks: ["1.1"]}]'):
        plan = load_nodes(THREE, groups)
        assert [task.id for task in plan.tasks] == ["1.1", "1.2", "2.1"]
        assert codes(plan) == []


def test_a_group_that_is_a_chain_gives_one_warning(load_nodes: LoadNodes, codes: Codes) -> None:
    nodes = '- id: "9.1"\n' + "".join(f'- {{id: "9.{n}", depends_on: ["9.{n - 1}"]}}\n' for n in range(2, 5))
    plan = load_nodes(nodes, 'parallel_groups: [{id: pg, tasks: ["9.1", "9.2", "9.3", "9.4"]}]')
    assert codes(plan) == ["group_chain"]
    assert "9.2 depends on 9.1" in plan.warnings[0].message


def test_group_members_on_different_levels_give_one_warning(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes(THREE, 'parallel_groups: [{id: pg, tasks: ["1.2", "2.1"]}, {id: g, tasks: ["1.1"]}]')
    assert codes(plan) == ["group_levels"]
    assert plan.groups[0].tasks == ("1.2", "2.1")


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        ("src/a.py", "src/a.py", "src/a.py"),
        ("src/*", "src/a.py", "src/a.py"),
        ("src/", "src/a.py", "src"),
        ("web/**/*auth*", "web/src/auth.ts", "web/src/auth.ts"),
    ],
)
def test_conflict_free_with_a_file_in_common_names_pair_and_file(
    load_nodes: LoadNodes, one: str, other: str, named: str
) -> None:
    nodes = f'- {{id: a, files: ["{one}"]}}\n- {{id: b, files: ["{other}"]}}\n'
    plan = load_nodes(nodes, "parallel_groups: [{id: pg, tasks: [a, b], conflict_free: true}]")
    (warning,) = plan.warnings
    assert warning.code == "group_shared_files"
    assert "a and b" in warning.message
    assert named in warning.message
    assert warning.line == 9


def test_conflict_free_false_without_any_is_accepted(load_nodes: LoadNodes, codes: Codes) -> None:
    nodes = "- {id: a, files: [x]}\n- {id: b, files: [y]}\n"
    plan = load_nodes(nodes, "parallel_groups: [{id: pg, tasks: [a, b], conflict_free: false}]")
    assert codes(plan) == []
    assert plan.groups[0].conflict_free is False


def test_type_files_phase_and_duration_missing_are_defaults(load_nodes: LoadNodes) -> None:
    bare, empty = load_nodes("- id: a\n- {id: b, files: [], type: , phase: null, estimated_duration: ~}\n").tasks
    for task in (bare, empty):
        assert (task.type, task.files, task.phase, task.estimate) == ("code", (), None, None)
        assert task.name == task.id


@pytest.mark.parametrize(
    ("written", "read"),
    [("infrastructure", "infrastructure"), ('"skip"', "skip"), ("[code, test]", "code, test"), ("42", "42")],
)
def test_types_beyond_the_six_and_a_list_as_type_are_text(load_nodes: LoadNodes, written: str, read: str) -> None:
    assert load_nodes(f"- {{id: a, type: {written}}}").tasks[0].type == read


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("45m", 2700.0), ("30", 1800.0), ("1h30m", 5400.0), ("2 hours", 7200.0), ("completed", None), ("1-2 days", None)],
)
def test_estimated_duration_is_read_or_unknown_with_a_note(
    load_nodes: LoadNodes, codes: Codes, written: str, seconds: float | None
) -> None:
    plan = load_nodes(f'- {{id: a, estimated_duration: "{written}"}}')
    assert plan.tasks[0].estimate == seconds
    assert codes(plan) == ([] if seconds is not None else ["estimate_unknown"])


def test_files_with_notes_are_split_and_prose_is_dropped(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes('- {id: a, files: ["models.py (delete)", "routers/*.py (16 files)", "stubs from Phase 3"]}')
    assert plan.tasks[0].files == ("models.py", "routers/*.py")
    assert codes(plan) == ["file_note", "file_note", "file_not_a_path"]
    assert "stubs from Phase 3" in plan.warnings[2].message


def test_extra_keys_are_kept(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes(
        "- {id: a, description: what it is, owner: {team: 007}}",
        'critical_path: "a → b"\nparallel_groups: [{id: g, tasks: [a], note: why, colour: red}]',
    )
    assert plan.tasks[0].extra == {"description": "what it is", "owner": {"team": "007"}}
    assert plan.extra == {"critical_path": "a → b"}
    assert plan.groups[0].note == "why"
    assert plan.groups[0].extra == {"colour": "red"}
    assert codes(plan) == []


@pytest.mark.parametrize(
    ("key", "meant"), [("instuctions", "instructions"), ("Phase", "phase"), ("command", "run"), ("title", "name")]
)
def test_a_key_close_to_a_known_one_gets_did_you_mean(
    load_nodes: LoadNodes, codes: Codes, key: str, meant: str
) -> None:
    plan = load_nodes(f"- id: a\n  {key}: x")
    assert codes(plan) == ["did_you_mean"]
    assert f'Did you mean "{meant}"?' in plan.warnings[0].message
    assert plan.warnings[0].line == 7
    assert plan.tasks[0].extra == {key: "x"}


def test_unquoted_1_10_and_1_1_are_two_tasks(load_nodes: LoadNodes) -> None:
    plan = load_nodes("- {id: 1.1}\n- {id: 1.10, depends_on: [1.1]}\n")
    assert [(task.id, task.depends_on) for task in plan.tasks] == [("1.1", ()), ("1.10", ("1.1",))]


@pytest.mark.parametrize(
    "text", ["01", "05", "on", "yes", "0777", "12:30:00", "1e3", "null", "~", "0x1F", "1_000", "="]
)
def test_scalars_keep_their_text_as_id_and_name(load_nodes: LoadNodes, text: str) -> None:
    plan = load_nodes(f"- id: {text}\n  name: {text}\n- id: other\n  depends_on: [{text}]\n")
    assert plan.tasks[0].id == text
    assert plan.tasks[0].name == text
    assert plan.tasks[1].depends_on == (text,)


@pytest.mark.parametrize("text", ["a/b", "../../x", "C++", "-x", "CON", "任务", "a:b", "🚀", "a b"])
def test_odd_ids_are_text(load_nodes: LoadNodes, text: str) -> None:
    assert load_nodes(f'- id: "{text}"').tasks[0].id == text


def test_3_1_is_never_3_10_or_13_1(load_nodes: LoadNodes) -> None:
    plan = load_nodes(
        '- {id: "3.1"}\n- {id: "3.10"}\n- {id: "13.1"}\n- {id: "x", depends_on: ["3.10"]}',
        prose="- [x] Task 13.1: thirteen\n- [ ] Task 3.10: ten\n",
    )
    assert [task.ticked for task in plan.tasks] == [False, False, True, False]
    assert plan.tasks[0].prose == ""
    assert plan.tasks[1].prose == "- [ ] Task 3.10: ten"
    assert plan.tasks[3].depends_on == ("3.10",)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ('"1.1"', ["1.1"]),
        ("1.1", ["1.1"]),
        ("", []),
        ("null", []),
        ("~", []),
        ("[]", []),
        ('["1.1", ]', ["1.1"]),
        ('"1.1, 1.2,"', ["1.1", "1.2"]),
        ("1.1,", ["1.1"]),
    ],
)
def test_depends_on_as_string_null_and_with_trailing_commas(
    load_nodes: LoadNodes, written: str, wanted: list[str]
) -> None:
    nodes = f'- id: "1.1"\n- id: "1.2"\n- id: z\n  depends_on: {written}\n'
    assert list(load_nodes(nodes).tasks[2].depends_on) == wanted


@pytest.mark.parametrize("key", ["deps", "dependencies", "needs", "depend_on", "dependsOn", "depends-on", "requires"])
def test_a_misspelt_dependency_is_refused_with_did_you_mean(refused: Refused, key: str) -> None:
    error = refused(f"- id: a\n- id: b\n  {key}: [a]\n")
    assert error.code == "plan_field"
    assert error.hint == 'Did you mean "depends_on"?'
    assert error.line == 8


@pytest.mark.parametrize("value", ["[]", "", "none", "[a]"])
def test_a_misspelt_dependency_that_loses_no_ordering_is_a_warning(
    load_nodes: LoadNodes, codes: Codes, value: str
) -> None:
    plan = load_nodes(f"- id: a\n- id: b\n  depends_on: [a]\n  deps: {value}\n")
    assert codes(plan) == ["did_you_mean"]
    assert plan.tasks[1].depends_on == ("a",)


def test_null_may_be_the_id_of_a_task(load_nodes: LoadNodes) -> None:
    plan = load_nodes("- id: null\n- {id: a, depends_on: null}\n- {id: b, depends_on: [null, ~]}\n")
    assert [task.depends_on for task in plan.tasks] == [(), ("null",), ("null",)]


def test_dependencies_written_the_other_way_round_are_a_warning(load_nodes: LoadNodes, codes: Codes) -> None:
    assert codes(load_nodes("- {id: a, blocks: [b]}\n- id: b\n")) == ["reverse_dependency"]
    assert codes(load_nodes("- {id: a, blocks: [the release]}\n")) == []


def test_requires_that_names_no_task_is_a_warning(load_nodes: LoadNodes, codes: Codes) -> None:
    assert codes(load_nodes("- id: a\n  requires: [docker]\n")) == ["did_you_mean"]


def test_unknown_dependency_names_both_and_the_line(refused: Refused) -> None:
    error = refused('- id: "1.1"\n- id: "1.2"\n  depends_on:\n    - "1.1"\n    - "11"\n')
    assert (error.code, error.line, error.path) == ("plan_unknown_dependency", 10, "plan.md")
    assert '"1.2" depends on "11"' in error.message
    assert error.hint == 'Did you mean "1.1"?'


def test_duplicate_id_names_both_lines(refused: Refused) -> None:
    error = refused("- id: a\n- id: b\n- id: a\n")
    assert (error.code, error.line) == ("plan_duplicate_id", 8)
    assert "first on line 6" in error.message


def test_self_dependency_is_a_cycle(refused: Refused) -> None:
    error = refused("- id: a\n  depends_on: [a]\n")
    assert error.code == "plan_cycle"
    assert "a → a" in error.message


def test_a_cycle_is_printed(refused: Refused) -> None:
    nodes = "- {id: z}\n- {id: c, depends_on: [a]}\n- {id: a, depends_on: [b, z]}\n- {id: b, depends_on: [c]}\n"
    error = refused(nodes)
    assert (error.code, error.line) == ("plan_cycle", 7)
    assert "c → a → b → c" in error.message


def test_the_block_is_the_last_of_eight_fences() -> None:
    noise = "".join(
        f"```{word}\nversion: 1\n  dag: no\n```\n\n" for word in ["yaml", "yaml a", "sh", "", "json", "py", "yml"]
    )
    assert [task.id for task in loads(noise + "```yaml\ndag:\n  nodes: [{id: a}]\n```\n").tasks] == ["a"]


def test_a_fence_with_a_name_behind_yaml() -> None:
    names = "".join(f"```yaml block{n}\nkey: {n}\n```\n" for n in range(4))
    assert loads(names + "```yaml dag-block\ndag: {nodes: [{id: a}]}\n```\n").tasks[0].line == 14


def test_two_blocks_with_dag_name_both_lines() -> None:
    with pytest.raises(PlanError) as caught:
        loads("```yaml\ndag: {nodes: [{id: a}]}\n```\n\n~~~yml\ndag: {nodes: [{id: b}]}\n~~~\n")
    assert caught.value.code == "plan_two_dags"
    assert "line 1 " in caught.value.message
    assert caught.value.message.endswith("line 5")
    assert caught.value.line == 5


def test_dag_in_front_matter() -> None:
    plan = loads("---\ntitle: x\ndag:\n  nodes:\n    - id: a\n---\n# Plan\n\n- [x] Task a: do\n")
    assert plan.tasks[0].line == 5
    assert plan.tasks[0].ticked


@pytest.mark.parametrize("name", ["dag.yaml", "dag.yml", "dag.json"])
@pytest.mark.parametrize("text", ['{"dag": {"nodes": [{"id": "a", "name": null}]}}', '{"nodes": [\n\t{"id": "a"}]}'])
def test_dag_in_a_file_beside_the_plan(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "plan.md").write_text("# Plan\n\n- [ ] Task a: do it\n")
    (tmp_path / name).write_text(text if name == "dag.json" else text.replace("\t", "  "))
    plan = load(tmp_path)
    assert plan.source == name
    assert plan.tasks[0].prose == "- [ ] Task a: do it"


def test_dag_in_the_plan_and_beside_it_are_two(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("```yaml\ndag: {nodes: [{id: a}]}\n```\n")
    (tmp_path / "dag.yaml").write_text("dag: {nodes: [{id: a}]}\n")
    with pytest.raises(PlanError, match=r"two DAGs: plan\.md line 1 and dag\.yaml line 1") as caught:
        load(tmp_path)
    assert caught.value.code == "plan_two_dags"


def test_check_boxes_only_says_what_was_looked_for_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# Plan\n\n- [ ] one\n- [x] two\n")
    with pytest.raises(PlanError) as caught:
        load(tmp_path)
    error = caught.value
    assert (error.code, error.path) == ("plan_no_dag", "plan.md")
    assert "```yaml" in error.message
    assert "2 check boxes" in error.message
    assert error.hint == "`conductor init TRACK` prints a DAG made of these tasks, to be looked through and added."


def test_headings_only_says_so() -> None:
    with pytest.raises(PlanError, match="2 headings that look like tasks"):
        loads("### Step 1: a\n- x\n### Step 2: b\n")


@pytest.mark.parametrize("body", ["", "\n \n", "\ufeff"])
def test_an_empty_plan(tmp_path: Path, body: str) -> None:
    (tmp_path / "plan.md").write_text(body)
    with pytest.raises(PlanError, match="the file is empty") as caught:
        load(tmp_path)
    assert caught.value.code == "plan_no_dag"


def test_a_missing_plan_a_missing_track_and_a_file_as_track(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for track, words in [
        (tmp_path, "neither"),
        (tmp_path / "no", "does not exist"),
        (tmp_path / "file", "not a dir"),
        (tmp_path / ("x" * 300), "too long"),
    ]:
        with pytest.raises(PlanError, match=words) as caught:
            load(track)
        assert caught.value.code == "plan_missing"
        assert caught.value.hint


def test_byte_order_mark_crlf_and_no_final_newline() -> None:
    unix = "\ufeff# Plan →\n\n```yaml\ndag:\n  nodes:\n    - id: a\n      name: 写 🚀\n```\n- [X] Task a: 写"
    text = unix.replace("\n", "\r\n")
    plan = loads(text)
    assert plan.tasks[0].name == "写 🚀"
    assert plan.tasks[0].line == 6
    assert plan.tasks[0].prose == "- [X] Task a: 写"
    assert loads(text.replace("\r\n", "\r")) == plan


def test_tabs_in_yaml_are_an_error_with_its_line() -> None:
    with pytest.raises(PlanError) as caught:
        loads("# P\n\n```yaml\ndag:\n  nodes:\n\t- id: a\n```\n")
    assert (caught.value.code, caught.value.line) == ("plan_yaml", 6)
    assert "line 6, column 1" in caught.value.message
    assert "spaces" in (caught.value.hint or "")


@pytest.mark.parametrize("body", ["{", "[]", "", '{"a": ' * 100_000, "\udcff"])
def test_metadata_invalid_is_a_note(tmp_path: Path, body: str) -> None:
    (tmp_path / "plan.md").write_text("```yaml\ndag: {nodes: [{id: a}]}\n```\n")
    metadata = tmp_path / "metadata.json"
    metadata.write_bytes(body.encode("utf-8", "surrogateescape"))
    plan = load(tmp_path)
    assert [warning.code for warning in plan.warnings] == ["metadata_invalid"]
    assert metadata.read_bytes() == body.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("metadata", [{}, {"loop_state": {"step_status": "in_progress"}}])
def test_metadata_without_version_or_in_lower_case_is_accepted(tmp_path: Path, metadata: dict[str, Any]) -> None:
    (tmp_path / "plan.md").write_text("```yaml\ndag: {nodes: [{id: a}]}\n```\n")
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    assert load(tmp_path).warnings == ()


def test_all_boxes_ticked_gives_one_warning(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes(THREE, prose="- [x] Task 1.1: a\n- [X] Task 1.2: b\n### [x] Task 2.1: c\n")
    assert codes(plan) == ["tasks_ticked"]
    assert plan.warnings[0].message.startswith("3 of 3 tasks")
    assert all(task.ticked for task in plan.tasks)


@pytest.mark.parametrize("mark", "xX~-/ ?")
@pytest.mark.parametrize("indent", [0, 2, 4, 8])
def test_marks_and_indents_of_check_boxes(load_nodes: LoadNodes, mark: str, indent: int) -> None:
    space = " " * indent
    plan = load_nodes(THREE, prose=f"{space}- [{mark}] Task 1.1: a\n{space}  - **Files**: b\n\n{space}- other\n")
    assert plan.tasks[0].ticked == (mark in "xX")
    assert plan.tasks[0].prose.endswith("- **Files**: b")


def test_boxes_inside_headings(load_nodes: LoadNodes) -> None:
    plan = load_nodes(THREE, prose="## Phase\n### [x] Task 1.1 — one\nText.\n\n#### Detail\nmore\n### Task 1.2\n")
    assert plan.tasks[0].prose == "### [x] Task 1.1 — one\nText.\n\n#### Detail\nmore"
    assert [task.ticked for task in plan.tasks] == [True, False, False]


def test_large_plans_load(load_nodes: LoadNodes) -> None:
    """Nothing is quadratic: that would take minutes here."""
    count = 5000
    nodes = "".join(
        f'- {{id: t{n}, files: ["src/{n}.py", shared.py], depends_on: [{f"t{n - 1}" if n else ""}]}}\n'
        for n in range(count)
    )
    members = ", ".join(f"t{n}" for n in range(count))
    plan = load_nodes(
        nodes,
        f"parallel_groups: [{{id: g, conflict_free: true, tasks: [{members}]}}]",
        "".join(f"- [x] Task t{n}: do\n" for n in range(count)),
    )
    assert len(plan.tasks) == len(plan.groups[0].tasks) == count
    assert all(task.prose for task in plan.tasks)
    assert len(plan.warnings) < 100
