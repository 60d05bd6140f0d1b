"""Files that a plan names by another way than from the project: `/abs/project/a.py`, `../project/a.py`.

Two tasks that name one file differently must still exclude each other. The disk is not asked; links are not followed.
"""

from __future__ import annotations

import os.path
from dataclasses import replace
from pathlib import Path

from conductor.core.task import Plan


def from_project(plan: Plan, project: Path) -> Plan:
    """Return the plan with every file in `project` named relative to it; what lies elsewhere stays as it is."""
    tasks = []
    for task in plan.tasks:
        if any(_is_roundabout(pattern) for pattern in (*task.files, *task.reads)):
            files, reads = (tuple(_inside(p, project) for p in names) for names in (task.files, task.reads))
            task = replace(task, files=files, reads=reads)
        tasks.append(task)
    return replace(plan, tasks=tuple(tasks))


def _is_roundabout(pattern: str) -> bool:
    return pattern.startswith("/") or ".." in pattern


def _inside(pattern: str, project: Path) -> str:
    if not _is_roundabout(pattern):
        return pattern
    folder = "/" if pattern.endswith("/") else ""
    path = os.path.normpath(project / pattern)
    root = os.path.join(project, "")
    return path.removeprefix(root) + folder if path.startswith(root) else pattern
