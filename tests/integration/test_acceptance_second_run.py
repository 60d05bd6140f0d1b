"""A second `run`: after a crash, after an end, and beside a living one."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from tests.integration.tools import Project, Running, kill, wait_for

WATCH = pytest.mark.parametrize("watch", [(), ("--no-watch",)], ids=["watch", "no-watch"])


def crash(project: Project, *options: str) -> Running:
    """Kill a conductor whose `a` is done and whose `b` runs."""
    project.plan([project.task("a"), project.task("b", after=["a"], gated=True), project.task("c", after=["b"])])
    run = project.start_run(*options)
    project.wait_started("b")
    run.send(signal.SIGKILL)
    run.finish()
    return run


def once_each(project: Project, *tasks: str) -> None:
    assert sorted(project.starts()) == sorted(tasks)
    assert sorted(record["task"] for record in project.recorded("TASK_COMPLETE")) == sorted(tasks)


@WATCH
def test_after_a_crash_the_same_plan_goes_on_and_a_living_worker_is_adopted(
    project: Project, watch: tuple[str, ...]
) -> None:
    crash(project, *watch)
    status = project.status()
    assert status["run"]["state"] == "interrupted"
    assert status["run"]["conductor"] is None
    assert [task["alive"] for task in status["tasks"]][1] is True
    seq = project.records()[-1]["seq"]
    project.plan([project.task("d")])

    again = project.start_run("--json", *watch)
    project.wait_recorded("ATTEMPT_ADOPTED", "b")
    project.open_gate("b")
    lines = again.finish().expect(0).lines
    assert lines[0]["type"] == "RUN_RESUMED"
    assert lines[0]["payload"]["from_seq"] == seq
    assert {line["epoch"] for line in lines[:-1]} == {2}
    once_each(project, "a", "b", "c")
    assert project.status()["run"]["epoch"] == 2

    project.run(*watch).expect(0)
    assert project.statuses() == {"d": "done"}
    once_each(project, "a", "b", "c", "d")


def test_a_worker_that_ended_while_no_conductor_lived_is_not_run_again(project: Project) -> None:
    crash(project)
    project.open_gate("b")
    wait_for(lambda: not project.processes(), "the end of the worker")
    assert project.status()["run"]["not_ingested"] >= 1
    project.run().expect(0)
    once_each(project, "a", "b", "c")


def test_a_worker_that_was_killed_while_no_conductor_lived_is_lost_and_retried(project: Project) -> None:
    project.config('retry_delay = "0.01s"\n')
    crash(project)
    for proc in project.bus.glob("attempts/*/b~*/proc.json"):
        kill(json.loads(proc.read_text().splitlines()[0])["pid"])
    project.open_gate("b")
    project.run().expect(0)
    assert project.statuses() == {"a": "done", "b": "done", "c": "done"}
    ends = [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED", "b")]
    assert ends == ["lost", None]
    assert [record["task"] for record in project.recorded("TASK_COMPLETE")] == ["a", "b", "c"]


def test_flags_of_the_resuming_command_line_count_for_later_launches(project: Project) -> None:
    parts = [project.task(f"p{number}", "--linger", "0.05", after=["b"]) for number in range(4)]
    project.plan([project.task("b", gated=True), *parts])
    run = project.start_run()
    project.wait_started("b")
    run.send(signal.SIGKILL)
    run.finish()
    project.open_gate("b")
    project.run("--max-workers", "1").expect(0)
    happened = [note["what"] for note in project.notes()]
    assert happened == ["start", "end"] * 5


def test_after_the_end_a_changed_plan_is_a_new_round_and_done_stays_done(project: Project) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"])])
    project.run().expect(0)
    changed = {**project.task("b", after=["a"]), "name": "Another name"}
    project.plan([project.task("a"), changed, project.task("c", after=["b"])])
    second = project.run().expect(0)
    assert "c" in second.out
    assert project.statuses() == {"a": "done", "b": "done", "c": "done"}
    once_each(project, "a", "b", "c")
    started = project.recorded("RUN_STARTED")
    assert len(started) == 2
    assert len({record["payload"]["run"] for record in started}) == 2
    assert len({record["payload"]["plan_sha"] for record in started}) == 2

    before = len(project.records())
    third = project.run().expect(0)
    assert "nothing to do" in (third.out + third.err).lower()
    assert not [record for record in project.records()[before:] if record["type"] == "WORKER_DISPATCHED"]


def test_a_changed_plan_is_not_applied_while_the_run_lasts(project: Project) -> None:
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    run = project.start_run()
    project.wait_started("a")
    project.plan([project.task("a", gated=True), project.task("z")])
    project.open_gate("a")
    run.finish().expect(0)
    assert project.starts() == ["a", "b"]


def test_failed_tasks_are_tried_again_with_fresh_budgets(project: Project) -> None:
    project.config('retry_delay = "0.01s"\n')
    project.plan([project.task("a", "--exit", "3", retries=1), project.task("b", after=["a"]), project.task("c")])
    for rounds in (1, 2):
        project.run().expect(1)
        assert project.starts().count("a") == 2 * rounds
        assert project.statuses() == {"a": "failed", "b": "blocked", "c": "done"}
        assert project.status()["tasks"][0]["exit"] == {"code": 3, "signal": None}
    assert project.starts().count("c") == 1
    project.plan([project.task("a"), project.task("b", after=["a"]), project.task("c")])
    project.run().expect(0)
    assert project.starts().count("a") == 5
    assert project.starts().count("c") == 1


def test_a_second_conductor_is_refused_and_the_first_is_named(project: Project) -> None:
    project.plan([project.task("a", gated=True)])
    run = project.start_run()
    project.wait_started("a")
    seq = project.records()[-1]["seq"]
    error = project.run("--json").expect(4).error
    assert error["code"] == "held_by_other"
    assert str(run.pid) in error["message"]
    assert socket.gethostname() in error["message"]
    second = project.run().expect(4)
    assert str(run.pid) in second.err
    assert project.records()[-1]["seq"] == seq
    status = project.status()
    assert status["run"]["state"] == "running"
    assert status["run"]["conductor"] == {"pid": run.pid, "host": socket.gethostname()}
    project.open_gate("a")
    run.finish().expect(0)


def test_of_two_started_at_once_one_runs(project: Project) -> None:
    project.plan([project.task("a", gated=True)])
    first, second = project.start_run(), project.start_run()
    loser = wait_for(
        lambda: next((run for run in (first, second) if run.process.poll() is not None), None), "a refusal"
    )
    loser.finish().expect(4)
    project.open_gate("a")
    (winner,) = {first, second} - {loser}
    winner.finish().expect(0)
    once_each(project, "a")


def test_a_conductor_whose_bus_is_taken_away_stops(project: Project) -> None:
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    run = project.start_run("--json")
    project.wait_started("a")
    project.bus.rename(project.root / "taken")
    project.open_gate("a")
    finished = run.finish().expect(5)
    assert finished.error["code"] in ("bus_gone", "bus_unsafe")
    wait_for(lambda: not project.processes(), "the end of the worker")
    assert project.starts() == ["a"]


def test_the_next_task_starts_though_the_process_that_starts_workers_was_killed(project: Project) -> None:
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    run = project.start_run()
    project.wait_started("a")
    (warm,) = [pid for pid, line in project.processes().items() if parent(pid) == run.pid and "warm-process" in line]
    kill(warm)
    project.open_gate("a")
    run.finish().expect(0)
    once_each(project, "a", "b")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def test_a_torn_last_line_is_cut_off_and_nothing_is_done_twice(project: Project) -> None:
    crash(project)
    with (project.bus / "queue.jsonl").open("ab") as journal:
        journal.write(b'{"seq":9999,"epoch":1,"t":{"wall":1')
    project.open_gate("b")
    project.run().expect(0)
    once_each(project, "a", "b", "c")
    assert [path for path in (project.bus / "quarantine").iterdir() if not path.name.endswith(".why")]


def test_a_wrong_line_before_the_end_stops_the_start_with_its_number(project: Project) -> None:
    project.plan([project.task("a")])
    project.run().expect(0)
    journal = project.bus / "queue.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"', b"'", 1)
    journal.write_bytes(b"".join(lines))
    error = project.run("--json").expect(5).error
    assert error["code"] == "bus_corrupt"
    assert "2" in error["message"] or error["line"] == 2
