"""What the live screen shows, worked out without a terminal. Pure.

Rows keep plan order, so that lines do not jump; where there are more tasks than lines, the rows that matter now are
chosen and the rest is summed up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conductor.cli.escape import one_line
from conductor.cli.output import cell_width, counts_line, fit, pad
from conductor.core.view import RunView
from conductor.core.wording import duration, plural

_URGENCY = {
    "running": 0,
    "failed": 1,
    "waiting": 3,
    "ready": 4,
    "blocked": 6,
    "cancelled": 6,
    "pending": 7,
    "skipped": 8,
}
"""Which rows to keep when there are too many; `done` has its place by how recent it is."""

RECENT = 10.0
"""Seconds for which a task that is done counts as news."""

MAX_ID, MAX_NAME = 14, 44

SHORT_NAME, SHORT_NOTE = 16, 8
"""Columns that a name keeps where notes need room too, and below which a note says nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One task, as a line."""

    id: str
    name: str
    status: str
    attempt: int = 0
    """Number of the attempt that runs or ran last; 0 before the first."""
    elapsed: float | None = None
    """Seconds that its attempt runs, or ran."""
    note: str = ""
    """The last progress, what it waits for, why it failed."""
    age: float | None = None
    """Seconds since it ended."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole, as a line with a bar."""

    counts: Mapping[str, int]
    elapsed: float
    remaining: float | None
    workers: int
    max_workers: int
    state: str = "running"
    """`running`, `draining`, `paused`, or how the run ended."""
    hint: str = ""
    """What can be done in this state."""

    @property
    def total(self) -> int:
        """How many tasks there are."""
        return sum(self.counts.values())


def visible(rows: Sequence[Row], room: int) -> tuple[list[Row], Mapping[str, int]]:
    """Choose at most `room` rows, in plan order, and count the statuses of the others (one line less, to say so)."""
    if len(rows) <= room:
        return list(rows), {}
    order = sorted(range(len(rows)), key=lambda index: (_urgency(rows[index]), index))
    kept = set(order[: max(room - 1, 0)])
    rest = Counter(row.status for index, row in enumerate(rows) if index not in kept)
    return [rows[index] for index in sorted(kept)], rest


def _urgency(row: Row) -> float:
    if row.status == "done":
        age = row.age if row.age is not None else 1e9
        return 2.0 if age <= RECENT else 9.0 + min(age / 1e9, 1.0)
    return _URGENCY[row.status]


@dataclass(frozen=True, slots=True)
class Cells:
    """One row cut into columns that fit the width; the pieces are padded and safe to show."""

    status: str
    id: str
    name: str
    attempt: str
    elapsed: str
    note: str


def cells(rows: Sequence[Row], width: int) -> list[Cells]:
    """Lay rows out for a terminal of `width` columns: names give way to notes, notes to nothing."""
    if not rows:
        return []
    ids = [one_line(row.id) for row in rows]
    names = [one_line(row.name) for row in rows]
    id_width = min(max(map(cell_width, ids)), MAX_ID)
    tries = any(row.attempt > 1 for row in rows)
    fixed = 2 + 9 + 2 + id_width + 2 + 2 + (4 if tries else 0) + 7
    notes = max((cell_width(row.note) for row in rows), default=0)
    longest = min(max(map(cell_width, names)), MAX_NAME)
    left = max(width - fixed, 0)
    beside_notes = left - 2 - min(notes, 24) if notes else left
    name_width = min(longest, left, max(beside_notes, SHORT_NAME))
    note_width = max(width - fixed - name_width - 2, 0)
    result = []
    for row, id, name in zip(rows, ids, names, strict=True):
        attempt = (pad(f"#{row.attempt}" if row.attempt > 1 else "", 4)) if tries else ""
        result.append(
            Cells(
                status=pad(row.status, 9),
                id=pad(fit(id, id_width), id_width),
                name=pad(fit(name, name_width), name_width),
                attempt=attempt,
                elapsed=(duration(row.elapsed) if row.elapsed is not None else "").rjust(7),
                note=fit(one_line(row.note), note_width) if note_width >= SHORT_NOTE else "",
            )
        )
    return result


def where_line(view: RunView, width: int) -> str:
    """Say where a run works; of a path that does not fit the end is shown."""
    path = one_line(view.project or "")
    tail = f", up to {plural(view.options.max_workers, 'worker')}" if view.options else ""
    whole = f"run {view.id} in {path}{tail}"
    if cell_width(whole) <= width:
        return whole
    while cell_width(path) > max(width - len("in ") - len(tail), 8):
        path = "…" + path[2:]
    return fit(f"in {path}{tail}", width)


def rest_line(rest: Mapping[str, int]) -> str:
    """Sum up the rows that are not shown."""
    return f"… and {sum(rest.values())} more: {counts_line(rest)}" if rest else ""


def bar(counts: Mapping[str, int], width: int) -> list[tuple[str, int]]:
    """Divide a bar of `width` columns: `[(status, columns), …]`, done first, what is open last.

    The columns add up to `width`, and whatever is not zero has at least one column where there is room.
    """
    parts = {
        "done": counts.get("done", 0),
        "failed": counts.get("failed", 0),
        "blocked": counts.get("blocked", 0) + counts.get("cancelled", 0) + counts.get("skipped", 0),
        "running": counts.get("running", 0),
    }
    total = sum(counts.values())
    if total == 0:
        return [("pending", width)]
    shown: list[tuple[str, int]] = []
    left = width
    for status, number in parts.items():
        columns = min(max(width * number // total, 1), left) if number else 0
        if columns:
            shown.append((status, columns))
            left -= columns
    if left and sum(parts.values()) == total:
        # Rounding must not leave a hole at the end of a bar that is full.
        status, columns = max(shown, key=lambda part: part[1])
        shown = [(name, size + left if name == status else size) for name, size in shown]
        left = 0
    return [*shown, ("pending", left)] if left else shown


def totals_text(totals: Totals, *, brief: bool = False) -> str:
    """Say the whole in words: `12/40 done, 1 failed · 3 of 5 workers · 1m 20s, about 3m left`.

    `brief` leaves out the workers.
    """
    counts = totals.counts
    bad = [f"{counts[word]} {word}" for word in ("failed", "blocked", "cancelled", "skipped") if counts.get(word)]
    parts = [", ".join([f"{counts.get('done', 0)}/{totals.total} done", *bad])]
    if totals.state in ("running", "draining", "paused") and not brief:
        parts.append(f"{totals.workers} of {totals.max_workers} workers")
    if totals.state != "running" or totals.hint:
        parts.append(f"{totals.state}: {totals.hint}" if totals.hint else totals.state)
    left = f", about {_rough(totals.remaining)} left" if totals.remaining is not None else ""
    parts.append(duration(totals.elapsed) + left)
    return " · ".join(parts)


def _rough(seconds: float) -> str:
    """A guess does not pretend to tenths of a second."""
    return duration(max(round(seconds), 1) if seconds >= 10 else max(float(round(seconds)), 1.0)).replace(".0s", "s")
