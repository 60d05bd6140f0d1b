from __future__ import annotations

import io

import pytest

from conductor.cli.output import (
    cell_width,
    counts_line,
    fit,
    is_terminal,
    pad,
    paint,
    table,
    wants_colour,
)


def test_counts_leave_out_zeros() -> None:
    assert counts_line({"failed": 1, "done": 3, "ready": 0}) == "3 done, 1 failed"
    assert counts_line({}) == "no tasks"


def test_wide_characters_count_twice() -> None:
    assert cell_width("日本") == 4
    assert cell_width("🎉") == 2
    assert pad("日本", 6) == "日本  "
    assert fit("日本語テキスト", 7) == "日本語…"
    assert fit("abcdef", 4) == "abc…"
    assert fit("abc", 3) == "abc"
    assert fit("abc", 1) == "…"
    assert fit("abc", 0) == ""


def test_tables_line_up_and_stay_in_their_width() -> None:
    rows = [["1.1", "done", "first"], ["日本", "failed", "second\x1b[2J of some length"]]
    assert table(rows, width=None, colour=False).splitlines() == [
        "1.1   done    first",
        "日本  failed  second\\e[2J of some length",
    ]
    assert table(rows, width=26, colour=False).splitlines()[1] == "日本  failed  second\\e[2J…"
    assert table([], width=None, colour=False) == ""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_only_on_a_terminal_and_not_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(_Terminal())
    assert not wants_colour(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(_Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(_Terminal())
    assert paint("x", "red", colour=False) == "x"
    assert paint("x", "red", colour=True) == "\x1b[31mx\x1b[0m"


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert not is_terminal(stream)
