"""How things are printed on a terminal or in a pipe: colours, widths, tables. No verb prints otherwise."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

from bus.wire import dumps
from conductor.cli.escape import json_text, shortened

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}

STATUS_STYLE: Mapping[str, str] = {
    "pending": "dim",
    "ready": "cyan",
    "waiting": "yellow",
    "running": "blue",
    "done": "green",
    "failed": "red",
    "blocked": "yellow",
    "skipped": "dim",
    "cancelled": "dim",
}
"""Colour of each status word of a task; its keys are all of them, in the order in which counts are listed."""

STATUS_GLYPH: Mapping[str, str] = {
    "pending": "·",
    "ready": "○",
    "waiting": "◔",
    "running": "▶",
    "done": "✓",
    "failed": "✗",
    "blocked": "⊘",
    "skipped": "–",
    "cancelled": "⊗",
}
"""A sign for each status, so that colour is never the only difference."""


def wants_colour(stream: TextIO) -> bool:
    """Tell whether `stream` is a terminal that should get colours (`NO_COLOR` and `TERM=dumb` say no)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    """Tell whether `stream` is a terminal; a closed one is not."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def paint(text: str, style: str, *, colour: bool) -> str:
    """Return `text` in a style, or as it is where colours are off."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour and text else text


def out(text: str = "") -> None:
    """Print a line on stdout."""
    sys.stdout.write(text + "\n")


def err(text: str) -> None:
    """Print a line on stderr. Where that is gone (a closed terminal), nobody can be told, and nothing ends of it."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)


def is_gone(error: Exception) -> bool:
    """Tell whether an output failed because nobody is at its other end: a closed pipe, a terminal that hung up."""
    return isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.EIO)


def silence(stream: TextIO) -> None:
    """Let what is still to come, and what waits in the buffer, go nowhere: a flush at the exit must not fail, too."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def print_json(value: Any, *, pretty: bool = True) -> None:
    """Print a JSON value on stdout: indented for one answer, on one line where there are many."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) if pretty else dumps(value)
    out(json_text(text))


def counts_line(counts: Mapping[str, int], *, colour: bool = False) -> str:
    """Say the counts that are not zero, the good news first: `3 done, 1 failed, 2 blocked`."""
    order = ("done", "running", "waiting", "ready", "pending", "failed", "blocked", "skipped", "cancelled")
    parts = [paint(f"{counts[word]} {word}", STATUS_STYLE[word], colour=colour) for word in order if counts.get(word)]
    return ", ".join(parts) or "no tasks"


def cell_width(text: str) -> int:
    """Columns that `text` takes on a terminal: CJK and emoji take two, combining marks none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, width: int) -> str:
    """Cut `text` to at most `width` columns, `…` at the cut."""
    if cell_width(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    if text.isascii():
        return text[: width - 1] + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + "…"


def pad(text: str, width: int) -> str:
    """Fill `text` with blanks to `width` columns."""
    return text + " " * (width - cell_width(text))


def terminal_width(default: int = 100) -> int:
    """Columns of the terminal (COLUMNS first), `default` where there is none."""
    return shutil.get_terminal_size((default, 24)).columns


def table(rows: Sequence[Sequence[str]], *, styles: Sequence[str | None] = (), width: int | None, colour: bool) -> str:
    """Lay out rows in columns two blanks apart; the last column is cut at `width` (None: never cut).

    `styles` has one entry a row, for its first cell. Cells are made safe here: pass foreign text as it is.
    """
    safe = [[shortened(cell) for cell in row] for row in rows]
    if not safe:
        return ""
    widths = [max(cell_width(row[column]) for row in safe) for column in range(len(safe[0]) - 1)]
    lines: list[str] = []
    for number, row in enumerate(safe):
        cells = [pad(cell, size) for cell, size in zip(row, widths, strict=False)]
        last = row[-1]
        if width is not None:
            last = fit(last, max(width - sum(widths) - 2 * len(widths), 8))
        style = styles[number] if number < len(styles) else None
        if style and cells:
            cells[0] = paint(cells[0], style, colour=colour)
        lines.append("  ".join([*cells, last]).rstrip())
    return "\n".join(lines)
