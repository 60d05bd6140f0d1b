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


@pytest.mark.parametrize(
    ("key", "written"),
    [("run", '["sh", "-c", "a | b > \\"c\\""]'), ("verify", '[["sh", "-c", "a | b > \\"c\\""]]')],
)
def test_what_the_hint_says_can_be_written_as_it_stands(
    load_nodes: LoadNodes, refused: Refused, key: str, written: str
) -> None:
    for value in ('a | b > "c"', '[a | b > "c"]')[: 1 if key == "run" else 2]:
        assert f"For a shell, say so: {key}: {written};" in refused(f"- id: a\n  {key}: {value}\n").hint
    task = load_nodes(f"- id: a\n  {key}: {written}\n").tasks[0]
    assert (task.run or task.verify[0]) == ("sh", "-c", 'a | b > "c"')


def test_the_hint_repeats_no_long_text_and_no_line_breaks(refused: Refused) -> None:
    assert refused(f"- id: a\n  run: make && {'x' * 200}\n").hint.startswith(
        'For a shell, say so: run: ["sh", "-c", "…"];'
    )
    assert '"…"' in refused('- id: a\n  verify: "a\\nb"\n').hint


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ('["sh", "-c", "a | b"]', '[["sh", "-c", "a | b"]]'),
        ('["pytest", "-q"]', '[["pytest", "-q"]]'),
        ('["-c"]', '[["-c"]]'),
    ],
)
def test_verify_that_is_one_command_in_pieces_is_refused(refused: Refused, value: str, written: str) -> None:
    error = refused(f"- id: a\n  verify: {value}\n")
    assert (error.code, error.line) == ("plan_field", 7)
    assert error.hint == f"For one command, write verify: {written}."


def test_verify_that_may_be_one_command_says_how_it_would_be_written(load_nodes: LoadNodes) -> None:
    message = load_nodes("- id: a\n  verify: [ruff, check]\n").warnings[0].message
    assert message.endswith('if they are one, write verify: [["ruff", "check"]]')


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'echo $HOME'",
        'bash -ec "echo $HOME"',
        "/bin/dash -e -c 'echo ${HOME}'",
        "zsh -c 'echo $1' name",
        "bash -euo pipefail -c 'echo $HOME'",
        "env -i A=b sh -c 'echo $A'",
        "timeout 5 sh -c 'echo $HOME'",
        "find . -exec sh -c 'echo $1' sh {} +",
    ],
)
def test_a_variable_in_the_script_of_a_shell_is_meant(load_nodes: LoadNodes, codes: Codes, command: str) -> None:
    assert codes(load_nodes(f"- id: a\n  run: {command}\n")) == []


@pytest.mark.parametrize(
    "command", ["sh script.sh $HOME", "sh -c 'echo $1' name $HOME", "echo sh -c", "env A=b echo $A", "sh -c"]
)
def test_a_variable_that_no_shell_reads_is_a_warning(load_nodes: LoadNodes, codes: Codes, command: str) -> None:
    assert codes(load_nodes(f"- id: a\n  run: {command}\n")) == ["shell_variable"] * ("$" in command)


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
