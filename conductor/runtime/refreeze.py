"""A frozen plan that was lost can be made again while its source is what it was."""

from __future__ import annotations

from pathlib import Path

from conductor.errors import ConductorError
from conductor.plan import frozen, load
from conductor.plan.claims import from_project


def plan_again(track: Path, project: str) -> bytes | None:
    """Return the plan of a track as it would be frozen now; None where there is none that can be read."""
    try:
        return frozen.dump(from_project(load(track), Path(project)))
    except (ConductorError, OSError):
        return None
