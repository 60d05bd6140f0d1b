"""The directory that a plan names as the one in which its tasks work."""

from __future__ import annotations

import os
from pathlib import Path

from conductor.core.task import Plan
from conductor.errors import PlanError


def project_of_plan(track: Path, plan: Plan) -> Path | None:
    """Return the directory that the plan's `project:` names, if any; raises PlanError where it is none."""
    if plan.project is None:
        return None
    folder = Path(os.path.realpath(track / plan.project))
    if os.path.isdir(folder):  # False for what no path can be, where Path.is_dir raises
        return folder
    raise PlanError(
        "plan_field",
        f"project: there is no directory {folder}",
        path=plan.source,
        line=plan.project_line or None,
        hint="`project:` is relative to the track; make the folder, or correct the path.",
    )
