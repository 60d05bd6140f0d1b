"""The built wheel: what is in it, and that it runs alone, from a folder that has packages of our names."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True)
    [found] = folder.glob("*.whl")
    return found


def test_the_wheel_holds_our_packages_typed_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"bus", "conductor", "worker", "conductor_bus_start.py"}
    assert {"bus/py.typed", "conductor/py.typed", "worker/py.typed"} <= set(names)


def test_the_wheel_has_both_console_scripts_and_the_licence(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [entry_points] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    text = archive.read(entry_points).decode()
    assert "conductor = conductor_bus_start:main" in text
    assert "conductor-bus = conductor_bus_start:main" in text
    assert any("LICENSE" in name for name in archive.namelist())


def test_the_installed_wheel_runs_a_track_beside_foreign_packages_of_our_names(wheel: Path, tmp_path: Path) -> None:
    site, repo = tmp_path / "site", tmp_path / "repo"
    zipfile.ZipFile(wheel).extractall(site)
    for name in ("bus", "conductor", "worker"):
        (repo / name).mkdir(parents=True)
        (repo / name / "__init__.py").write_text("raise RuntimeError('a foreign package was imported')\n")
    (repo / "plan.md").write_text('```yaml\ndag:\n  nodes:\n    - {id: "1", name: one, run: [touch, done]}\n```\n')
    start = [sys.executable, "-P", str(site / "conductor_bus_start.py")]
    environ = {**os.environ, "PYTHONPATH": ".", "HOME": str(tmp_path)}
    result = subprocess.run(
        [*start, "run", ".", "--project", "."], cwd=repo, env=environ, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert (repo / "done").exists()
