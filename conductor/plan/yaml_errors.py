"""Syntax errors of YAML in words that lead to the slip: the parser notices a forgotten quote only lines later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

ESCAPE_HINT = "Write the character itself in place of the escape; \\0 and one half of a character cannot be used."
_QUOTE_HINT = "Close the quote where its text ends. Inside of quotes, write \\\" for a \" and '' for a '."


@dataclass(frozen=True, slots=True)
class Slip:
    """What to say, and the parser's mark (from 0) of where to look; None where it gave none."""

    message: str
    hint: str
    mark: Any


def explain(error: yaml.YAMLError, text: str, loader_class: Any, first_line: int) -> Slip:
    """Say what is wrong with the text, which gave this error; `first_line` is the number of its first line."""
    context, context_mark = getattr(error, "context", None), getattr(error, "context_mark", None)
    mark = getattr(error, "problem_mark", None) or context_mark
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return Slip(problem, _hint(problem, ""), None)
    if context_mark is not None and "end of stream" in problem and "scalar" in (context or ""):
        return Slip("the quote that begins here is never closed", _QUOTE_HINT, context_mark)
    begun = _quote_that_ends_on(mark.line, text, loader_class)
    if begun is not None:
        closed = mark.line + first_line
        message = f"the quote that begins here is closed on line {closed}, where more follows: {problem}"
        return Slip(message, _QUOTE_HINT, begun)
    message = f"{context}, {problem}" if context else problem
    return Slip(message, _hint(problem, _line_at(text, mark.line)), mark)


def _quote_that_ends_on(line: int, text: str, loader_class: Any) -> Any:
    """Return the mark at which the last text in quotes began, if it goes over several lines and ends on this one."""
    loader = loader_class(text)
    last = None
    try:
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            last = event
    except yaml.YAMLError:
        pass
    finally:
        loader.dispose()
    if not isinstance(last, yaml.ScalarEvent) or last.style not in ("'", '"'):
        return None
    begin: Any = last.start_mark
    end: Any = last.end_mark
    return begin if begin.line < line == end.line else None


def _line_at(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number] if number < len(lines) else ""


def _hint(problem: str, line: str) -> str:
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "Indent with spaces; YAML does not allow tabs there."
    if "cannot start any token" in problem:
        return "Put text that begins with a special character in quotes."
    if "mapping values are not allowed" in problem:
        return 'Put text that contains ": " in quotes.'
    if "invalid Unicode character escape" in problem:
        return ESCAPE_HINT
    return "Check indentation, brackets and quotes on this line and the lines before."
