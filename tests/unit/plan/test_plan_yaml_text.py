"""YAML as text (requirement 26): what is refused, and that nothing but PlanError gets out."""

from __future__ import annotations

import re

import pytest
import yaml

from conductor.errors import PlanError
from conductor.plan import yaml_text
from conductor.plan.yaml_text import Map, Seq, Text, as_json, read_yaml


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def both_parsers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds with and without libyaml."""
    if request.param == "python":
        monkeypatch.setattr(yaml_text, "_LOADER", yaml.SafeLoader)


def refused(text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        read_yaml(text)
    assert caught.value.code == "plan_yaml"
    return caught.value


def test_every_scalar_keeps_its_text() -> None:
    texts = ["1.10", "01", "on", "no", "0777", "12:30:00", "1e3", "2001-01-01", "0x10", "+1", ".5", "1_000", "<<", "="]
    assert as_json(read_yaml("\n".join(f"- {text}" for text in texts)) or Seq()) == texts


def test_nodes_know_their_place() -> None:
    root = read_yaml("a: 1\nb:\n  - x\n  - {c: d}\n", line_offset=10, column_offset=2)
    assert isinstance(root, Map)
    items = root[Text("b")]
    assert isinstance(items, Seq)
    assert [(node.line, node.column) for node in (root, items, items[1])] == [(11, 3), (13, 5), (14, 7)]
    key = next(iter(items[1]))
    assert isinstance(key, Text)
    assert (key, key.line, key.column) == ("c", 14, 8)


@pytest.mark.parametrize(
    ("text", "null"), [("a:", True), ("a: ~", True), ("a: null", True), ("a: 'null'", False), ("a: ''", False)]
)
def test_null_is_an_unquoted_word(text: str, null: bool) -> None:
    root = read_yaml(text)
    assert isinstance(root, Map)
    value = root[Text("a")]
    assert isinstance(value, Text)
    assert value.is_null is null


@pytest.mark.parametrize(
    ("text", "words", "line", "column"),
    [
        ("a: !!python/object:os.system x", "tag", 1, 4),
        ("a: 1\nb: !x {c: d}", "tag", 2, 4),
        ("a: ! x", "tag", 1, 4),
        ("a: &x 1", "anchor", 1, 4),
        ("a:\n  - &x [1]", "anchor", 2, 5),
        ("a: 1\nb: *x", "aliases", 2, 4),
        ("a: 1\nb: 2\na: 3", "first on line 1", 3, 1),
        ('{"a": 1, a: 2}', "stands twice", 1, 10),
        ("a: 1\n---\nb: 2", "second YAML document", 2, 1),
        ("? [a]\n: b", "a key must be", 1, 3),
        ("a: [1, 2", "not valid YAML", 2, 1),
        ("a: b: c", "not valid YAML", 1, 5),
        ("a: 'x", "not valid YAML", 1, 6),
        ("a: x\x00y", r"U\+0000", 1, 5),
        ("a: \x1b[31m", r"U\+001B", 1, 4),
        ("a:\n  b: \ud800", r"U\+D800", 2, 6),
        ('a: "x\\0y"', "NUL", 1, 4),
    ],
)
def test_what_is_refused_names_line_and_column(text: str, words: str, line: int, column: int) -> None:
    error = refused(text)
    assert re.search(words, error.message)
    if words != "not valid YAML":  # the two parsers differ in where they notice
        assert error.line == line
        assert f"(line {line}, column {column})" in error.message
    else:
        assert error.line in (line, line - 1)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ('a: 1\nb: "abc\nc: "x"\nd: 3\n', "is closed on line 3, where more follows"),
        ("a: 1\nb: 'abc\nc: 'x'\nd: 3\n", "is closed on line 3, where more follows"),
        ('a: 1\nb: ["abc, d]\nc: ["x"]\n', "is closed on line 3, where more follows"),
        ('a: 1\nb: "abc\nc: 2\nd: "x: y"\n', "is closed on line 4, where more follows"),
        ('a: 1\nb: "abc\nc: 2\nd: 3\n', "is never closed"),
        ("a: 1\nb: ['abc\nc: 2\n", "is never closed"),
    ],
)
def test_a_forgotten_quote_is_reported_where_it_was_opened(text: str, end: str) -> None:
    error = refused(text)
    assert error.line == 2
    assert f"the quote that begins here {end}" in error.message
    assert "Close the quote" in (error.hint or "")


def test_a_quote_that_is_closed_is_not_blamed() -> None:
    error = refused('a: "x\n  y"\nb: [1\nc: 2\n')
    assert "quote" not in error.message
    assert "the lines before" in (error.hint or "")


def test_a_character_escaped_in_two_halves_is_one() -> None:
    assert as_json(read_yaml(r'["\ud83d\ude00", "\\\ud83d\ude00"]') or Seq()) == ["\U0001f600", "\\\U0001f600"]


def test_what_looks_like_an_escape_outside_of_double_quotes_is_text() -> None:
    assert as_json(read_yaml(r"['\ud83d\ude00', \ud83d\ude00]") or Seq()) == [r"\ud83d\ude00"] * 2


@pytest.mark.parametrize("text", [r'a: "\ud83d"', r'a: "\ude00\ud83d"', r'a: "\ud83d\n"'])
def test_half_a_character_is_refused_and_says_what_to_write(text: str) -> None:
    assert "Write the character itself" in (refused(text).hint or "")


def test_a_billion_laughs_is_refused_at_the_first_anchor() -> None:
    bomb = "a: &a [x]\n" + "".join(f"{b}: &{b} [*{a},*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    assert refused(bomb).line == 1


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "".join(" " * n + "a:\n" for n in range(300))]
)
def test_depth_bombs_are_refused(text: str) -> None:
    assert re.search("nested deeper than|maximum nesting depth", refused(text).message)


def test_an_empty_text_has_no_document() -> None:
    assert read_yaml("") is None
    assert read_yaml("# nothing\n") is None
