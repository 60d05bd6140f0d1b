from __future__ import annotations

import json
from pathlib import Path

import pytest

from conductor.cli.main import run_command_line
from conductor.cli.plan_graphs import dot, mermaid
from conductor.core.conflicts import pairs
from conductor.plan import loads

PLAN = """# Plan

```yaml
dag:
  nodes:
    - {id: "1", run: make, name: "First", estimated_duration: 10m, files: [a.py]}
    - {id: "2", run: make, name: "Second", depends_on: ["1"], estimated_duration: 20m}
    - {id: "3", run: make, name: "Third", files: [a.py]}
    - {id: "4", run: make, name: "Last", depends_on: ["2", "3"], files: [b/*]}
```
"""


@pytest.fixture
def track(tmp_path: Path) -> Path:
    (tmp_path / "plan.md").write_text(PLAN)
    return tmp_path


def test_the_table(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", str(track)]) == 0
    assert capsys.readouterr().out == (
        "4 tasks in 3 waves, the widest of 2 tasks, from plan.md\n"
        "\n"
        "WAVE  TASK  TYPE  TIME  AFTER  NAME\n"
        "1     1 *   code  10m   -      First\n"
        "2     2 *   code  20m   1      Second\n"
        "1     3     code  ?     -      Third\n"
        "3     4 *   code  ?     2, 3   Last\n"
        "\n"
        "* critical path, 45m: 1 → 2 → 4\n"
        "Work in all 1h; with 5 workers at least 45m (2 tasks without an estimate taken for 15m each)\n"
        "Limits: 5 workers\n"
        "Worst case, each of 12 attempts at its limit: 4h 31m along the longest chain, 6h 2m of work in all\n"
        "\n"
        "Not run side by side, because of what both use:\n"
        "  1 and 3 on a.py\n"
        "\n"
        f"Run it: conductor run {track}\n"
    )


def test_a_plan_without_estimates_claims_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.md").write_text("```yaml\ndag:\n  nodes: [{id: a}, {id: b, depends_on: [a]}, {id: c}]\n```\n")
    assert run_command_line(["plan", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert "\n\n* critical path (no estimates): a → b\n" in page
    assert "at least" not in page
    assert run_command_line(["plan", str(tmp_path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["critical_path"] == ["a", "b"]
    assert data["durations"] is None
    assert {task["expected_seconds"] for task in data["tasks"]} == {None}


@pytest.mark.parametrize("arguments", [["--json"], ["--format", "json"]])
def test_json_has_the_documented_shape(track: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run_command_line(["plan", str(track), *arguments]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [task["id"] for task in data["tasks"]] == ["1", "2", "3", "4"]
    assert data["waves"] == [["1", "3"], ["2"], ["4"]]
    assert data["critical_path"] == ["1", "2", "4"]
    assert data["conflicts"] == [{"tasks": ["1", "3"], "on": "a.py"}]
    assert data["warnings"] == []
    assert set(data["limits"]) >= {
        "max_workers",
        "max_fan_out",
        "max_join_width",
        "max_tasks",
        "run_timeout",
        "budget_usd",
    }


@pytest.mark.parametrize(
    ("shape", "first", "arrow"), [("mermaid", "flowchart LR", "n0 --> n1"), ("dot", "digraph plan {", "n0 -> n1;")]
)
def test_pictures(track: Path, capsys: pytest.CaptureFixture[str], shape: str, first: str, arrow: str) -> None:
    assert run_command_line(["plan", str(track), "--format", shape]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == first
    assert arrow in lines


def test_req31_names_cannot_break_out_of_a_picture() -> None:
    evil = json.dumps('"] --> x["<img src=x onerror=alert(1)>;\\\n\u202e%%{init: {}}%% `#quot;')
    plan = loads(f'```yaml\ndag:\n  nodes:\n    - {{id: "a", name: {evil}}}\n```\n')
    picture = mermaid(plan, set(), pairs(plan))
    label = picture.splitlines()[1].removeprefix('  n0["').removesuffix('"]')
    assert not set(label) & set('"<>[]{}%`&\\\n\u202e')
    assert "onerror" in label
    body = dot(plan, set(), pairs(plan)).splitlines()[3]
    quoted = body.removeprefix('  n0 [label="').removesuffix('"];').replace("\\\\", "").replace('\\"', "")
    assert '"' not in quoted
    assert "\u202e" not in quoted


def test_a_plan_that_cannot_run_has_place_and_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.md").write_text(PLAN.replace('depends_on: ["1"]', 'depends_on: ["4"]'))
    assert run_command_line(["plan", str(tmp_path), "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "plan_cycle"
    assert error["path"]
    assert run_command_line(["plan", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith("error: ")


def test_a_broken_limit_is_an_error_as_in_a_run(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (track / "plan.md").write_text(PLAN.replace("dag:\n", "dag:\n  limits: {max_tasks: 3}\n"))
    assert run_command_line(["plan", str(track), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "task_count_exceeded"


def test_warnings_name_code_and_line(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (track / "plan.md").write_text(PLAN.replace('name: "Third"', 'name: "Third", depend_on: []'))
    assert run_command_line(["plan", str(track)]) == 0
    assert "warning: plan.md:8: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "make", [lambda path: None, lambda path: path.mkdir(), lambda path: (path.mkdir(), (path / "plan.md").touch())]
)
def test_missing_folder_and_empty_plan_are_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: object
) -> None:
    assert callable(make)
    make(tmp_path / "t")
    assert run_command_line(["plan", str(tmp_path / "t")]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("error: ") == 1
    assert "hint: " in captured.err


def test_the_page_of_a_large_plan_is_bounded_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "".join(
        f"    - {{id: t{n}, run: make, files: [a.py], depends_on: [{f't{n - 1}' if n % 2 else ''}]}}\n"
        for n in range(1200)
    )
    (tmp_path / "plan.md").write_text(f"```yaml\ndag:\n  nodes:\n{nodes}```\n")
    assert run_command_line(["plan", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert len(page.splitlines()) < 1050
    assert "… and 200 more tasks; --json lists all" in page
    assert "there may be more; a run keeps all tasks apart that write the same file [conflicts_cut_off]" in page
    assert run_command_line(["plan", str(tmp_path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (len(data["tasks"]), len(data["conflicts"])) == (1200, 10_000)
    assert [warning["code"] for warning in data["warnings"]] == ["conflicts_cut_off"]


def test_a_long_critical_path_is_shown_by_its_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "".join(f"    - {{id: t{n}, depends_on: [{f't{n - 1}' if n else ''}]}}\n" for n in range(100))
    (tmp_path / "plan.md").write_text(f"```yaml\ndag:\n  nodes:\n{nodes}```\n")
    assert run_command_line(["plan", str(tmp_path)]) == 0
    assert "→ t29 → … 40 more … → t70 →" in capsys.readouterr().out


SUPERVISED = """# Plan

```yaml
dag:
  limits: {run_timeout: 1h}
  nodes:
    - {id: "1", run: make, resources: [db], timeout: 50m}
    - {id: "2", agent: manual}
    - {id: "3", run: make, resources: [db], approve: after}
```
"""


def test_the_table_names_people_limits_and_what_nothing_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.md").write_text(SUPERVISED)
    assert run_command_line(["plan", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert "Limits: 5 workers, run_timeout 1h\nWorst case: nothing bounds the time of 2 tasks (2, 3)\n" in page
    assert "Waits for people: 2 (manual), 3 (after)\n" in page
    assert "  1 and 3 on db" in page
    assert "[run_timeout_short]" in page
    assert "no_worker" not in page


def test_what_there_are_several_of_is_no_conflict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.md").write_text(SUPERVISED)
    (tmp_path / "conductor.toml").write_text('parallel = "pure-read"\n[resources]\ndb = 2\n')
    assert run_command_line(["plan", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["conflicts"] == []


def test_a_dry_run_tells_of_people_and_of_too_little_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.md").write_text(SUPERVISED)
    assert run_command_line(["run", str(tmp_path), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "  2  2: (a person)\n" in said
    assert "note: the longest chain of tasks has no limit of its own, and after 1h (run_timeout) nothing more" in said
