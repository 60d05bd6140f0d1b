"""In a repository with folders of our packages' names, and with PYTHONPATH=., ours runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.tools import START, Project

SCRIPT = Path(sys.executable).with_name("conductor")
PROGRAMS = [
    pytest.param((sys.executable, "-E", "-P", str(START)), id="module"),
    pytest.param(
        (str(SCRIPT),),
        id="console-script",
        marks=pytest.mark.skipif(not SCRIPT.exists(), reason="the project is not installed beside this Python"),
    ),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_ours_runs_in_a_repository_with_packages_of_the_same_names(project: Project, program: Sequence[str]) -> None:
    for name in ("bus", "worker", "conductor"):
        (project.dir / name).mkdir()
        (project.dir / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    for name in ("click", "yaml", "psutil", "pydantic", "filelock", "watchdog", "rich"):
        (project.dir / f"{name}.py").write_text("raise RuntimeError('the wrong module')\n")
    (project.dir / "theirs.py").write_text("print('theirs')\n")
    progress = 'conductor bus progress 40 "half way" && "$CONDUCTOR_BIN" bus post REMARK \'{"a": 1}\''
    project.plan(
        [
            project.shell("a", progress),
            project.shell("b", f'{sys.executable} -c "import theirs" >out && [ "$PYTHONPATH" = . ]', after=["a"]),
            project.shell("c", f'{sys.executable} -c "import worker"; [ $? = 1 ]', after=["a"]),
        ]
    )
    env = {"PYTHONPATH": "."}
    project.run(program=program, env=env).expect(0)
    assert (project.dir / "out").read_text() == "theirs\n"
    assert [record["payload"] for record in project.recorded("REMARK")] == [{"a": 1}]
    assert project.recorded("PROGRESS")[0]["payload"]["pct"] == 40
    found = project.call("status", str(project.track), "--json", program=program, env=env).expect(0)
    assert found.data["counts"]["done"] == 3
    project.call("plan", str(project.track), program=program, env=env).expect(0)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_version_is_told_without_a_home(project: Project, program: Sequence[str]) -> None:
    found = project.call("--version", program=program, env={"HOME": ""}).expect(0)
    assert found.out.startswith("conductor ")
