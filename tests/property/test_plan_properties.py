"""Plans, by generated input: ids survive, frozen plans round-trip, and nothing but PlanError gets out."""

from __future__ import annotations

import json
import unicodedata
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bus.wire import TaskId
from conductor.core.task import Group, Limits, Plan, PlanWarning, TaskSpec
from conductor.errors import PlanError
from conductor.plan import loads
from conductor.plan.commands import split_command
from conductor.plan.durations import parse_duration, parse_estimate
from conductor.plan.file_patterns import normalise, split_list, split_note
from conductor.plan.frozen import dump, parse
from conductor.plan.locate import find_blocks, split_lines
from conductor.plan.prose import find_prose
from conductor.plan.skeleton import dag_block, plan_text, tasks_in

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
IDS = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=20).filter(
    lambda text: text == text.strip()
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda deeper: st.lists(deeper) | st.dictionaries(WORDS, deeper),
    max_leaves=5,
)
EXTRA = st.dictionaries(WORDS, JSON, max_size=2)
WORD_TUPLES = st.lists(WORDS, max_size=3).map(tuple)
SECONDS = st.none() | st.floats(0, 1e6)
TASKS = st.builds(
    TaskSpec,
    id=IDS.map(TaskId),
    name=WORDS,
    index=st.integers(0, 9),
    depends_on=WORD_TUPLES,
    files=WORD_TUPLES,
    estimate=SECONDS,
    phase=st.none() | WORDS,
    run=st.none() | WORD_TUPLES,
    agent=st.none() | EXTRA,
    verify=st.lists(WORD_TUPLES, max_size=2).map(tuple),
    timeout=SECONDS,
    retries=st.none() | st.integers(0, 9),
    env=st.dictionaries(WORDS, WORDS, max_size=2),
    prose=WORDS,
    ticked=st.booleans(),
    extra=EXTRA,
)
PLANS = st.builds(
    Plan,
    tasks=st.lists(TASKS, max_size=3).map(tuple),
    groups=st.lists(st.builds(Group, id=WORDS, tasks=WORD_TUPLES, timeout=SECONDS, extra=EXTRA), max_size=2).map(tuple),
    limits=st.builds(Limits, max_tasks=st.none() | st.integers(0, 9), budget_usd=SECONDS),
    defaults=EXTRA,
    project=st.none() | WORDS,
    warnings=st.lists(st.builds(PlanWarning, code=WORDS, message=WORDS, line=st.integers(0, 9)), max_size=2).map(tuple),
    extra=EXTRA,
)


def attempt(text: str, source: str) -> Plan | PlanError:
    """Return the plan, or the error that a user would see."""
    try:
        return loads(text, source=source)
    except PlanError as error:
        refusal = error
    assert refusal.code.startswith("plan_")
    assert refusal.path == source
    assert refusal.message
    assert refusal.hint
    return refusal


@given(PLANS)
def test_frozen_plans_round_trip(plan: Plan) -> None:
    body = dump(plan)
    assert parse(body) == plan
    assert dump(parse(body)) == body


@given(st.lists(IDS, min_size=1, max_size=8, unique_by=lambda text: unicodedata.normalize("NFKC", text).casefold()))
def test_ids_survive(ids: list[str]) -> None:
    nodes = [{"id": task, "depends_on": ids[:number][-2:]} for number, task in enumerate(ids)]
    plan = attempt(json.dumps({"nodes": nodes}, ensure_ascii=False), "dag.json")
    if isinstance(plan, PlanError):  # ids that meet only after folding twice
        assert plan.code == "plan_id_collision"
        return
    assert [task.id for task in plan.tasks] == ids
    assert [list(task.depends_on) for task in plan.tasks] == [node["depends_on"] for node in nodes]


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,12}", fullmatch=True))
def test_unquoted_ids_survive(task: str) -> None:
    plan = loads(f"```yaml\ndag:\n  nodes:\n    - id: {task}\n```\n- [x] Task {task}: do\n")
    assert plan.tasks[0].id == task
    assert plan.tasks[0].ticked


PIECES = st.sampled_from(
    [
        *(
            "dag",
            "nodes",
            "id",
            "name",
            "files",
            "depends_on",
            "run",
            "verify",
            "limits",
            "defaults",
            "parallel_groups",
        ),
        *(
            "tasks",
            "agent",
            "env",
            "null",
            "1.1",
            "1.10",
            "a",
            "Task",
            "é",
            "~",
            "```",
            "~~~",
            "<!--",
            "-->",
            "---",
            "...",
        ),
        *(
            ":",
            "-",
            "[",
            "]",
            "{",
            "}",
            ",",
            '"',
            "'",
            "|",
            ">",
            "&a",
            "*a",
            "!x",
            "#",
            "\\",
            "%",
            "@",
            "`",
            ": ",
            "- ",
        ),
        *("\n", "\n  ", "\n    ", "\n    - ", "\t", "\x00", "\ufeff", "\r", "\u2028", "\ud800"),
        *("\n```yaml\n", "\n- [ ] Task a", "\n### Task a"),
    ]
)


@settings(max_examples=300)
@given(st.lists(PIECES | WORDS, max_size=40).map("".join), st.sampled_from(["plan.md", "dag.yaml", "dag.json"]))
@example("dag:\n  nodes:\n    - id: ? a", "dag.yaml")
@example("", "plan.md")
@example("\n```\n- [ ] Task a \ud800", "plan.md")
def test_no_text_raises_anything_but_plan_error(text: str, source: str) -> None:
    for whole in (text, f"```yaml\ndag:\n  nodes:\n    - id: a\n      {text}\n```\n{text}"):
        plan = attempt(whole, source)
        if isinstance(plan, Plan):
            dump(plan)


SCALARS: st.SearchStrategy[Any] = st.sampled_from(
    ["a", "b", "1.1", "", "none", "x y", "x | y", "a.py (n)", "-1", "5m", None, True, 3]
)
VALUES = st.recursive(
    SCALARS,
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(SCALARS.map(str), deeper, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["id", "name", "type", "files", "depends_on", "deps", "estimated_duration", "phase", "reads", "resources", "effect",
     "agent", "run", "verify", "outputs", "changes", "acceptance", "instructions", "timeout", "stale_after", "retries",
     "retry_from", "leftovers", "merge", "fallback", "env", "approve", "isolation", "tasks", "conflict_free", "note",
     "max_workers", "limits", "shared_resources", "max_tasks", "budget_usd", "command", "zzz"]
)  # fmt: skip
MAPPINGS = st.dictionaries(KEYS, VALUES, max_size=5)


@settings(max_examples=300)
@given(
    st.fixed_dictionaries(
        {"nodes": st.lists(MAPPINGS, min_size=1, max_size=3) | VALUES},
        optional={"parallel_groups": st.lists(MAPPINGS, max_size=2) | VALUES, "limits": MAPPINGS, "defaults": MAPPINGS,
                  "project": VALUES},
    )
)  # fmt: skip
def test_no_structure_raises_anything_but_plan_error(dag: dict[str, Any]) -> None:
    for number, node in enumerate(dag["nodes"] if isinstance(dag["nodes"], list) else []):
        if isinstance(node, dict):
            node["id"] = "ab"[number] if number < 2 else node.get("id")
    plan = attempt(json.dumps({"dag": dag}), "dag.json")
    if isinstance(plan, Plan):
        assert parse(dump(plan)) == plan


@given(WORDS)
def test_small_parsers_raise_only_value_error(text: str) -> None:
    for parser in (parse_duration, split_command):
        with suppress(ValueError):
            parser(text)
    parse_estimate(text)
    for part in split_list(text):
        pattern, _ = split_note(part)
        assert pattern is None or normalise(pattern) == pattern


LINES = st.lists(
    st.sampled_from(["- [ ] Task a: x", "  - [x] Task b", "- [X] b: y", "# Task a", "## Task b c", "### x", "text", "",
                     "  text", "```", "~~~", "    - deep", "- [ ] a", "<!--", "-->"]),
    max_size=25,
)  # fmt: skip


@given(LINES)
def test_no_line_of_prose_is_given_twice(lines: list[str]) -> None:
    numbered = [f"{line} <{number}>" if line[:3] not in ("```", "~~~") else line for number, line in enumerate(lines)]
    blocks = find_blocks(numbered or [""])
    found = find_prose(numbered, blocks, None, {TaskId("a"), TaskId("b")})
    taken = [line for prose in found.values() for line in prose.text.split("\n") if "<" in line and ">" in line]
    assert len(taken) == len(set(taken))


@given(
    st.lists(
        st.sampled_from(
            [
                "- [ ] ",
                "Task ",
                "1",
                "a",
                ": ",
                "**",
                "\n",
                "### ",
                "`",
                "<!-- x -->",
                "\u2028",
                "[",
                "]",
                '"',
                "\\",
                "  ",
            ]
        ),
        max_size=30,
    ).map("".join)
)
def test_whatever_is_proposed_is_a_valid_plan(markdown: str) -> None:
    tasks = tasks_in(markdown)
    plan = loads(plan_text(markdown, tasks))
    if tasks:
        assert [(task.id, task.name) for task in plan.tasks] == [(task.id, task.name) for task in tasks]
        assert dag_block(tasks) in plan_text(markdown, tasks)
    assert split_lines(markdown)
