#!/usr/bin/env python3
"""Write the state diagrams and the table of docs/states.md from the transition tables of the core.

python scripts/make_state_diagram.py            rewrite the generated parts of docs/states.md
python scripts/make_state_diagram.py --check    only say whether they are up to date (exit 1: they are not)
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from conductor.core.transitions import (  # noqa: E402
    IGNORED,
    RUN_EVENTS,
    RUN_TABLE,
    STATUSES,
    TASK_EVENTS,
    TASK_TABLE,
    Phase,
    Verdict,
)

PAGE = ROOT / "docs" / "states.md"


def task_diagram() -> str:
    """Return the statuses of a task and what leads from one to another."""
    edges: dict[tuple[str, str], list[str]] = {}
    for event in TASK_EVENTS:
        for status in STATUSES:
            cell = TASK_TABLE[status, event]
            if not isinstance(cell, Verdict) and cell is not status:
                edges.setdefault((status.__name__, cell.__name__), []).append(event)
    lines = ["stateDiagram-v2", "  [*] --> Pending"]
    lines += [f"  {a} --> {b}: {', '.join(events)}" for (a, b), events in edges.items()]
    return _fenced(lines)


def run_diagram() -> str:
    """Return the phases of a run."""
    edges: dict[tuple[str, str], list[str]] = {}
    for event in RUN_EVENTS:
        for phase in Phase:
            cell = RUN_TABLE[phase, event]
            if isinstance(cell, Phase) and cell is not phase:
                edges.setdefault((phase.value, cell.value), []).append(event)
    lines = ["stateDiagram-v2", f"  [*] --> {Phase.NEVER.value}"]
    lines += [f"  {a} --> {b}: {', '.join(events)}" for (a, b), events in edges.items()]
    return _fenced(lines)


def task_table() -> str:
    """Return every pair of event and status: the status that follows, · for ignored, nothing for impossible."""
    head = ["event", *(status.__name__ for status in STATUSES)]
    rows = [head, ["---"] * len(head)]
    for event in TASK_EVENTS:
        cells = (TASK_TABLE[status, event] for status in STATUSES)
        words = [("·" if c is IGNORED else "") if isinstance(c, Verdict) else c.__name__ for c in cells]
        rows.append([event, *words])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _fenced(lines: list[str]) -> str:
    return "\n".join(["```mermaid", *lines, "```"])


def render(page: str) -> str:
    """Return the page with its generated parts, each between two comments, made anew."""
    for name, part in (("task", task_diagram()), ("table", task_table()), ("run", run_diagram())):
        begin, end = f"<!-- generated: {name} -->\n", f"\n<!-- end: {name} -->"
        before, _, rest = page.partition(begin)
        page = before + begin + part + end + rest.partition(end)[2]
    return page


def main() -> int:
    """Rewrite or check the page."""
    old = PAGE.read_text(encoding="utf-8")
    new = render(old)
    if "--check" in sys.argv[1:]:
        return 0 if new == old else 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
