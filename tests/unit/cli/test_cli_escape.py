"""Requirement 31: foreign text on a terminal is harmless, and one record stays one line."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.cli.escape import json_text, lines, one_line, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer 日本 🎉 → ok", "größer 日本 🎉 → ok"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[31mred", "\\e[31mred"),
        ("\x9b31mred", "\\x9b31mred"),
        ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("pay\u202eexe.txt", "pay\\u202eexe.txt"),
        ("a\u2028b\u2029c\x85d", "a\\u2028b\\u2029c\\x85d"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("lone\ud800", "lone\\ud800"),
        ("family 👨\u200d👩\u200d👧", "family 👨\u200d👩\u200d👧"),
    ],
)
def test_req31_control_and_bidi_characters_become_visible(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text(st.characters()))
def test_req31_any_text_stays_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert all(unicodedata.category(char) not in ("Cc", "Cs") for char in line)
    assert not any(
        unicodedata.bidirectional(char) in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")
        for char in line
    )
    line.encode()


@given(st.text(st.characters()))
def test_req31_blocks_keep_only_newlines_and_tabs(text: str) -> None:
    assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") for char in lines(text))


@given(st.lists(st.text(st.characters())) | st.dictionaries(st.text(st.characters()), st.text()))
def test_req31_json_means_the_same_after_escaping(value: object) -> None:
    text = json_text(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert "\x9b" not in text
    text.encode()


def test_shortened_cuts_with_an_ellipsis() -> None:
    assert shortened("  a longer text\n", 8) == "a longe…"
    assert shortened("short", 8) == "short"
