"""Plans as they are found in public, run to the end by a worker that records its start and end.

CONDUCTOR_TRACKS=FOLDER runs every track in that folder as well (copied, never touched).
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.tools import Finished, Project

GROUPED = """# Phone book

Text before the graph, with a fence that is not the graph:

```yaml name
key: value
```

## Dependency Graph

```yaml
dag:
  nodes:
    - id: '1.1'
      name: 'Introduce the session'
      type: 'infrastructure'
      files:
        - 'web/src/lib/api.ts'
        - 'web/src/**/*auth*'
      depends_on: []
      estimated_duration: '45m'
      phase: 1
    - id: '1.2'
      name: 'Add the sign-in route: "first" & second'
      type: 'feature'
      files: ['web/src/App.tsx', 'web/.env.example']
      depends_on: ['1.1']
      estimated_duration: '60m'
      phase: 1
    - id: '1.3'
      name: 'Normalise the account page'
      type: 'code'
      files: ['web/src/pages/AccountPage.tsx', 'web/src/components/account/']
      depends_on: []
      estimated_duration: '1-2 days'
    - id: '2.1'
      name: 'Gate the account'
      files: ['web/src/App.tsx', 'web/src/pages/AccountPage.tsx']
      depends_on: ['1.1', '1.2']
    - id: '2.2'
      name: 'Harden the sign-out'
      files: ['web/src/lib/api.ts', 'web/src/oauth/x.ts', 'web/src/pages/AccountPage.tsx']
      depends_on: ['1.1', '1.2']
    - id: '2.10'
      name: 'Chain, one'
      type: [skip, commit]
      files: ['web/src/components/account/Map.tsx', 'models.py (delete)']
      depends_on: '1.3'
    - id: '2.11'
      name: 'Chain, two'
      files: ['models.py', 'routers/*.py (16 files)']
      depends_on: ['2.10']
    - id: '2.12'
      name: 'Chain, three'
      files: ['routers/users.py', 'stubs from Phase 3']
      depends_on: ['2.11', '1.1']
    - id: '3/a+b'
      name: 'Verify → ✓ 検証'
      type: 'verification'
      files: []
      depends_on: ['1.3', '2.1', '2.2', '2.12']
      estimated_duration: 'completed'
  parallel_groups:
    - id: 'pg-1'
      tasks: ['1.1', '1.3']
      conflict_free: true
    - id: 'pg-2'
      tasks: ['2.1', '2.2']
      conflict_free: true
      note: 'they share a page all the same'
    - id: 'pg-3'
      tasks: ['2.10', '2.11', '2.12']
      conflict_free: false
      max_workers: 2
```

## Phase 1

- [x] Task 1.1: Introduce the session
  - **Acceptance**: it is there
- [X] Task 1.2: Add the sign-in route
- [x] Task 1.3: Normalise
- [x] Task 2.1: Gate
- [x] Task 2.2: Harden
- [x] Task 2.10: one
- [x] Task 2.11: two
- [x] Task 2.12: three
- [x] Task 3/a+b: Verify
"""

BARE = """# Integration gaps
```yaml
dag:
  nodes:
    - id: 1.1
      name: "Start"
      depends_on: []
    - id: 1.10
      name: "Not the same as the first"
      depends_on: [1.1]
    - id: 01
      name: yes
      depends_on: null
    - id: on
      name: 12:30:00
      depends_on: [01,]
    - id: "2.1"
      depends_on: ["1.10", "on"]
      name: "Join"
    - id: 1e3
      name: null
      depends_on: ["2.1"]
      note: "kept"
  parallel_groups: []
  critical_path: "1.1 → 1.10 → 2.1"
```
"""

WIDE = "# Wide\n\n```yaml\ndag:\n  nodes:\n" + "".join(
    f"    - id: 'w{number}'\n      name: 'Task'\n      files: ['src/part{number % 7}/*']\n      depends_on: []\n"
    for number in range(14)
)

PLANS = {"grouped": GROUPED, "bare": BARE, "wide": WIDE + "```\n"}

WATCH = pytest.mark.parametrize("watch", [(), ("--no-watch",)], ids=["watch", "no-watch"])


@WATCH
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_as_found_in_public_runs_to_the_end(project: Project, name: str, watch: tuple[str, ...]) -> None:
    (project.track / "plan.md").write_text(PLANS[name], encoding="utf-8")
    (project.track / "metadata.json").write_text('{"status": "in_progress",', encoding="utf-8")
    run_and_check(project, project.track, watch)


def found_tracks() -> list[Path]:
    folder = os.environ.get("CONDUCTOR_TRACKS")
    return sorted(path for path in Path(folder).iterdir() if path.is_dir()) if folder else []


@pytest.mark.skipif(not found_tracks(), reason="CONDUCTOR_TRACKS names no folder of tracks")
@WATCH
@pytest.mark.parametrize("track", found_tracks(), ids=lambda path: path.name)
def test_each_found_track_runs_to_the_end_or_says_that_it_has_no_graph(
    project: Project, track: Path, watch: tuple[str, ...]
) -> None:
    copy = project.dir / track.name
    shutil.copytree(track, copy, copy_function=shutil.copyfile)
    copy.chmod(0o755)
    if read_nodes(copy) is None:
        error = project.call("run", str(copy), "--json", *watch, "--command", "true").expect(3).error
        assert error["code"] == "plan_no_dag"
        assert not (copy / ".message-bus").exists()
    else:
        run_and_check(project, copy, watch)


def run_and_check(project: Project, track: Path, watch: tuple[str, ...]) -> None:
    """Run a track by a recording worker, and hold what it recorded against the plan."""
    nodes = read_nodes(track)
    assert nodes
    before = (track / "plan.md").read_bytes()
    command = " ".join(project.recorder("--linger", "0.05"))
    done = project.call("run", str(track), "--command", command, *watch)
    done.expect(0)
    check_order(project, nodes)
    check_status(project.call("status", str(track), "--json"), nodes)
    assert (track / "plan.md").read_bytes() == before


def check_order(project: Project, nodes: dict[str, dict[str, Any]]) -> None:
    """Every task once, after its dependencies, at most five at once, no overlapping files at once."""
    assert sorted(project.starts()) == sorted(nodes)
    assert sorted(project.ends()) == sorted(nodes)
    running: set[str] = set()
    ended: set[str] = set()
    for note in project.notes():
        task = note["task"]
        if note["what"] == "end":
            running.remove(task)
            ended.add(task)
            continue
        assert set(nodes[task]["depends_on"]) <= ended, f"{task} before {set(nodes[task]['depends_on']) - ended}"
        for other in running:
            clash = [(a, b) for a in nodes[task]["files"] for b in nodes[other]["files"] if overlap(a, b)]
            assert not clash, f"{task} beside {other} on {clash}"
        running.add(task)
        assert len(running) <= 5


def check_status(finished: Finished, nodes: dict[str, dict[str, Any]]) -> None:
    """`status --json` says done, in plan order, with counts that add up."""
    status = finished.expect(0).data
    assert status["run"]["state"] == "done"
    assert [task["id"] for task in status["tasks"]] == list(nodes)
    assert {task["status"] for task in status["tasks"]} == {"done"}
    assert {task["attempts"] for task in status["tasks"]} == {1}
    assert status["counts"]["done"] == sum(status["counts"].values()) == len(nodes)


def read_nodes(track: Path) -> dict[str, dict[str, Any]] | None:
    """The plan's nodes by id, scalars as written; read here on our own, so that nothing is checked against itself."""
    text = (track / "plan.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```ya?ml[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if re.match(r"dag:", block):
            nodes = yaml.load(block, yaml.BaseLoader)["dag"]["nodes"]
            return {
                node["id"]: {"depends_on": as_list(node.get("depends_on")), "files": patterns(node)} for node in nodes
            }
    return None


def as_list(value: object) -> list[str]:
    """A list as written, a text as a list of one, null as none."""
    if isinstance(value, list):
        return value
    return [str(value)] if value and value != "null" else []


def patterns(node: dict[str, Any]) -> list[str]:
    """The files of a node without notes; entries that are prose left out."""
    bare = [re.sub(r"\s+\(.*\)$", "", entry).rstrip("/") for entry in as_list(node.get("files"))]
    return [entry for entry in bare if " " not in entry]


def overlap(one: str, other: str) -> bool:
    """Whether some path lies under both patterns."""
    a, b = one.split("/"), other.split("/")

    @cache
    def meet(i: int, j: int) -> bool:
        if i == len(a) or j == len(b):
            short, rest, passed = (a, b[j:], b[: j + 1]) if i == len(a) else (b, a[i:], a[: i + 1])
            # Behind `**` a name with a suffix is a file, and nothing lies under a file.
            return set(rest) <= {"**"} or "**" not in passed or "." not in short[-1]
        if a[i] == "**":
            return meet(i + 1, j) or meet(i, j + 1)
        if b[j] == "**":
            return meet(i, j + 1) or meet(i + 1, j)
        return segments_meet(a[i], b[j]) and meet(i + 1, j + 1)

    return meet(0, 0)


def segments_meet(a: str, b: str) -> bool:
    """Whether some name matches both globs."""
    if not a or not b:
        return set(a + b) <= {"*"}
    if a[0] == "*":
        return segments_meet(a[1:], b) or segments_meet(a, b[1:])
    if b[0] == "*":
        return segments_meet(a, b[1:]) or segments_meet(a[1:], b)
    return (a[0] == b[0] or "?" in (a[0], b[0])) and segments_meet(a[1:], b[1:])


def test_the_oracle_of_overlaps_knows_what_covers_what() -> None:
    assert overlap("src/a.py", "src")
    assert overlap("web/src/**/*auth*", "web/src/oauth/x.ts")
    assert overlap("src/*.py", "src/a*")
    assert not overlap("src/*.py", "src/a.ts")
    assert not overlap("src/a.py", "src/a.pyc")
    assert not overlap("web/src/**/*auth*", "web/lib/auth.ts")
    assert overlap("web/src/**/*auth*", "web/src/pages")
    assert not overlap("web/src/**/*auth*", "web/src/pages/Account.tsx")
