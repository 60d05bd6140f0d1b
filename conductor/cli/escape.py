"""Foreign text made safe to show. Pure.

Plans, agents and commands choose names and messages. On a terminal a control character could move the cursor, recolour
or rewrite what stands there; a bidi control could reorder a line. Both are shown as escapes instead.
"""

from __future__ import annotations

import re

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SEPARATORS = "\u2028\u2029"
_INVISIBLE = "\ufeff\u200b\u2060"
_SURROGATES = "\ud800-\udfff"
_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f"

_IN_LINE = re.compile(f"[\t\n{_CONTROL}{_BIDI}{_SEPARATORS}{_INVISIBLE}{_SURROGATES}]")
_IN_TEXT = re.compile(f"[{_CONTROL}{_BIDI}{_SEPARATORS}{_INVISIBLE}{_SURROGATES}]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\x1b": "\\e"}


def one_line(text: str) -> str:
    """Return `text` on one line: control, bidi and line-separating characters become visible escapes.

    Example: `one_line("a\\nb\\x1b[31m")` is `a\\\\nb\\\\e[31m`.
    """
    return _IN_LINE.sub(_visible, text)


def lines(text: str) -> str:
    """Like `one_line`, but newlines and tabs stay: for text that is shown as a block."""
    return _IN_TEXT.sub(_visible, text.replace("\r\n", "\n"))


LONG = 1000
"""Characters of a line that people may still read. What a command says can have a megabyte: `--json` has it all."""


def shortened(text: str, limit: int = LONG) -> str:
    """Return `text` on one safe line of at most `limit` characters, `…` at a cut."""
    line = one_line(text.strip())
    return line if len(line) <= limit else line[: max(limit - 1, 0)] + "…"


def short_lines(text: str, limit: int = LONG) -> str:
    """Like `lines`, but none is longer than `limit` characters."""
    cut = (line if len(line) <= limit else line[: limit - 1] + "…" for line in lines(text).split("\n"))
    return "\n".join(cut)


def json_text(text: str) -> str:
    """Return encoded JSON with the same characters as JSON escapes; what it means stays the same."""
    return _IN_TEXT.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _visible(match: re.Match[str]) -> str:
    char = match.group()
    if char in _SHORT:
        return _SHORT[char]
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
