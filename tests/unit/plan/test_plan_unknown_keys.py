"""Keys of tasks that are none of ours: refused where a safeguard would be lost, else said once, kept always."""

from __future__ import annotations

from typing import Any

import pytest

LoadNodes = Any
Refused = Any
Codes = Any


def test_keys_without_effect_are_one_line_with_counts(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes(
        """
        - {id: a, cwd: sub, when: never}
        - {id: b, cwd: sub, stdin: x, note: n}
        - {id: c, cwd: other}
        """
    )
    assert codes(plan) == ["key_without_effect"]
    warning = plan.warnings[0]
    assert warning.message == "these keys have no effect: cwd (3 tasks), when (1 task), stdin (1 task)"
    assert warning.line == 7
    assert plan.tasks[1].extra == {"cwd": "sub", "stdin": "x", "note": "n"}


def test_many_keys_without_effect_are_cut_off(load_nodes: LoadNodes) -> None:
    keys = ", ".join(f"x{'q' * 9}{n}: 1" for n in range(12))
    assert load_nodes(f"- {{id: a, {keys}}}").warnings[0].message.endswith("and 2 more")


@pytest.mark.parametrize(
    "field",
    ["description: d", "note: n", "owner: me", "status: done", "tags: [a]", "cwd:", "when: []", "stdin: ''"],
)
def test_what_only_describes_or_asks_for_nothing_is_not_mentioned(
    load_nodes: LoadNodes, codes: Codes, field: str
) -> None:
    assert codes(load_nodes(f"- id: a\n  {field}\n")) == []


def test_a_title_beside_a_name_only_describes(load_nodes: LoadNodes, codes: Codes) -> None:
    assert codes(load_nodes("- {id: a, name: n, title: t}")) == []


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("tiemout", "timeout"),
        ("time_out", "timeout"),
        ("verifiy", "verify"),
        ("verfy", "verify"),
        ("Retries", "retries"),
        ("retry", "retries"),
        ("time_limit", "timeout"),
        ("file", "files"),
        ("runn", "run"),
        ("read", "reads"),
        ("resource", "resources"),
        ("ouputs", "outputs"),
    ],
)
def test_a_misspelt_safeguard_is_refused(refused: Refused, key: str, meant: str) -> None:
    error = refused(f"- id: a\n  {key}: 1\n")
    assert (error.code, error.line) == ("plan_field", 7)
    assert error.hint == f'Did you mean "{meant}"?'
    assert "without it" in error.message


@pytest.mark.parametrize("fields", ["tiemout: 1, timeout: 2", "command: make", "checks: [it works]", "Phase: 1"])
def test_a_slip_that_loses_no_safeguard_is_a_warning(load_nodes: LoadNodes, codes: Codes, fields: str) -> None:
    assert codes(load_nodes(f"- {{id: a, {fields}}}")) == ["did_you_mean"]


@pytest.mark.parametrize("field", ["tiemout:", "verfy: []", "isolaton: none"])
def test_a_misspelt_key_that_asks_for_nothing_is_a_warning(load_nodes: LoadNodes, codes: Codes, field: str) -> None:
    assert codes(load_nodes(f"- id: a\n  {field}\n")) == ["did_you_mean"]
