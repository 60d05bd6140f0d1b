"""What a worker's command is given: where it is, what it sees, what it may be sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.tools import START, Project

PROBE = """
import json, os, signal, sys
print(json.dumps({
    "env": dict(os.environ),
    "cwd": os.getcwd(),
    "stdin": os.readlink("/proc/self/fd/0"),
    "group": os.getpgid(0) == os.getpid(),
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
    "parent_group": os.getpgid(os.getppid()),
}))
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@pytest.fixture
def probe(project: Project) -> list[str]:
    """The argument list of a command that prints what it sees."""
    path = project.root / "probe.py"
    path.write_text(PROBE)
    # Without -I the interpreter would be the same, but PYTHON* of the developer must not shape the probe.
    return [sys.executable, "-I", "-S", str(path)]


def seen(project: Project, task: str = "a") -> dict[str, Any]:
    """What the probe printed."""
    data: dict[str, Any] = json.loads(project.printed(task))
    return data


def test_a_command_sees_its_task_and_no_outer_run(project: Project, probe: list[str]) -> None:
    node = {"id": "a/1", "name": "Name", "type": "ui", "files": ["x.py", "y/*"], "run": probe, "env": {"MINE": "1"}}
    project.plan([node])
    outer = {
        "CONDUCTOR_SECRET_OF_OUTER": "x",
        "CONDUCTOR_PROMPT_FILE": "/outer",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_SSE_PORT": "1",
        "KEPT": "kept",
        "ANTHROPIC_API_KEY": "kept as well",
    }
    project.run(env=outer).expect(0)
    found = seen(project, "a/1")
    env = found["env"]
    ours = {name: value for name, value in env.items() if name.startswith("CONDUCTOR_")}
    attempt = project.recorded("WORKER_DISPATCHED")[0]["attempt"]
    assert ours == {
        "CONDUCTOR_TRACK_DIR": str(project.track),
        "CONDUCTOR_BUS_DIR": str(project.bus),
        "CONDUCTOR_PROJECT_DIR": str(project.dir),
        "CONDUCTOR_TASK_ID": "a/1",
        "CONDUCTOR_TASK_NAME": "Name",
        "CONDUCTOR_TASK_TYPE": "ui",
        "CONDUCTOR_ATTEMPT": attempt,
        "CONDUCTOR_ATTEMPT_NUMBER": "1",
        "CONDUCTOR_NONCE": attempt.rpartition("-")[2],
        "CONDUCTOR_FILES": "x.py\ny/*",
        "CONDUCTOR_BIN": str(project.bus / "bin" / "conductor"),
    }
    assert env["MINE"] == "1"
    assert env["KEPT"] == "kept"
    assert env["ANTHROPIC_API_KEY"] == "kept as well"
    assert not {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"} & set(env)
    assert env["PATH"].split(":")[0] == str(project.bus / "bin")
    assert found["cwd"] == str(project.dir)
    assert found["stdin"] == "/dev/null"
    assert found["group"]
    # 3 is the listing itself.
    assert found["fds"] == [0, 1, 2, 3]


def test_signals_are_default_even_where_the_conductor_was_started_without_them(
    project: Project,
) -> None:
    project.plan([{"id": "a", "name": "x", "run": ["cat", "/proc/self/status"]}])
    program = ("sh", "-c", 'trap "" INT HUP PIPE QUIT USR1; exec "$@"', "sh", sys.executable, "-E", "-P", str(START))
    project.run(program=program).expect(0)
    status = project.printed("a")
    masks = {
        line.split()[0]: int(line.split()[1], 16)
        for line in status.splitlines()
        if line.startswith(("SigBlk", "SigIgn"))
    }
    assert masks["SigBlk:"] == 0
    # 32 and 33 belong to the C library, which ignores them in whatever it spawns.
    assert masks["SigIgn:"] & ~(3 << 31) == 0


def test_prompt_and_task_file_are_there_for_a_command_that_names_them(project: Project) -> None:
    project.plan(
        [{"id": "1.1", "name": "Write it", "acceptance": "It is written", "files": ["a.py"]}],
        prose="## Tasks\n\n- [ ] Task 1.1: Write it\n  - **Acceptance**: proven\n- [ ] Task 1.10: Another\n",
    )
    project.run("--command", "cat {prompt_file}").expect(0)
    text = project.printed("1.1")
    for word in ("1.1", "Write it", "It is written", "proven", "a.py"):
        assert word in text
    assert "Another" not in text


def test_the_task_file_holds_the_task(project: Project) -> None:
    project.plan([project.shell("a", 'cat "$CONDUCTOR_TASK_FILE"', files=["a.py"], acceptance="yes")])
    project.run().expect(0)
    data = seen(project)
    assert data["task_id"] == "a"
    assert data["files"] == ["a.py"]
    assert data["acceptance"] == "yes"


def where(project: Project) -> str:
    """The working directory of the only task."""
    return project.printed("a").strip()


def test_the_project_directory_by_precedence(project: Project) -> None:
    pwd = project.shell("a", "pwd -P")
    deep = project.dir / "deep" / "er"
    named, flagged = project.root / "named", project.root / "flagged"
    for folder in (deep, named, flagged):
        folder.mkdir(parents=True)
    project.track = deep / "track"
    project.track.mkdir()
    cases: list[tuple[str, dict[str, Any], tuple[str, ...], Path, Path]] = [
        ("parent", {}, (), project.track, deep),
        ("cwd", {}, (), project.dir, project.dir),
        ("git", {}, (), project.root, project.dir / "deep"),
        ("named", {"project": "../../../../named"}, (), project.dir, named),
        ("flag", {"project": "../../../../named"}, ("--project", str(flagged)), project.dir, flagged),
    ]
    for case, keys, flags, cwd, expected in cases:
        if case == "git":
            subprocess.run(["git", "init", "-q", str(project.dir / "deep")], check=True, env=project.environment())
        project.bus = project.root / f"bus {case}"
        project.plan([pwd], **keys)
        project.run("--bus-dir", str(project.bus), *flags, cwd=cwd).expect(0)
        assert where(project) == str(expected), case


def test_home_is_no_project(project: Project) -> None:
    home_track = project.home / "x" / "track"
    home_track.mkdir(parents=True)
    project.track, project.bus = home_track, home_track / ".message-bus"
    project.plan([project.shell("a", "pwd -P")])
    project.run(cwd=project.home).expect(0)
    assert where(project) == str(project.home / "x")


def test_the_project_directory_is_kept_from_the_first_start_on(project: Project) -> None:
    other = project.root / "other"
    other.mkdir()
    project.plan([project.shell("a", "pwd -P")])
    project.run(cwd=project.dir).expect(0)
    project.plan([project.shell("a", "pwd -P"), project.shell("b", "pwd -P")])
    project.run(cwd=other).expect(0)
    assert project.printed("b").strip() == str(project.dir)
    assert project.status()["project"] == str(project.dir)
    error = project.run("--json", "--project", str(other)).expect(2).error
    assert error["code"] == "usage"
    assert str(other) in error["message"]
    project.run("--project", str(project.dir)).expect(0)
    project.plan([project.shell("a", "pwd -P"), project.shell("c", "true")], project="../../other")
    project.run("--json").expect(2)


def test_a_path_with_blanks_quotes_and_newlines(project: Project, probe: list[str]) -> None:
    odd = project.dir / 'it\'s a "track"\n$(x) ü'
    odd.mkdir()
    project.track, project.bus = odd, odd / ".message-bus"
    project.plan([{"id": "a", "name": "x", "run": probe}, project.shell("b", "conductor bus progress 5")])
    project.run().expect(0)
    assert seen(project)["env"]["CONDUCTOR_TRACK_DIR"] == str(odd)
    assert project.recorded("PROGRESS")
