"""The bus as people and older tools see it with `ls`, `cat` and `jq`, during a run and after it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.integration.tools import Project, wait_for

KEYS = {"id", "type", "source", "timestamp", "payload", "seq", "epoch", "crc", "t", "task", "attempt"}
ATTEMPT = re.compile(r"[0-9a-zA-Z%._-]+~[0-9]+-[0-9a-f]{8}\Z")
WATCH = pytest.mark.parametrize("watch", [(), ("--no-watch",)], ids=["watch", "no-watch"])


def names(folder: Path, pattern: str = "*") -> list[str]:
    return sorted(path.name for path in folder.glob(pattern)) if folder.exists() else []


def gated_plan(project: Project) -> None:
    project.config('retry_delay = "0.01s"\nheartbeat = "0.05s"\n')
    project.plan(
        [
            project.task("1.1"),
            project.task("1.2", gated=True),
            project.task("a/b", after=["1.2"]),
            project.task("2.1", "--exit", "7", retries=1),
            project.task("2.2", after=["2.1"]),
        ]
    )


@WATCH
def test_the_bus_during_a_run_and_after_it(project: Project, watch: tuple[str, ...]) -> None:
    gated_plan(project)
    run = project.start_run(*watch)
    project.wait_started("1.2")
    project.wait_recorded("TASK_BLOCKED", "2.2")
    check_during(project)
    project.open_gate("1.2")
    run.finish().expect(1)
    check_journal(project.bus)
    check_events(project)
    check_attempts(project)
    check_clean(project)


def check_during(project: Project) -> None:
    """While a worker runs: its folder, its beat, the views in the older shape."""
    bus = project.bus
    assert stat.S_IMODE(bus.stat().st_mode) == 0o700
    assert (bus / ".gitignore").read_text().strip() == "*"
    form = json.loads((bus / "FORMAT").read_text())
    assert form["major"] == 1
    assert re.fullmatch(r"[0-9a-f-]{32,36}", form["bus"])
    assert names(bus / "epochs") == ["00000001"]
    holder = json.loads((bus / "conductor.json").read_text())
    assert holder["pid"] == project.started[-1].pid
    (attempt,) = bus.glob("attempts/*/1.2~1-*")
    assert ATTEMPT.match(attempt.name)
    wait_for(lambda: {"live", "proc.json"} <= set(names(attempt)), "the worker's claim")
    assert not (attempt / "exit.json").exists()
    wait_for(lambda: attempt.name in names(bus / "heartbeats"), "a beat")
    views = wait_for(lambda: view(bus / "worker-status.json", attempt.name), "the view of the workers")
    assert {"task_id", "status", "progress_pct", "last_heartbeat"} <= set(views)
    assert (views["task_id"], views["status"]) == ("1.2", "RUNNING")
    assert json.loads((bus / "locks.json").read_text()) == {}
    assert json.loads((bus / "queue.jsonl").read_text().splitlines()[0])["type"] == "RUN_STARTED"


def view(path: Path, key: str) -> dict[str, Any] | None:
    """One entry of a view, when it is there."""
    found: dict[str, Any] | None = json.loads(path.read_text()).get(key) if path.exists() else None
    return found


def check_journal(bus: Path) -> None:
    """Each line is whole, checked, in order, and has the older keys."""
    raw = (bus / "queue.jsonl").read_bytes()
    assert raw.endswith(b"\n")
    for number, line in enumerate(raw.splitlines(), 1):
        record = json.loads(line)
        assert set(record) == KEYS
        assert record["seq"] == number
        assert record["epoch"] == 1
        assert set(record["t"]) >= {"wall", "mono", "boot"}
        assert re.fullmatch(r"[0-9a-f]{32}", record["id"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", record["timestamp"])
        assert len(line) < 4096
        head = line[: line.rindex(b',"crc"')]
        assert record["crc"] == f"{zlib.crc32(head):08x}"
        assert record["source"] == "conductor" or record["source"].startswith(("worker:", "operator:", "signal:"))


def check_events(project: Project) -> None:
    """Final words stand once in the journal and once as a file with their seq."""
    events = project.bus / "events"
    expected = {
        "TASK_COMPLETE_1.1.event": "TASK_COMPLETE",
        "TASK_COMPLETE_1.2.event": "TASK_COMPLETE",
        "TASK_COMPLETE_a%2Fb.event": "TASK_COMPLETE",
        "TASK_FAILED_2.1.event": "TASK_FAILED",
        "TASK_BLOCKED_2.2.event": "TASK_BLOCKED",
    }
    assert names(events, "TASK_*.event") == sorted(expected)
    for name, type in expected.items():
        seq = json.loads((events / name).read_text().splitlines()[0])["seq"]
        (record,) = [record for record in project.records(type) if record["seq"] == seq]
        assert project.recorded(type, record["task"]) == [record]
        assert record["payload"]["task_id"] == record["task"]
    (complete,) = project.recorded("TASK_COMPLETE", "1.2")
    assert {"task_id", "commit_sha", "files_modified", "unblocks"} <= set(complete["payload"])
    assert complete["payload"]["unblocks"] == ["a/b"]
    (failed,) = project.recorded("TASK_FAILED")
    assert failed["payload"]["error"]
    (blocked,) = project.recorded("TASK_BLOCKED")
    assert blocked["payload"]["blocked_by"] == ["2.1"]
    assert blocked["payload"]["reason"]
    assert "DEP_READY_a%2Fb.event" in names(events, "DEP_READY_*.event")


def check_attempts(project: Project) -> None:
    """Every attempt has its result; the hash of the frozen plan is its name."""
    bus = project.bus
    ends = project.recorded("ATTEMPT_ENDED")
    folders = {path.name: path for path in bus.glob("attempts/*/*")}
    assert sorted(folders) == sorted(end["attempt"] for end in ends)
    assert sorted(end["task"] for end in ends) == ["1.1", "1.2", "2.1", "2.1", "a/b"]
    for end in ends:
        exit = json.loads((folders[end["attempt"]] / "exit.json").read_text())
        assert exit["started"] is True
        assert exit["ended_by"] == "self"
        assert exit["tree_empty"] is True
        assert exit["command"] == {"code": 7 if end["task"] == "2.1" else 0, "signal": None}
        (result,) = [record for record in project.recorded("RESULT") if record["attempt"] == end["attempt"]]
        assert result["payload"] == exit
        assert folders[end["attempt"]].parent.name == end["attempt"].rpartition("-")[2][0]
    plans = names(bus / "plan")
    assert plans == [f"{project.recorded('RUN_STARTED')[0]['payload']['plan_sha']}.json"]
    assert hashlib.sha256((bus / "plan" / plans[0]).read_bytes()).hexdigest() + ".json" == plans[0]
    json.loads((bus / "plan" / plans[0]).read_bytes())


def check_clean(project: Project) -> None:
    """Nothing that only mattered during the run is left."""
    for folder in ("inbox", "control", "tmp", "heartbeats", "worker-status", "quarantine"):
        assert names(project.bus / folder) == [], folder
    for path in project.bus.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert not mode & 0o077, f"{path} has mode {mode:o}"
        assert not path.is_symlink()
    for number in range(2):
        assert not list(project.bus.glob(f"attempts/*/*/log{'.err' * number}")), "a log that nobody wrote to"


def test_the_older_recipes_find_one_line_and_one_file_per_task(project: Project) -> None:
    tasks = [f"t{number}" for number in range(6)]
    project.plan([project.task(task, after=tasks[max(at - 2, 0) : at]) for at, task in enumerate(tasks)])
    project.run("--durability", "process").expect(0)
    assert sorted(select(project.bus / "queue.jsonl", "TASK_COMPLETE")) == tasks
    for task in tasks:
        assert (project.bus / "events" / f"TASK_COMPLETE_{task}.event").is_file()


def select(journal: Path, type: str) -> list[str]:
    """The tasks of a type, by `jq` where it is installed, else by the same in Python."""
    if shutil.which("jq"):
        recipe = ["jq", "-r", f'select(.type=="{type}") | .payload.task_id', str(journal)]
    else:
        code = (
            "import json, sys\n"
            "for line in open(sys.argv[2]):\n"
            "    record = json.loads(line)\n"
            "    if record['type'] == sys.argv[1]: print(record['payload']['task_id'])"
        )
        recipe = [sys.executable, "-c", code, type, str(journal)]
    return subprocess.run(recipe, capture_output=True, text=True, check=True).stdout.split()


def test_a_bus_in_another_place(project: Project) -> None:
    project.plan([project.task("a")])
    place = project.root / "elsewhere"
    project.run("--bus-dir", str(place)).expect(0)
    assert not project.bus.exists()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert (place / "events" / "TASK_COMPLETE_a.event").exists()
    found = project.call("status", str(project.track), "--bus-dir", str(place), "--json").expect(0).data
    assert found["counts"]["done"] == 1
    assert project.call("status", str(project.track), "--json").expect(0).data["run"]["state"] == "never_run"


def test_a_bus_of_an_older_kind_is_moved_aside_and_trusted_for_nothing(project: Project) -> None:
    project.plan([project.task("a")])
    (project.bus / "events").mkdir(parents=True)
    (project.bus / "queue.jsonl").write_text('{"id": "1", "type": "TASK_COMPLETE", "payload": {"task_id": "a"}}\n')
    (project.bus / "events" / "TASK_COMPLETE_a.event").write_text("")
    done = project.run().expect(0)
    assert project.starts() == ["a"]
    assert "legacy" in done.out + done.err
    (moved,) = project.track.rglob("legacy-*")
    assert (moved / "queue.jsonl").exists()


def test_what_does_not_parse_is_kept_with_its_reason(project: Project) -> None:
    project.plan([project.task("a", gated=True)])
    run = project.start_run()
    project.wait_started("a")
    (attempt,) = project.bus.glob("attempts/*/a~*")
    body = b'{"id":"' + b"0" * 32 + b'"}\nsha256:' + b"0" * 64 + b"\n"
    scratch = project.bus / "tmp" / f"{attempt.name}.x"
    scratch.write_bytes(body)
    scratch.rename(project.bus / "inbox" / f"{attempt.name}.{'0' * 16}.msg")
    wait_for(lambda: names(project.bus / "quarantine", "*.why"), "quarantine")
    project.open_gate("a")
    run.finish().expect(0)
    (why,) = (project.bus / "quarantine").glob("*.why")
    assert why.read_text().strip()
    assert why.with_name(why.name.removesuffix(".why")).read_bytes() == body
    assert len(project.recorded("QUARANTINED")) == 1


def test_what_strangers_put_there_changes_no_state(project: Project) -> None:
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    run = project.start_run()
    project.wait_started("a")
    (project.bus / "events" / "TASK_COMPLETE_a.event").write_bytes(b"")
    (project.bus / "worker-status.json").write_text("nonsense")
    (project.bus / "locks.json").write_text("nonsense")
    (project.bus / "attempts" / "stray").write_text("x")
    (project.bus / "inbox" / "README").write_text("x")
    assert project.statuses() == {"a": "running", "b": "pending"}
    project.open_gate("a")
    run.finish().expect(0)
    assert project.starts() == ["a", "b"]
    assert json.loads((project.bus / "events" / "TASK_COMPLETE_a.event").read_text().splitlines()[0])["seq"]
