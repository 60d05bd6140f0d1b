"""The directory that `project:` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.core.task import Plan
from conductor.errors import PlanError
from conductor.plan.project import project_of_plan


def test_a_project_of_the_plan_that_is_no_directory_is_an_error_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert project_of_plan(tmp_path, Plan(())) is None
    assert project_of_plan(tmp_path, Plan((), project=".")) == tmp_path
    for name in ("nowhere", "file", "x" * 300):
        with pytest.raises(PlanError) as caught:
            project_of_plan(tmp_path, Plan((), project=name, project_line=7))
        error = caught.value
        assert (error.code, error.path, error.line) == ("plan_field", "plan.md", 7)
        assert f"{tmp_path}/{name}" in error.message
