"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.tools import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project with an empty track. Afterwards nothing of it may be running."""
    made = Project(tmp_path)
    yield made
    left = made.end_all()
    assert not left, f"processes left behind: {left}"
