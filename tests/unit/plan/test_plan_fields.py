"""Values of tasks, defaults and limits: accepted, converted or refused with a hint."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.task import Limits

LoadNodes = Any
Refused = Any
Codes = Any


def test_a_full_task(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes(
        """
        - id: 1.1
          name: Client
          type: code
          files: ["src/a.py", "src/api/*"]
          depends_on: []
          estimated_duration: "30m"
          phase: 1
          reads: src/b.py
          resources: ["db:test"]
          effect: external
          agent: {name: codex, model: big, args: [-x, 1]}
          run: ["make", "test"]
          verify: ["pytest -q tests/a", ["ruff", "check", "."]]
          outputs: ["dist/a.whl"]
          changes: required
          acceptance: [one, two]
          instructions: do
          timeout: 30m
          stale_after: 90
          retries: 2
          leftovers: keep
          retry_from: fresh
          env: {A: b, EMPTY: , N: 007}
        """
    )
    task = plan.tasks[0]
    assert (task.id, task.name, task.type, task.phase, task.estimate) == ("1.1", "Client", "code", "1", 1800.0)
    assert (task.files, task.reads, task.resources) == (("src/a.py", "src/api/*"), ("src/b.py",), ("db:test",))
    assert task.agent == {"name": "codex", "model": "big", "args": ["-x", "1"]}
    assert (task.run, task.verify) == (("make", "test"), (("pytest", "-q", "tests/a"), ("ruff", "check", ".")))
    assert (task.outputs, task.changes, task.effect) == (("dist/a.whl",), "required", "external")
    assert (task.acceptance, task.instructions) == ("- one\n- two", "do")
    assert (task.timeout, task.stale_after, task.retries, task.leftovers) == (1800.0, 90.0, 2, "keep")
    assert task.env == {"A": "b", "EMPTY": "", "N": "007"}
    assert task.extra == {"retry_from": "fresh"}
    assert codes(plan) == ["not_supported_yet"]  # changes


@pytest.mark.parametrize(
    "field",
    [
        "timeout: soon",
        "timeout: [1]",
        "timeout: -1",
        "retries: -1",
        "retries: two",
        "retries: 1.5",
        "retries: ٣",
        "effect: writes",
        "changes: maybe",
        "leftovers: burn",
        "env: [a]",
        "env: {A-B: c}",
        "env: {CONDUCTOR_TASK_ID: c}",
        "env: {A: [b]}",
        "agent: {model: x}",
        "agent: []",
        "run: {a: b}",
        "run: []",
        "run: [[a]]",
        "run: ['']",
        "run: ' '",
        "verify: [a, {b: c}]",
        "files: {a: b}",
        "depends_on: [[a]]",
        "depends_on: {a: b}",
        "resources: [[a]]",
    ],
)
def test_values_that_cannot_be_used(refused: Refused, field: str) -> None:
    error = refused(f"- id: a\n  {field}\n")
    assert error.code == "plan_field"
    assert error.message.startswith(field.partition(":")[0]) or error.message.startswith("A")
    assert (error.line, error.path) == (7, "plan.md")
    assert "column" in error.message


@pytest.mark.parametrize(
    ("field", "words"),
    [("isolation: worktree", "project itself"), ("aprove: before", "without it")],
)
def test_what_would_be_dangerous_to_ignore_is_refused(refused: Refused, field: str, words: str) -> None:
    error = refused(f"- id: a\n  {field}\n")
    assert error.code == "plan_field"
    assert words in error.message
    assert error.hint


@pytest.mark.parametrize("field", ["retry_from: salvage", "merge: retry", "fallback: [codex]"])
def test_keys_of_features_to_come_are_kept(load_nodes: LoadNodes, field: str) -> None:
    assert field.partition(":")[0] in load_nodes(f"- id: a\n  {field}\n").tasks[0].extra


@pytest.mark.parametrize(
    "field",
    ["retry_from: salvage", "merge: retry", "fallback: [codex]", "changes: required"],
)
def test_what_nothing_acts_on_yet_is_one_warning(load_nodes: LoadNodes, codes: Codes, field: str) -> None:
    plan = load_nodes(f"- id: a\n  {field}\n- id: b\n  {field}\n", f"defaults: {{{field}}}")
    assert codes(plan) == ["not_supported_yet"]
    assert f"{field.partition(':')[0]} has no effect in this version: " in plan.warnings[0].message
    assert plan.warnings[0].message.endswith("(3 places)")


@pytest.mark.parametrize("agent", ["manual", "{name: manual}"])
def test_a_task_for_a_person_has_no_agent_that_is_started(load_nodes: LoadNodes, codes: Codes, agent: str) -> None:
    plan = load_nodes(f"- {{id: a, agent: {agent}}}\n- id: b", "defaults: {approve: after, stale_after: 5m}")
    assert [(task.manual, task.agent, task.approve, task.stale_after) for task in plan.tasks] == [
        (True, None, None, None), (False, None, "after", 300.0),
    ]  # fmt: skip
    assert codes(plan) == []


@pytest.mark.parametrize(("key", "words"), [("run: make", "no command"), ("approve: before", "no approval")])
def test_a_task_for_a_person_with_what_only_a_worker_has_is_refused(refused: Refused, key: str, words: str) -> None:
    error = refused(f"- {{id: a, agent: manual, {key}}}")
    assert (error.code, error.line) == ("plan_field", 6)
    assert words in error.message
    assert error.hint


def test_what_a_person_does_not_heed_is_said(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes("- {id: a, agent: manual, timeout: 1d, verify: make, retries: 1, approve: }")
    assert codes(plan) == ["manual_without_worker"]
    assert plan.warnings[0].message.startswith("task a: verify, retries: ")


@pytest.mark.parametrize(
    "field",
    ["isolation: none", "isolation:", "fallback: []", "merge:", "changes: optional", "stale_after: none",
     "effect: external", "verify: [make]", "outputs: [a]", "leftovers: keep", "env: {A: b}", "reads: [a]",
     "resources: [db]"],
)  # fmt: skip
def test_keys_that_ask_for_nothing_or_are_acted_on(load_nodes: LoadNodes, codes: Codes, field: str) -> None:
    assert codes(load_nodes(f"- id: a\n  {field}\n")) == []


@pytest.mark.parametrize("node", ["- a", "- [a]", "- {name: x}", "- id: [a]", "- id:", "- id: ''"])
def test_nodes_that_are_no_tasks(refused: Refused, node: str) -> None:
    assert refused(node).code in ("plan_field", "plan_bad_id")


@pytest.mark.parametrize(
    "text",
    ["", "x" * 201, "a\\0b", "a\\nb", "a\\tb", "a\\x7fb", "\\e[31m", " a", "a ", "a\\u200bb", "a\\u202eb", "a\\u2028b"],
)
def test_requirement_24_bad_ids_are_refused(refused: Refused, text: str) -> None:
    error = refused(f'- id: "{text}"')
    assert error.code == ("plan_yaml" if text == "a\\0b" else "plan_bad_id")
    assert error.line == 6
    assert error.message.isprintable()


@pytest.mark.parametrize(("one", "other"), [("a", "A"), ("é", "e\u0301"), ("Straße", "STRASSE"), ("ﬁ", "FI")])
def test_requirement_25_ids_equal_after_folding_are_refused(refused: Refused, one: str, other: str) -> None:
    error = refused(f"- id: {one}\n- id: {other}\n")
    assert error.code == "plan_id_collision"
    assert (error.line, "line 6" in error.message) == (7, True)


def test_defaults_are_converted(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes(
        "- {id: a, env: {B: own}}\n- {id: b, effect: write}",
        """
        defaults:
          agent: claude
          timeout: 1h
          retries: 0
          env: {A: x, B: y}
          effect: pure_read
        """,
    )
    assert plan.defaults["agent"] == "claude"
    assert plan.defaults["timeout"] == 3600.0
    assert plan.defaults["retries"] == 0
    assert [task.env for task in plan.tasks] == [{"A": "x", "B": "own"}, {"A": "x", "B": "y"}]
    assert [task.effect for task in plan.tasks] == ["pure_read", "write"]
    assert codes(plan) == []


@pytest.mark.parametrize(
    ("default", "code", "end"),
    [
        ("chnges: optional", "did_you_mean", 'Did you mean "changes"?'),
        ("max_workers: 3", "did_you_mean", "Put it under limits."),
        ("verify: make", "key_without_effect", "Put it into the tasks."),
        ("colour: red", "key_without_effect", "has no effect."),
    ],
)
def test_an_unknown_default_is_a_warning(
    load_nodes: LoadNodes, codes: Codes, default: str, code: str, end: str
) -> None:
    plan = load_nodes("- id: a", f"defaults: {{{default}}}")
    assert codes(plan) == [code]
    assert plan.warnings[0].message.endswith(end)


@pytest.mark.parametrize(("default", "meant"), [("timout: 1h", "timeout"), ("retry: 0", "retries")])
def test_a_misspelt_default_that_limits_the_tasks_is_refused(refused: Refused, default: str, meant: str) -> None:
    error = refused("- id: a", f"defaults: {{{default}}}")
    assert (error.code, error.hint) == ("plan_field", f'Did you mean "{meant}"?')
    assert "without it" in error.message


@pytest.mark.parametrize("rest", ["defaults: {agent: manual}", "defaults: {aprove: after}", "defaults: [a]"])
def test_defaults_that_are_refused(refused: Refused, rest: str) -> None:
    assert refused("- id: a", rest).code == "plan_field"


def test_limits_are_converted(load_nodes: LoadNodes) -> None:
    plan = load_nodes(
        "- id: a",
        "limits: {max_workers: 5, max_fan_out: 50, max_join_width: none, max_tasks: 9, "
        "run_timeout: 8h, budget_usd: 2.5}",
    )
    assert plan.limits == Limits(max_workers=5, max_fan_out=50, max_tasks=9, run_timeout=28800.0, budget_usd=2.5)


@pytest.mark.parametrize(
    "limit",
    [
        "max_worker: 5",
        "max_workers: 0",
        "budget_usd: -1",
        "budget_usd: nan",
        "budget_usd: x",
        "budget_usd: [1]",
        "max_tasks: x",
    ],
)
def test_limits_that_are_refused(refused: Refused, limit: str) -> None:
    error = refused("- id: a", f"limits: {{{limit}}}")
    assert error.code == "plan_field"


@pytest.mark.parametrize(("key", "place"), [("max_workers: 3", "limits"), ("timeout: 3m", "defaults")])
def test_settings_beside_the_nodes_are_a_warning(load_nodes: LoadNodes, codes: Codes, key: str, place: str) -> None:
    plan = load_nodes("- id: a", key)
    assert codes(plan) == ["did_you_mean"]
    assert plan.warnings[0].message.endswith(f"under {place}")


def test_project_is_kept_as_written(load_nodes: LoadNodes) -> None:
    plan = load_nodes("- id: a", 'project: "../.."')
    assert (plan.project, plan.project_line) == ("../..", 7)
    assert load_nodes("- id: a", "project:").project is None


@pytest.mark.parametrize(
    ("rest", "hint"),
    [("tasks: []", "nodes"), ("node: []", "nodes"), ("parallel_group: []", "parallel_groups"), ("limit: {}", "limits")],
)
def test_misspelt_keys_of_the_dag_are_refused(refused: Refused, rest: str, hint: str) -> None:
    error = refused("- id: a", rest)
    assert error.code == "plan_field"
    assert error.hint == f'Did you mean "{hint}"?'


def test_many_warnings_of_a_kind_are_summarised(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes("".join(f"- {{id: t{n}, estimated_duration: completed}}\n" for n in range(1500)))
    assert len(plan.warnings) == 21
    assert plan.warnings[-1].message == "and 1,480 more of the kind estimate_unknown"


def test_depends_on_none_gets_a_hint(refused: Refused) -> None:
    assert refused("- id: a\n  depends_on: none\n").hint == "Write [] where there are no dependencies."


def test_misspelt_dependencies_as_a_mapping_are_refused(refused: Refused) -> None:
    assert refused("- id: a\n  needs: {b: c}\n").code == "plan_field"


def test_empty_entries_of_a_list_are_left_out(load_nodes: LoadNodes) -> None:
    plan = load_nodes("- id: b\n- id: a\n  depends_on:\n    -\n    - b\n", "defaults: {timeout: }")
    assert plan.tasks[1].depends_on == ("b",)
    assert plan.defaults == {}


def test_duplicate_dependencies_are_one(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes("- id: a\n- {id: b, depends_on: [a, a]}")
    assert plan.tasks[1].depends_on == ("a",)
    assert codes(plan) == ["duplicate_dependency"]
