"""Commands are argument lists (requirement 29)."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.plan.commands import CommandError, split_command

LoadNodes = Any
Refused = Any
Codes = Any


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("make test", ("make", "test")),
        ("pytest -q 'a b' \"c d\"", ("pytest", "-q", "a b", "c d")),
        ("grep 'a|b' x", ("grep", "a|b", "x")),
        ('echo "a && b; c > d & e"', ("echo", "a && b; c > d & e")),
        (r"echo a\;b \&", ("echo", "a;b", "&")),
        ("echo '$(x)' '`y`'", ("echo", "$(x)", "`y`")),
        ("pytest -k a=b", ("pytest", "-k", "a=b")),
        ("echo ''", ("echo", "")),
        ("  true\n", ("true",)),
    ],
)
def test_a_string_is_split(text: str, arguments: tuple[str, ...]) -> None:
    assert split_command(text) == arguments


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("make && make install", "&&"),
        ("a || b", "||"),
        ("a | b", "|"),
        ("a; b", ";"),
        ("a > b", ">"),
        ("a 2>&1", ">"),
        ("a < b", "<"),
        ("a &", "&"),
        ("echo $(date)", "$("),
        ('echo "$(date)"', "$("),
        ("echo `date`", "a backtick"),
        ("a\nb", "a line break"),
    ],
)
def test_requirement_29_what_only_a_shell_knows_is_refused(text: str, token: str) -> None:
    with pytest.raises(CommandError) as caught:
        split_command(text)
    assert str(caught.value).startswith(f"{token} means")
    assert '["sh", "-c", ' in caught.value.hint


@pytest.mark.parametrize("text", ["", "  ", "''", "echo 'open", 'echo "open', "A=1 make"])
def test_strings_that_are_no_command(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        split_command(text)
    assert caught.value.hint


def test_the_error_of_a_plan_says_where(refused: Refused) -> None:
    error = refused("- id: a\n  run: make && make install\n")
    assert (error.code, error.line) == ("plan_field", 7)
    assert '["sh", "-c", ' in error.hint
    assert refused("- id: a\n  verify:\n    - 'true'\n    - a | b\n").line == 9


def test_a_list_is_taken_as_it_stands(load_nodes: LoadNodes, codes: Codes) -> None:
    plan = load_nodes('- id: a\n  run: ["sh", "-c", "a && b > c", "-x", $HOME, 01]')
    assert plan.tasks[0].run == ("sh", "-c", "a && b > c", "-x", "$HOME", "01")
    assert codes(plan) == []


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("run: echo $HOME", "shell_variable"),
        ('run: ["make test"]', "command_not_split"),
        ("verify: [ruff, check]", "verify_looks_like_one"),
    ],
)
def test_commands_that_look_like_a_slip(load_nodes: LoadNodes, codes: Codes, field: str, code: str) -> None:
    assert codes(load_nodes(f"- id: a\n  {field}\n")) == [code]


def test_verify_as_one_string(load_nodes: LoadNodes) -> None:
    assert load_nodes("- id: a\n  verify: make check\n").tasks[0].verify == (("make", "check"),)
