"""Fifty real workers that contend for files under the real conductor, killed and suspended at random."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.tools import REPO

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.mark.slow
def test_requirement_11_fifty_workers_on_twenty_files_never_hold_one_together_and_nobody_starves(
    tmp_path: Path,
) -> None:
    """Witness files, which only one can make, would show two holders. `scripts/contest` does it for two minutes."""
    contest = [sys.executable, str(REPO / "scripts" / "contests" / "main.py"), "--seed", "7"]
    found = subprocess.run(
        [*contest, "--seconds", "1.5", "--least", "6", "--json", "--keep", str(tmp_path / "contest")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    figures = json.loads(found.stdout)
    assert (figures["clashes"], figures["starved"], figures["left"]) == ([], [], [])
    assert figures["turns"]
    assert {"command", "worker", "suspend"} <= set(figures["hits"])
