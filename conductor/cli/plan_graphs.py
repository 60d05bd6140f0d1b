"""A plan as a picture: Mermaid and Graphviz text. Pure. Nodes are numbered, and texts of the plan are quoted whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from bus.wire import TaskId
from conductor.cli.escape import one_line
from conductor.core.task import Plan, TaskSpec

_MERMAID_SPECIAL = re.compile(r"[^\w .,:/()+-]")

Pairs = Sequence[tuple[TaskId, TaskId, str]]
"""Two tasks that want the same thing, and the thing."""


def mermaid(plan: Plan, critical: Collection[TaskId], conflicts: Pairs) -> str:
    """Return a Mermaid flowchart: arrows for dependencies, dotted lines for conflicts, the critical path marked."""
    number = {task.id: task.index for task in plan.tasks}
    lines = ["flowchart LR"]
    lines += [f'  n{task.index}["{_mermaid_text(_label(task))}"]' for task in plan.tasks]
    lines += [f"  n{number[need]} --> n{task.index}" for task in plan.tasks for need in task.depends_on]
    lines += [f'  n{number[a]} -. "{_mermaid_text(one_line(on))}" .- n{number[b]}' for a, b, on in conflicts]
    marked = [f"n{task.index}" for task in plan.tasks if task.id in critical]
    if marked:
        lines += ["  classDef critical stroke-width:3px", f"  class {','.join(marked)} critical"]
    return "\n".join(lines)


def dot(plan: Plan, critical: Collection[TaskId], conflicts: Pairs) -> str:
    """Return a Graphviz digraph with the same picture."""
    number = {task.id: task.index for task in plan.tasks}
    lines = ["digraph plan {", "  rankdir=LR;", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    for task in plan.tasks:
        bold = ", penwidth=3" if task.id in critical else ""
        lines.append(f'  n{task.index} [label="{_dot_text(_label(task))}"{bold}];')
    lines += [f"  n{number[need]} -> n{task.index};" for task in plan.tasks for need in task.depends_on]
    lines += [
        f'  n{number[a]} -> n{number[b]} [style=dotted, dir=none, constraint=false, label="{_dot_text(one_line(on))}"];'
        for a, b, on in conflicts
    ]
    return "\n".join([*lines, "}"])


def _label(task: TaskSpec) -> str:
    return one_line(f"{task.id} {task.name}")


def _mermaid_text(text: str) -> str:
    """Everything that Mermaid or a page could take for markup becomes a character reference."""
    return _MERMAID_SPECIAL.sub(lambda match: f"#{ord(match.group())};", text)


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
