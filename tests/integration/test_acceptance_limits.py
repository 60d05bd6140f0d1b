"""What bounds a run: limits before and during the work, what runs side by side, gates and tasks for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.integration.tools import Finished, Node, Project, Running, wait_for

QUICK = 'retry_delay = "0.001s"\nterminate_grace = "0.2s"\n'
FAST = ("--durability", "process")


def waits_of(project: Project, task: str) -> list[dict[str, Any]]:
    """What a task waits for, as `status --json` has it."""
    (found,) = [one for one in project.status()["tasks"] if one["id"] == task]
    return list(found["waits_for"])


def wait_waiting(project: Project, task: str, kind: str) -> dict[str, Any]:
    """Wait until a task waits for something of a kind; return what."""
    return wait_for(
        lambda: next((wait for wait in waits_of(project, task) if wait["kind"] == kind), None),
        f"{task} waiting for {kind}",
        patience=2.0,  # each look is a process
    )


def end_of(run: Running, code: int, project: Project, *, reason: str | None = None) -> Finished:
    """Wait for the end of a run, with a code and for a reason."""
    finished = run.finish().expect(code)
    if reason is not None:
        state = project.status()["run"]
        assert (state["state"], state["reason"]) == ("escalated", reason)
    return finished


# --- before any work ------------------------------------------------------------------------------------------------


def test_limits_of_the_configuration_are_checked_before_any_work(project: Project) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"]), project.task("c", after=["a", "b"])])
    project.config("max_tasks = 2\n")
    for verb in ("plan", "run"):
        error = project.call(verb, str(project.track), "--json").expect(3).error
        assert error["code"] == "task_count_exceeded"
    assert not project.bus.exists()
    project.config("max_tasks = 3\nmax_fan_out = 2\nmax_join_width = 2\n")
    limits = project.call("plan", str(project.track), "--json").expect(0).data["limits"]
    assert (limits["max_tasks"], limits["max_fan_out"], limits["max_join_width"]) == (3, 2, 2)


@pytest.mark.parametrize(
    ("nodes", "groups"),
    [
        ([{"id": "a", "effect": "pure_read", "files": ["x"]}], None),
        ([{"id": "a"}, {"id": "b", "effect": "pure_read"}], [{"id": "g", "tasks": ["a", "b"], "max_workers": 2}]),
    ],
    ids=["a reader that writes", "a group of writers"],
)
def test_what_contradicts_pure_reads_is_denied_before_any_work(
    project: Project, nodes: Sequence[Node], groups: Sequence[Node] | None
) -> None:
    project.plan([{**project.task(node["id"]), **node} for node in nodes], groups=groups)
    error = project.run("--parallel", "pure-read", "--json").expect(3).error
    assert (error["code"], error["path"]) == ("concurrent_effect_denied", "plan.md")
    assert error["line"] > 0
    assert error["hint"]
    assert not project.bus.exists()
    project.run(*FAST, "--parallel", "any").expect(0)


def test_the_worst_case_of_time_is_shown(project: Project) -> None:
    project.plan(
        [project.task("a", timeout="10m", retries=1), project.task("b", after=["a"], timeout="20m", retries=0)],
        limits={"run_timeout": "30m", "budget_usd": 2},
    )
    data = project.call("plan", str(project.track), "--json").expect(0).data
    assert data["worst_case"]["attempts"] == 3
    assert 40 * 60 <= data["worst_case"]["critical_path"] == data["worst_case"]["total"] <= 41 * 60
    assert data["worst_case"]["cost_usd"] == 2
    assert [warning["code"] for warning in data["warnings"]] == ["run_timeout_short"]
    page = project.call("plan", str(project.track)).expect(0).out
    assert "Limits: 5 workers, run_timeout 30m, budget 2 USD\nWorst case, each of 3 attempts at its limit: 40m" in page


# --- time and money -------------------------------------------------------------------------------------------------


def test_a_run_over_its_time_starts_nothing_more_and_lets_what_runs_end(project: Project) -> None:
    project.config(QUICK)
    project.plan([project.task("a", gated=True), project.task("b", after=["a"]), project.task("c", after=["b"])])
    run = project.start_run(*FAST, "--run-timeout", "0.2s")
    project.wait_recorded("TIMER_FIRED")
    project.open_gate("a")
    end_of(run, 6, project, reason="run_timeout")
    assert project.statuses() == {"a": "done", "b": "skipped", "c": "skipped"}
    assert project.starts() == ["a"]
    why = project.call("why", str(project.track), "b").expect(0).out
    assert "Skipped: the time for the whole run is up." in why
    project.run(*FAST).expect(0)
    assert project.starts() == ["a", "b", "c"]


def test_a_run_over_its_budget_starts_nothing_more(project: Project) -> None:
    tell = '"$CONDUCTOR_BIN" bus post USAGE \'{"cost_usd": 0.3}\''
    project.plan([project.shell("a", tell), project.shell("b", tell, after=["a"]), project.task("c", after=["b"])])
    run = project.run(*FAST, "--budget", "0.5")
    assert project.statuses() == {"a": "done", "b": "done", "c": "skipped"}
    run.expect(6)
    assert project.status()["run"]["reason"] == "budget_exceeded"
    project.run(*FAST).expect(0)


def test_a_group_over_its_time_is_ended_and_the_others_go_on(project: Project) -> None:
    project.config(QUICK)
    project.plan(
        [
            project.task("a", gated=True, retries=3),
            project.task("b", after=["a"]),
            project.task("late", after=["other"]),
            project.task("other", gated=True),
            project.task("last", after=["other"]),
        ],
        groups=[{"id": "g", "tasks": ["a", "b", "late"], "timeout": "0.2s"}],
    )
    run = project.start_run(*FAST)
    stopped = project.wait_recorded("ATTEMPT_ENDED", "a")
    assert stopped["payload"]["error_class"] == "timeout"
    project.open_gate("other")
    end_of(run, 1, project)
    statuses = project.statuses()
    assert statuses["late"] == "skipped"
    assert (statuses["other"], statuses["last"]) == ("done", "done")
    assert project.starts("b", "late") == []


# --- side by side ---------------------------------------------------------------------------------------------------


def test_only_pure_reads_run_side_by_side(project: Project) -> None:
    reads = ("r1", "r2", "r3")
    project.plan(
        [
            *(project.task(name, gated=True, effect="pure_read") for name in reads),
            project.task("w1", gated=True),
            project.task("w2", gated=True, effect="external"),
        ]
    )
    run = project.start_run(*FAST, "--parallel", "pure-read")
    project.wait_started(*reads)
    assert waits_of(project, "w1")
    assert sorted(project.starts()) == list(reads)
    project.open_gate("r1", "r2")
    wait_for(lambda: len(project.recorded("TASK_COMPLETE")) == 2, "the end of two reads")
    assert len(project.starts()) == 3
    project.open_gate("r3")
    project.wait_started("w1")
    assert waits_of(project, "w2")
    project.open_gate("w1", "w2")
    end_of(run, 0, project)
    whats = [(note["what"], note["task"]) for note in project.notes() if note["task"].startswith("w")]
    assert whats == [("start", "w1"), ("end", "w1"), ("start", "w2"), ("end", "w2")]


def test_a_resource_is_held_by_as_many_as_the_configuration_says(project: Project) -> None:
    project.config('[resources]\n"db:test" = 2\n')
    project.plan([project.task(name, gated=True, resources=["db:test"]) for name in "abc"] + [project.task("free")])
    run = project.start_run(*FAST)
    project.wait_started("a", "b", "free")
    assert wait_waiting(project, "c", "resource")["what"] == "db:test"
    assert project.starts("c") == []
    project.open_gate("b")
    project.wait_started("c")
    project.open_gate("a", "c")
    end_of(run, 0, project)


def test_groups_one_after_the_other(project: Project) -> None:
    project.plan(
        [project.task(name, gated=name == "b") for name in "abcd"] + [project.task("free")],
        groups=[{"id": "first", "tasks": ["c", "b"]}, {"id": "second", "tasks": ["a", "d"]}],
    )
    run = project.start_run(*FAST, "--schedule", "groups")
    project.wait_recorded("TASK_COMPLETE", "c")
    project.wait_recorded("TASK_COMPLETE", "free")
    wait_for(lambda: waits_of(project, "a") and waits_of(project, "d"), "the second group waiting", patience=2.0)
    assert sorted(project.starts()) == ["b", "c", "free"]
    project.open_gate("b")
    end_of(run, 0, project)
    assert set(project.starts()[3:]) == {"a", "d"}


def test_tasks_with_common_files_start_at_once_and_lock_them(project: Project) -> None:
    project.plan([project.task("a", gated=True, files=["src/x"]), project.task("b", gated=True, files=["src/*"])])
    run = project.start_run(*FAST, "--on-conflict", "lock")
    for task in "ab":
        project.wait_recorded("WORKER_DISPATCHED", task)
    wait_for(lambda: len(project.starts()) == 1, "the start of one of them")
    (first,) = project.starts()
    other = "b" if first == "a" else "a"
    assert wait_waiting(project, other, "lock")["holder"] == first
    assert project.starts() == [first]
    project.open_gate("a", "b")
    end_of(run, 0, project)
    assert [note["what"] for note in project.notes()] == ["start", "end"] * 2


def test_what_a_group_shares_is_locked_by_its_workers(project: Project) -> None:
    count = "n=$(cat n 2>/dev/null || echo 0); sleep 0.05; echo $((n + 1)) > n"
    project.plan(
        [project.shell(name, count) for name in "abc"],
        groups=[{"id": "g", "tasks": list("abc"), "shared_resources": ["n"], "coordination_strategy": "file_lock"}],
    )
    project.run(*FAST).expect(0)
    assert (project.dir / "n").read_text() == "3\n"
    assert {record["task"] for record in project.recorded("GRANT_SEEN")} | {
        record["task"] for record in project.recorded("FILE_LOCK")
    } == set("abc")


def test_what_a_group_shares_without_locks_is_used_by_one_at_a_time(project: Project) -> None:
    project.plan(
        [project.task(name, gated=True) for name in "ab"],
        groups=[{"id": "g", "tasks": ["a", "b"], "shared_resources": ["README.md"]}],
    )
    run = project.start_run(*FAST)
    project.wait_started("a")
    assert wait_waiting(project, "b", "resource")["what"] == "README.md"
    project.open_gate("a", "b")
    end_of(run, 0, project)


# --- people ---------------------------------------------------------------------------------------------------------


def test_a_gate_before_a_task_is_opened_by_a_person(project: Project) -> None:
    project.plan([project.task("a", approve="before"), project.task("b")])
    run = project.start_run(*FAST)
    project.wait_recorded("TASK_COMPLETE", "b")
    wait_waiting(project, "a", "approval")
    assert project.starts() == ["b"]
    project.call("approve", str(project.track), "a").expect(0)
    end_of(run, 0, project)
    assert project.starts() == ["b", "a"]


def test_a_gate_behind_a_task_holds_what_depends_on_it(project: Project) -> None:
    project.plan([project.task("a", approve="after"), project.task("b", after=["a"])])
    run = project.start_run(*FAST)
    wait_waiting(project, "a", "approval")
    assert project.starts() == ["a"]
    project.call("approve", str(project.track), "a").expect(0)
    end_of(run, 0, project)
    assert project.starts() == ["a", "b"]


def test_what_a_person_rejects_has_failed_without_a_retry(project: Project) -> None:
    project.plan([project.task("a", approve="after"), project.task("b", after=["a"])])
    run = project.start_run(*FAST)
    wait_waiting(project, "a", "approval")
    project.call("reject", str(project.track), "a", "-m", "not like this").expect(0)
    end_of(run, 1, project)
    assert project.statuses() == {"a": "failed", "b": "blocked"}
    error = project.status()["tasks"][0]["error"]
    assert error["class"] == "rejected"
    assert "not like this" in error["message"]
    assert project.starts() == ["a"]


@pytest.mark.parametrize("how", ["verb", "claim"])
def test_a_task_for_a_person_takes_no_slot_and_is_completed_by_one(project: Project, how: str) -> None:
    project.plan([{"id": "a", "name": "Look", "agent": "manual"}, project.task("b"), project.task("c", after=["a"])])
    run = project.start_run(*FAST, "--max-workers", "1")
    project.wait_recorded("TASK_COMPLETE", "b")
    wait_waiting(project, "a", "manual")
    if how == "verb":
        project.call("complete", str(project.track), "a").expect(0)
    else:
        (project.bus / "events" / "TASK_COMPLETE_a.event").touch()
    end_of(run, 0, project)
    assert project.starts() == ["b", "c"]


@pytest.mark.parametrize("keys", [{"approve": "before"}, {"agent": "manual"}], ids=["approval", "manual"])
def test_a_run_that_is_not_to_wait_for_people_gives_up(project: Project, keys: Node) -> None:
    asked = {**project.task("a"), **keys}
    if "agent" in keys:
        del asked["run"]
    project.plan([asked, project.task("b", after=["a"]), project.task("c")])
    project.run(*FAST, "--no-wait").expect(6)
    assert project.status()["run"]["reason"] == "waits_for_people"
    assert project.statuses()["c"] == "done"
    run = project.start_run(*FAST)
    wait_waiting(project, "a", "manual" if "agent" in keys else "approval")
    verb = "complete" if "agent" in keys else "approve"
    project.call(verb, str(project.track), "a").expect(0)
    end_of(run, 0, project)
    assert project.starts().count("a") == (0 if "agent" in keys else 1)


# --- one worker, five workers ---------------------------------------------------------------------------------------


def test_one_worker_takes_the_same_path_as_five(project: Project) -> None:
    project.config(QUICK)
    nodes = [
        project.task("a", "--fail-first", "2"),
        project.task("b", "--exit", "1", retries=1),
        project.task("c", after=["a"], files=["x"]),
        project.task("d", after=["b"]),
        {"id": "e", "run": ["no-such-program"], "retries": 2},
        project.task("f", files=["x"]),
    ]
    project.plan(nodes)
    found = []
    for workers in ("1", "5"):
        bus = ("--bus-dir", str(project.root / f"bus-{workers}"))
        project.run(*FAST, *bus, "--max-workers", workers).expect(1)
        status = project.call("status", str(project.track), *bus, "--json").expect(0).data
        found.append([(one["id"], one["status"], one["attempts"], one["error"]) for one in status["tasks"]])
    assert found[0] == found[1]
    assert [(id, status, attempts) for id, status, attempts, _ in found[0]] == [
        ("a", "done", 3), ("b", "failed", 2), ("c", "done", 1),
        ("d", "blocked", 0), ("e", "failed", 0), ("f", "done", 1),
    ]  # fmt: skip


def test_a_hook_that_cannot_be_started_is_told_and_stops_nothing(project: Project) -> None:
    told = project.root / "told"
    project.config(f'[hooks]\ntask_started = ["/no/such/hook"]\nrun_finished = ["cp", "/dev/stdin", "{told}"]\n')
    project.plan([project.task("a"), {"id": "b", "run": ["no-such-program"]}])
    run = project.run(*FAST).expect(1)
    assert "note: hook task_started: /no/such/hook cannot be started" in run.out
    assert '"event":"run_finished"' in told.read_text().replace(" ", "")
    (error,) = [one["error"] for one in project.status()["tasks"] if one["id"] == "b"]
    assert error["class"] == "spawn"
