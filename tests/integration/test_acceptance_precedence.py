"""Flags, plan and configuration: which one counts, and what each of them does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.tools import Project

QUICK = 'retry_delay = "0.001s"\nterminate_grace = "0.2s"\n'


def most_at_once(project: Project, *tasks: str) -> int:
    """How many of these tasks (all, where none is named) ran at once at most."""
    running = most = 0
    for note in project.notes():
        if not tasks or note["task"] in tasks:
            running += 1 if note["what"] == "start" else -1
            most = max(most, running)
    return most


@pytest.mark.parametrize(
    ("flag", "defaults", "config", "attempts"),
    [
        ((), {}, "", 3),
        ((), {}, "retries = 0\n", 1),
        ((), {"retries": 1}, "retries = 0\n", 2),
        (("--retries", "0"), {"retries": 1}, "retries = 1\n", 1),
    ],
    ids=["built in", "file", "defaults", "flag"],
)
def test_retries_by_precedence(
    project: Project, flag: tuple[str, ...], defaults: dict[str, Any], config: str, attempts: int
) -> None:
    project.config(QUICK + config)
    project.plan([project.task("a", "--exit", "1"), project.task("b", "--exit", "1", retries=1)], defaults=defaults)
    project.run("--durability", "process", *flag).expect(1)
    assert project.starts().count("a") == attempts
    assert project.starts().count("b") == 2
    assert [task["attempts"] for task in project.status()["tasks"]] == [attempts, 2]


@pytest.mark.parametrize(
    ("flag", "defaults", "config"),
    [
        ((), {}, "0.2s"),
        ((), {"timeout": "0.2s"}, "1h"),
        (("--timeout", "0.2"), {"timeout": "1h"}, "1h"),
    ],
    ids=["file", "defaults", "flag"],
)
def test_timeouts_by_precedence(project: Project, flag: tuple[str, ...], defaults: dict[str, Any], config: str) -> None:
    project.config(f'{QUICK}timeout = "{config}"\n')
    project.plan(
        [project.task("a", gated=True, retries=0), project.task("b", gated=True, timeout="1h")],
        defaults=defaults,
    )
    run = project.start_run("--durability", "process", *flag)
    project.wait_recorded("TASK_FAILED", "a")
    project.open_gate("b")
    run.finish().expect(1)
    a, b = project.status()["tasks"]
    assert a["error"]["class"] == "timeout"
    assert b["status"] == "done"


@pytest.mark.parametrize("none", ["none", "0"])
def test_no_time_limit_where_none_is_asked_for(project: Project, none: str) -> None:
    project.config(QUICK + 'timeout = "0.1s"\n')
    project.plan([project.task("a", "--linger", "0.4"), project.task("b", "--linger", "0.4", timeout=none)])
    project.run("--timeout", none).expect(0)


def test_the_project_and_the_user_may_configure_too(project: Project) -> None:
    user = project.home / ".config" / "conductor"
    user.mkdir(parents=True)
    (user / "conductor.toml").write_text(QUICK + "retries = 5\nmax_workers = 1\n")
    (project.dir / "conductor.toml").write_text("retries = 1\n")
    project.plan([project.task("a", "--exit", "1"), project.task("b"), project.task("c")])
    project.run("--durability", "process").expect(1)
    assert project.starts().count("a") == 2
    assert most_at_once(project) == 1


def test_a_command_of_the_configuration_is_for_tasks_without_one(project: Project) -> None:
    project.config('command = "echo {task_id} by file"\n')
    project.plan([{"id": "a", "name": "x"}, project.shell("b", "echo own")])
    project.run().expect(0)
    assert project.printed("a") == "a by file\n"
    assert project.printed("b") == "own\n"
    project.plan([{"id": "c", "name": "x"}])
    project.run("--command", "echo {task_id} by flag").expect(0)
    assert project.printed("c") == "c by flag\n"


def test_at_most_five_at_once_and_no_fewer(project: Project) -> None:
    tasks = [f"t{number}" for number in range(8)]
    project.plan([project.task(task, gated=True) for task in tasks])
    run = project.start_run()
    for task in tasks[:5]:
        project.wait_started(task)
    assert project.status()["counts"] == {**project.status()["counts"], "running": 5, "ready": 3}
    project.open_gate(*tasks)
    run.finish().expect(0)
    assert most_at_once(project) == 5


def test_one_worker_serialises_in_plan_order(project: Project) -> None:
    tasks = [f"t{number}" for number in range(5)]
    project.plan([project.task(task) for task in tasks])
    project.run("--max-workers", "1", "--durability", "process").expect(0)
    assert most_at_once(project) == 1
    assert project.starts() == tasks


def test_more_workers_where_asked_for(project: Project) -> None:
    tasks = [f"t{number}" for number in range(7)]
    project.plan([project.task(task, gated=True) for task in tasks], groups=[{"id": "g", "tasks": tasks}])
    run = project.start_run("--max-workers", "7")
    for task in tasks:
        project.wait_started(task)
    project.open_gate(*tasks)
    run.finish().expect(0)


def test_a_group_caps_its_own_workers(project: Project) -> None:
    group, free = ["g1", "g2", "g3", "g4"], ["f1", "f2"]
    project.plan(
        [project.task(task, gated=True) for task in [*group, *free]],
        groups=[{"id": "g", "tasks": group, "max_workers": 2}],
    )
    run = project.start_run()
    for task in ("g1", "g2", "f1", "f2"):
        project.wait_started(task)
    waiting = {task["id"]: task for task in project.status()["tasks"]}["g3"]
    assert waiting["status"] == "waiting"
    assert [wait["kind"] for wait in waiting["waits_for"]] == ["group"]
    project.open_gate(*group, *free)
    run.finish().expect(0)
    assert most_at_once(project, *group) == 2


def test_the_limit_of_workers_in_the_plan(project: Project) -> None:
    names = [f"t{number}" for number in range(5)]
    project.plan([project.task(name, gated=True) for name in names], limits={"max_workers": 2})
    run = project.start_run("--durability", "process")
    project.wait_started("t0", "t1")
    project.open_gate(*names)
    run.finish().expect(0)
    assert most_at_once(project) == 2


def test_overlapping_files_are_never_side_by_side_unless_allowed(project: Project) -> None:
    project.plan([project.task("a", gated=True, files=["src/*"]), project.task("b", gated=True, files=["src/x.py"])])
    run = project.start_run("--on-conflict", "allow")
    project.wait_started("a", "b")
    project.open_gate("a", "b")
    run.finish().expect(0)
    assert most_at_once(project) == 2


def test_readers_may_share_and_writers_may_not(project: Project) -> None:
    project.plan(
        [
            project.task("r1", gated=True, reads=["src/x.py"]),
            project.task("r2", gated=True, reads=["src"]),
            project.task("w", files=["src/x.py"]),
            project.task("k1", gated=True, resources=["db:test"]),
            project.task("k2", resources=["db:test"]),
        ]
    )
    run = project.start_run()
    project.wait_started("r1", "r2", "k1")
    tasks = {task["id"]: task for task in project.status()["tasks"]}
    assert [wait["kind"] for wait in tasks["w"]["waits_for"]][:1] == ["conflict"]
    assert [(wait["kind"], wait["what"]) for wait in tasks["k2"]["waits_for"]] == [("resource", "db:test")]
    project.open_gate("r1", "r2", "k1")
    run.finish().expect(0)
    ends = project.ends()
    assert ends.index("w") > max(ends.index("r1"), ends.index("r2"))
    assert ends.index("k2") > ends.index("k1")


def test_the_critical_path_goes_first(project: Project) -> None:
    project.plan(
        [
            project.task("short", estimated_duration="1m"),
            project.task("long", estimated_duration="1h"),
            project.task("chain", estimated_duration="1m"),
            project.task("end", after=["chain"], estimated_duration="3h"),
        ]
    )
    project.run("--max-workers", "1", "--durability", "process").expect(0)
    assert project.starts() == ["chain", "end", "long", "short"]


def test_only_the_named_tasks_run(project: Project) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"]), project.task("c", "--exit", "1", retries=0)])
    project.run("--only", "a", "--only", "b").expect(0)
    assert project.starts() == ["a", "b"]
    assert project.statuses() == {"a": "done", "b": "done", "c": "skipped"}
    assert "only" in project.call("why", str(project.track), "c").expect(0).out
    project.run().expect(1)
    assert project.starts() == ["a", "b", "c"]


@pytest.mark.parametrize("flags", [("--only", "a", "b"), ("--only", "a", "--only", "b")], ids=["list", "repeated"])
def test_only_takes_several_tasks(project: Project, flags: tuple[str, ...]) -> None:
    project.plan([project.task("a"), project.task("b"), project.task("c")])
    project.run(*flags).expect(0)
    assert sorted(project.starts()) == ["a", "b"]


def test_ticked_tasks_are_run_or_taken_as_done(project: Project) -> None:
    prose = "- [x] Task a: one\n- [ ] Task b: two\n- [X] Task c: three\n"
    project.plan([project.task("a"), project.task("b", after=["a"]), project.task("c")], prose=prose)
    project.run("--skip-ticked").expect(0)
    assert project.starts() == ["b"]
    assert project.statuses() == {"a": "done", "b": "done", "c": "done"}


def test_ticked_tasks_run_with_one_warning(project: Project) -> None:
    project.plan([project.task("a"), project.task("b")], prose="- [x] Task a: one\n- [x] Task b: two\n")
    done = project.run().expect(0)
    assert sorted(project.starts()) == ["a", "b"]
    assert (done.out + done.err).count("--skip-ticked") == 1


def test_fail_fast_starts_nothing_after_a_failure(project: Project) -> None:
    project.plan(
        [
            project.task("bad", "--exit", "1", retries=0),
            project.task("runs", gated=True),
            project.task("later", after=["runs"]),
            project.task("below", after=["bad"]),
        ]
    )
    run = project.start_run("--fail-fast")
    project.wait_recorded("TASK_FAILED", "bad")
    project.wait_started("runs")
    project.open_gate("runs")
    run.finish().expect(1)
    assert sorted(project.starts()) == ["bad", "runs"]
    assert project.statuses() == {"bad": "failed", "runs": "done", "later": "skipped", "below": "blocked"}


def test_quiet_says_only_the_summary(project: Project) -> None:
    project.plan([project.task("a"), project.task("c")])
    finished = project.run("--quiet").expect(0)
    assert finished.out.startswith("✓")
    assert "started" not in finished.out
    assert finished.err == ""
    project.plan([project.task("a"), project.shell("b", "echo broken >&2; exit 3", retries=0)])
    finished = project.run("--quiet").expect(1)
    assert "b" in finished.out + finished.err


def test_plain_lines_and_a_last_word_where_there_is_no_terminal(project: Project) -> None:
    project.plan([project.task("a"), project.shell("b", "exit 3", retries=0), project.task("c", after=["b"])])
    finished = project.run().expect(1)
    assert "\x1b" not in finished.out + finished.err
    last = finished.out.splitlines()[-12:]
    assert any("conductor" in line for line in last), "the next command to type"
    assert any("c" in line and "b" in line for line in last), "what is blocked by what"


@pytest.mark.parametrize("durability", ["power", "process"])
def test_durability_is_said_and_kept(project: Project, durability: str) -> None:
    project.plan([project.task("a")])
    project.run("--durability", durability).expect(0)
    assert project.status()["run"]["durability"] == durability


def test_verify_commands_must_pass(project: Project) -> None:
    project.config(QUICK)
    project.plan(
        [
            project.shell("good", "true", verify=["test -d track", ["sh", "-c", "echo verified >>verified"]]),
            project.shell("bad", "echo x >>tries", verify=["true", "sh -c 'exit 4'", "touch never"], retries=1),
            project.task("after", after=["bad"]),
            project.shell("unclean", "exit 5", verify=["touch never"], retries=0),
        ]
    )
    project.run().expect(1)
    tasks = {task["id"]: task for task in project.status()["tasks"]}
    assert {id: task["status"] for id, task in tasks.items()} == {
        "good": "done",
        "bad": "failed",
        "after": "blocked",
        "unclean": "failed",
    }
    assert tasks["bad"]["error"]["class"] == "verify"
    assert "exit 4" in tasks["bad"]["error"]["message"]
    assert tasks["unclean"]["error"]["class"] == "exit"
    assert not (project.dir / "never").exists()
    assert (project.dir / "verified").read_text() == "verified\n"
    assert (project.dir / "tries").read_text() == "x\nx\n"
    results = {record["task"]: record["payload"] for record in project.recorded("RESULT")}
    assert [step["code"] for step in results["good"]["verify"]] == [0, 0]
    assert [step["code"] for step in results["bad"]["verify"]] == [0, 4]


def test_a_verify_command_has_the_time_limit_of_its_task(project: Project) -> None:
    project.config(QUICK)
    project.plan(
        [
            project.shell(
                "a", "true", verify=[project.recorder("--gates", str(project.gates))], timeout="0.3s", retries=0
            )
        ]
    )
    project.run().expect(1)
    assert project.status()["tasks"][0]["error"]["class"] in ("timeout", "verify")


def test_outputs_must_exist(project: Project) -> None:
    project.plan(
        [
            project.shell("good", "mkdir -p dist && touch dist/a.whl", outputs=["dist/a.whl"]),
            project.shell("bad", "true", outputs=["dist/b.whl"], retries=0),
        ]
    )
    project.run().expect(1)
    tasks = {task["id"]: task for task in project.status()["tasks"]}
    assert (tasks["good"]["status"], tasks["bad"]["status"]) == ("done", "failed")
    assert tasks["bad"]["error"]["class"] == "verify"
    assert "dist/b.whl" in tasks["bad"]["error"]["message"]
