"""docs/states.md says what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conductor.core.transitions import STATUSES

ROOT = Path(__file__).parents[3]


def test_the_diagrams_are_those_of_the_transition_tables() -> None:
    check = subprocess.run([sys.executable, ROOT / "scripts" / "make_state_diagram.py", "--check"], check=False)
    assert check.returncode == 0, "run scripts/make_state_diagram.py"


def test_every_status_is_explained() -> None:
    page = (ROOT / "docs" / "states.md").read_text(encoding="utf-8")
    for status in STATUSES:
        assert f"\n| {status.__name__} | " in page
