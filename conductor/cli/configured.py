"""The configuration that a run of a track would find, for verbs that look at a plan without a run."""

from __future__ import annotations

import os
from pathlib import Path

from conductor.config import Config, find_project, load_config
from conductor.core.task import Plan


def config_of(plan: Plan, track: Path) -> Config:
    """Read the configuration as `run` would without flags. Raises ConductorError where `run` would."""
    home = os.environ.get("HOME")
    try:
        cwd = Path.cwd()
    except FileNotFoundError:  # it was removed
        cwd = Path("/")
    project = find_project(track, flag=None, plan=plan, cwd=cwd, home=Path(home) if home else None)
    return load_config(track, project)
