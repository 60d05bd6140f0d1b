"""What scripts read: the JSON of each verb, and what `why`, `logs` and `conductor bus` answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.tools import Project, wait_for

WHEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
STATUSES = ["pending", "ready", "waiting", "running", "done", "failed", "blocked", "skipped", "cancelled"]
TASK_KEYS = {
    *("id", "name", "status", "attempts", "worker", "alive", "started_at", "ended_at", "exit", "error", "blocked_by"),
    *("waits_for", "progress_pct", "usage", "commit", "evidence"),
}
RUN_KEYS = {"id", "state", "epoch", "conductor", "durability", "started_at", "ended_at", "reason", "not_ingested"}


def check_shape(status: dict[str, Any]) -> None:
    """The keys of `status --json` as the documentation names them (more may be added)."""
    assert {"track", "project", "run", "counts", "tasks"} <= set(status)
    assert set(status["run"]) >= RUN_KEYS
    assert set(status["counts"]) == set(STATUSES)
    assert sum(status["counts"].values()) == len(status["tasks"])
    for task in status["tasks"]:
        assert set(task) >= TASK_KEYS
        assert task["status"] in STATUSES
        assert task["alive"] in (True, False, None)
        for key in ("started_at", "ended_at"):
            assert task[key] is None or WHEN.fullmatch(task[key])
        for wait in task["waits_for"]:
            assert set(wait) >= {"kind", "what", "holder", "until"}


def test_status_tells_the_whole_of_a_run(project: Project) -> None:
    project.config('retry_delay = "4h"\nretry_delay_max = "4h"\n')
    project.plan(
        [
            project.task("done"),
            project.task("runs", gated=True, files=["src/*"]),
            project.task("clash", files=["src/a.py"]),
            project.task("pending", after=["runs"]),
            project.shell("fails", "echo to stderr >&2; kill -9 $$", retries=0),
            project.task("blocked", after=["fails"]),
            project.task("far", after=["blocked"]),
            project.task("retries", "--exit", "2"),
        ]
    )
    empty = project.status()
    check_shape(empty)
    assert empty["run"]["state"] == "never_run"
    assert not project.bus.exists()

    run = project.start_run()
    project.wait_started("runs")
    project.wait_recorded("RETRY_SCHEDULED", "retries")
    project.wait_recorded("TASK_BLOCKED", "far")
    project.wait_recorded("TASK_COMPLETE", "done")
    status = project.status()
    check_shape(status)
    assert status["track"] == str(project.track)
    assert status["project"] == str(project.dir)
    assert status["run"]["state"] == "running"
    assert status["run"]["durability"] == "power"
    assert status["run"]["ended_at"] is None
    tasks = {task["id"]: task for task in status["tasks"]}
    assert {id: task["status"] for id, task in tasks.items()} == {
        "done": "done",
        "runs": "running",
        "clash": "waiting",
        "pending": "pending",
        "fails": "failed",
        "blocked": "blocked",
        "far": "blocked",
        "retries": "waiting",
    }
    assert tasks["runs"]["alive"] is True
    assert re.fullmatch(r"runs~1-[0-9a-f]{8}", tasks["runs"]["worker"])
    assert [(w["kind"], w["what"], w["holder"]) for w in tasks["clash"]["waits_for"]] == [
        ("conflict", "src/a.py", "runs")
    ]
    (backoff,) = tasks["retries"]["waits_for"]
    assert backoff["kind"] == "backoff"
    assert WHEN.fullmatch(backoff["until"])
    assert tasks["done"]["exit"] == {"code": 0, "signal": None}
    assert tasks["done"]["error"] is None
    assert tasks["fails"]["exit"] == {"code": None, "signal": 9}
    assert tasks["fails"]["error"]["class"] == "signal"
    assert tasks["far"]["blocked_by"] == ["fails"]
    check_why(project, "runs", "runs~1-")
    check_why(project, "clash", "src/a.py")
    check_why(project, "pending", "runs")
    check_why(project, "fails", "to stderr")
    check_why(project, "far", "fails")
    check_why(project, "done", "done")
    check_why(project, "retries", "exit")
    assert isinstance(project.call("why", str(project.track), "far", "--json").expect(0).data, dict)
    project.call("stop", str(project.track)).expect(0)
    run.finish().expect(130)


def check_why(project: Project, task: str, says: str) -> None:
    """`why` says it."""
    assert says in project.call("why", str(project.track), task).expect(0).out


def test_run_prints_its_lines_and_its_result_and_nothing_else(project: Project) -> None:
    project.plan([project.shell("a", "echo loud; echo louder >&2"), project.shell("b", "exit 4", retries=0)])
    finished = project.run("--json").expect(1)
    lines = finished.lines
    assert lines[0]["type"] == "RUN_STARTED"
    assert lines[-1]["type"] == "RUN_RESULT"
    assert set(lines[-1]) >= {"type", "exit_code", "counts", "tasks"}
    assert lines[-1]["exit_code"] == 1
    assert lines[-1]["counts"] == {**dict.fromkeys(STATUSES, 0), "done": 1, "failed": 1}
    assert [task["id"] for task in lines[-1]["tasks"]] == ["a", "b"]
    assert lines[:-1] == project.records()
    again = project.run("--json").expect(1).lines
    assert again[0]["type"] == "RUN_STARTED"
    assert again[0]["seq"] == lines[-2]["seq"] + 1


def test_a_run_with_nothing_to_do_still_prints_its_result(project: Project) -> None:
    project.plan([project.task("a")])
    project.run().expect(0)
    last = project.run("--json").expect(0).lines[-1]
    assert (last["type"], last["exit_code"]) == ("RUN_RESULT", 0)
    assert last["counts"]["done"] == 1


def test_a_dry_run_starts_nothing(project: Project) -> None:
    project.plan([project.task("a")])
    project.run("--dry-run").expect(0)
    assert project.starts() == []
    assert project.status()["run"]["state"] == "never_run"


def test_events_are_the_journal(project: Project) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"])])
    project.run().expect(0)
    track = str(project.track)
    everything = project.call("events", track, "--json").expect(0).lines
    assert everything == project.records()
    some = project.call("events", track, "--json", "--type", "TASK_COMPLETE").expect(0).lines
    assert [record["task"] for record in some] == ["a", "b"]
    of_b = project.call("events", track, "--json", "--task", "b").expect(0).lines
    assert of_b
    assert {record["task"] for record in of_b} == {"b"}
    seq = of_b[0]["seq"]
    assert project.call("events", track, "--json", "--since", str(seq)).expect(0).lines == project.records()[seq:]
    assert "TASK_COMPLETE" in project.call("events", track).expect(0).out


def test_events_can_be_followed(project: Project) -> None:
    project.plan([project.task("a", gated=True)])
    run = project.start_run()
    project.wait_started("a")
    follower = project.start("events", str(project.track), "--json", "-f")
    wait_for(lambda: "WORKER_DISPATCHED" in follower.out(), "the first events")
    project.open_gate("a")
    run.finish().expect(0)
    wait_for(lambda: "RUN_ENDED" in follower.out(), "the last event")
    follower.process.kill()


def test_plan_shows_waves_path_conflicts_and_warnings(project: Project) -> None:
    project.plan(
        [
            project.task("a", files=["x.py"], estimated_duration="10m"),
            project.task("b", files=["x.py"], estimated_duration=5),
            project.task("c", after=["a"], files=["x.py"], depend_on=["a"]),
        ],
        groups=[{"id": "g", "tasks": ["a", "b"], "conflict_free": True}],
        prose="- [x] Task a: one\n",
    )
    track = str(project.track)
    data = project.call("plan", track, "--json").expect(0).data
    assert {"tasks", "waves", "critical_path", "conflicts", "warnings", "limits"} <= set(data)
    assert data["waves"] == [["a", "b"], ["c"]]
    assert data["critical_path"] == ["a", "c"]
    assert [sorted(pair["tasks"]) for pair in data["conflicts"]] == [["a", "b"], ["b", "c"]]
    assert {pair["on"] for pair in data["conflicts"]} == {"x.py"}
    for warning in data["warnings"]:
        assert set(warning) >= {"code", "message", "line"}
    codes = {warning["code"] for warning in data["warnings"]}
    assert "tasks_ticked" in codes
    assert any("depends_on" in warning["message"] for warning in data["warnings"])
    assert any("x.py" in warning["message"] for warning in data["warnings"])
    assert [task["id"] for task in data["tasks"]] == ["a", "b", "c"]
    assert project.call("plan", track, "--format", "json").expect(0).data == data
    table = project.call("plan", track, "--format", "table").expect(0).out
    assert "x.py" in table
    mermaid = project.call("plan", track, "--format", "mermaid").expect(0).out
    assert mermaid.splitlines()[0].split()[0] in ("flowchart", "graph")
    assert "-->" in mermaid
    dot = project.call("plan", track, "--format", "dot").expect(0).out
    assert dot.startswith(("digraph", "strict digraph"))
    assert dot.rstrip().endswith("}")
    assert not project.bus.exists()


def test_a_plan_in_another_place_is_read(project: Project) -> None:
    (project.track / "plan.md").write_text(
        "---\ndag:\n  nodes:\n    - {id: a, name: x}\n---\n# Plan\n", encoding="utf-8"
    )
    assert project.call("plan", str(project.track), "--json").expect(0).data["waves"] == [["a"]]
    (project.track / "plan.md").write_bytes(b"\xef\xbb\xbf# Plan\r\n```yml\r\ndag:\r\n  nodes:\r\n  - id: b\r\n```")
    assert project.call("plan", str(project.track), "--json").expect(0).data["waves"] == [["b"]]
    (project.track / "plan.md").unlink()
    (project.track / "dag.json").write_text('{"dag": {"nodes": [{"id": "c", "name": "x"}]}}')
    assert project.call("plan", str(project.track), "--json").expect(0).data["waves"] == [["c"]]


def test_logs_print_the_right_attempt(project: Project) -> None:
    project.config('retry_delay = "0.01s"\n')
    script = (
        "echo out $CONDUCTOR_ATTEMPT_NUMBER; echo err $CONDUCTOR_ATTEMPT_NUMBER >&2; [ $CONDUCTOR_ATTEMPT_NUMBER = 2 ]"
    )
    project.plan([project.shell("a", script), project.shell("quiet", "true")])
    project.run().expect(0)

    def logs(*options: str, task: str = "a") -> str:
        return project.call("logs", str(project.track), task, *options).expect(0).out

    assert logs() == "out 2\n"
    assert logs("--attempt", "1") == "out 1\n"
    assert logs("--stderr") == "err 2\n"
    assert logs("--stderr", "--attempt", "1") == "err 1\n"
    assert logs(task="quiet") == ""
    project.call("logs", str(project.track), "a", "--attempt", "9").expect(2)
    assert isinstance(project.call("logs", str(project.track), "a", "--json").expect(0).data, dict)


def test_workers_talk_by_conductor_bus(project: Project) -> None:
    wait = f'until [ -e "{project.gates}/go" ]; do sleep 0.02; done'
    script = f"""set -e
conductor bus progress 10 begun
conductor bus progress 40 "half way"
conductor bus post REVIEW_NOTE '{{"text": "ü", "n": 1}}'
{wait}
conductor bus read --json --type REVIEW_NOTE >read.json
conductor bus complete --commit 0123456789abcdef --file a.py --file b.py
"""
    project.plan(
        [
            project.shell("a", script),
            project.shell("b", 'conductor bus fail "it does not compile"', retries=0),
            project.shell("c", "conductor bus complete; exit 3", retries=0),
            project.shell("d", 'conductor bus fail "first"; conductor bus complete'),
        ]
    )
    run = project.start_run()
    project.wait_recorded("REVIEW_NOTE")
    (progress,) = [task["progress_pct"] for task in project.status()["tasks"] if task["id"] == "a"]
    assert progress == 40
    project.open_gate("go")
    run.finish().expect(1)
    tasks = {task["id"]: task for task in project.status()["tasks"]}
    assert {id: task["status"] for id, task in tasks.items()} == {
        "a": "done",
        "b": "failed",
        "c": "failed",
        "d": "done",
    }
    assert tasks["b"]["error"]["class"] == "reported"
    assert "it does not compile" in tasks["b"]["error"]["message"]
    assert tasks["c"]["error"]["class"] == "exit"
    assert tasks["a"]["commit"] == "0123456789abcdef"
    (complete,) = project.recorded("TASK_COMPLETE", "a")
    assert complete["payload"]["commit_sha"] == "0123456789abcdef"
    assert complete["payload"]["files_modified"] == ["a.py", "b.py"]
    assert [record["payload"]["pct"] for record in project.recorded("PROGRESS", "a")] == [10, 40]
    read = [json.loads(line) for line in (project.dir / "read.json").read_text().splitlines()]
    assert [(record["type"], record["payload"]) for record in read] == [("REVIEW_NOTE", {"text": "ü", "n": 1})]
    assert project.recorded("REVIEW_NOTE")[0]["source"].startswith("worker:a~1-")


@pytest.mark.parametrize(
    "words", [("progress", "1"), ("complete",), ("fail", "x"), ("post", "A", "{}"), ("read", "--json")], ids=" ".join
)
def test_the_words_of_workers_mean_nothing_outside_of_one(project: Project, words: tuple[str, ...]) -> None:
    finished = project.call("bus", *words).expect(2)
    assert "worker" in finished.err + finished.out


def test_wrong_words_of_a_worker_are_refused_one_by_one(project: Project) -> None:
    wrong = [
        "progress 101",
        "progress x",
        "post lower '{}'",
        "post A '[1]'",
        "post A '{\"a\": NaN}'",
        "post TASK_COMPLETE '{}'",
        "post RESULT '{}'",
        "nonsense",
    ]
    script = "\n".join(f"conductor bus {words}; echo $?" for words in wrong)
    project.plan([project.shell("a", script)])
    project.run().expect(0)
    assert project.printed("a").split() == ["2"] * len(wrong)
    assert "Traceback" not in project.printed("a", "log.err")
    assert [record["type"] for record in project.records() if record["source"].startswith("worker:")] == ["RESULT"]


def test_a_worker_may_look_but_not_run_or_steer_its_own_track(project: Project) -> None:
    other = project.root / "other"
    other.mkdir()
    (other / "plan.md").write_text("```yaml\ndag:\n  nodes:\n    - {id: o, name: o, run: ['true']}\n```\n")
    script = f"""conductor run "$CONDUCTOR_TRACK_DIR" --json >run.json; echo $?
conductor stop "$CONDUCTOR_TRACK_DIR" --json >stop.json; echo $?
conductor status "$CONDUCTOR_TRACK_DIR" --json >status.json; echo $?
conductor run "{other}" >/dev/null; echo $?
"""
    project.plan([project.shell("a", script)])
    project.run().expect(0)
    assert project.printed("a").split() == ["2", "2", "0", "0"]
    for name in ("run.json", "stop.json"):
        assert error_of(project.dir / name)["code"] == "from_worker"
    assert json.loads((project.dir / "status.json").read_text())["tasks"][0]["status"] == "running"
    assert (other / ".message-bus" / "events" / "TASK_COMPLETE_o.event").exists()
    assert not project.recorded("CONTROL")


def error_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])["error"]
    return found


def test_init_makes_a_track_that_can_be_planned_and_run(project: Project) -> None:
    fresh = project.dir / "fresh"
    project.call("init", str(fresh)).expect(0)
    assert (fresh / "plan.md").exists()
    project.call("plan", str(fresh)).expect(0)
    project.call("run", str(fresh), "--command", "true").expect(0)
    before = (fresh / "plan.md").read_bytes()
    project.call("init", str(fresh))
    assert (fresh / "plan.md").read_bytes() == before
