"""What a run does about failures: tries again, waits, gives up, goes on with the rest."""

from __future__ import annotations

from tests.integration.tools import Node, Project

FAST = ("--durability", "process")


def attempts(project: Project) -> dict[str, int]:
    """Started attempts of each task."""
    return {task["id"]: task["attempts"] for task in project.status()["tasks"]}


def plain(id: str, *command: str, **keys: object) -> Node:
    """A node that runs a program."""
    return {"id": id, "run": list(command), **keys}


def test_requirement_19_a_task_that_fails_twice_and_then_works_is_done(project: Project) -> None:
    project.config('retry_delay = "0.1s"\n')
    project.plan([project.task("a", "--fail-first", "2"), project.task("b", after=["a"])])
    project.run(*FAST).expect(0)
    assert attempts(project) == {"a": 3, "b": 1}
    delays = [record["payload"]["delay"] for record in project.recorded("RETRY_SCHEDULED", "a")]
    assert len(delays) == 2
    assert all(0 <= delay <= limit for delay, limit in zip(delays, (0.1, 0.2), strict=True))


def test_requirement_19_a_task_that_always_fails_has_as_many_attempts_as_it_was_given(project: Project) -> None:
    project.config('retry_delay = "0.01s"\n')
    project.plan(
        [project.task("a", "--exit", "3"), project.task("b", after=["a"]), project.task("c", "--exit", "1", retries=0)]
    )
    run = project.run(*FAST).expect(1)
    assert attempts(project) == {"a": 3, "b": 0, "c": 1}
    assert project.statuses() == {"a": "failed", "b": "blocked", "c": "failed"}
    assert "exit 3" in run.out


def test_requirement_19_twenty_that_crash_at_once_end_the_run(project: Project) -> None:
    project.config('retry_delay = "0.01s"\n')
    project.plan([project.shell(f"{n}", "kill -SEGV $$", retries=9) for n in range(20)])
    run = project.run(*FAST).expect(6)
    state = project.status()["run"]
    assert (state["state"], state["reason"]) == ("escalated", "restart_intensity")
    started = len(project.recorded("WORKER_DISPATCHED"))
    assert 21 <= started <= 25  # the one too many, and what ran beside it
    assert set(project.statuses().values()) == {"skipped"}
    assert "SEGV" in run.out


def test_requirement_19_ten_that_fail_among_ninety_that_work_fail_alone(project: Project) -> None:
    project.config('retry_delay = "0.01s"\n')
    project.plan([plain(f"{n}", "false" if n % 10 == 3 else "true") for n in range(100)])
    project.run(*FAST).expect(1)
    counts = project.status()["counts"]
    assert (counts["done"], counts["failed"]) == (90, 10)
    assert sum(attempts(project).values()) == 90 + 10 * 3


def test_requirement_19_a_limit_of_a_provider_uses_no_attempt(project: Project) -> None:
    over = '"$CONDUCTOR_BIN" bus fail --class quota --retry-after 0.3s "no tokens left"; exit 1'
    once = f'[ "$CONDUCTOR_ATTEMPT_NUMBER" = 1 ] || exit 0; {over}'
    project.plan([project.shell("a", once, retries=0), project.shell("b", "true", after=["a"])])
    project.run(*FAST).expect(0)
    assert project.statuses() == {"a": "done", "b": "done"}
    (paused,) = project.recorded("PROVIDER_PAUSED")
    assert (paused["payload"]["provider"], paused["payload"]["error_class"]) == ("command:sh", "quota")
    assert len(project.recorded("PROVIDER_RESUMED")) == 1


def test_a_limit_of_a_provider_ends_a_run_that_is_not_to_wait(project: Project) -> None:
    over = '"$CONDUCTOR_BIN" bus fail --class rate_limit --retry-after 1h "slow down"; exit 1'
    project.plan([project.shell("a", over), project.shell("b", "true", after=["a"]), plain("c", "true")])
    run = project.run(*FAST, "--no-wait").expect(75)
    state = project.status()["run"]
    assert (state["state"], state["reason"]) == ("escalated", "provider_limit")
    assert project.statuses() == {"a": "skipped", "b": "skipped", "c": "done"}
    assert "Traceback" not in run.err


def test_a_kind_of_worker_that_keeps_failing_is_left_alone_for_a_while(project: Project) -> None:
    project.config('breaker = 2\nbreaker_reset = "0.3s"\nmax_workers = 1\n')
    project.plan(
        [
            *(plain(f"bad{n}", "false", retries=0) for n in (1, 2)),
            plain("late", "false", retries=0),
            plain("other", "true"),
        ]
    )
    project.run(*FAST).expect(1)
    story = [(record["type"], record["task"]) for record in project.records()]
    order = [task for type, task in story if type == "WORKER_DISPATCHED"]
    assert order == ["bad1", "bad2", "other", "late"]
    paused = story.index(("PROVIDER_PAUSED", None))
    assert story.index(("ATTEMPT_ENDED", "bad2")) < paused < story.index(("TIMER_FIRED", None), paused)
    assert story.index(("TIMER_FIRED", None), paused) < story.index(("WORKER_DISPATCHED", "late"))
    kind = project.status()["kinds"]["command:false"]
    assert (kind["attempts"], kind["failures"]) == (3, {"exit": 3})


def test_a_wait_before_a_retry_ends_at_once_where_the_task_is_called_off(project: Project) -> None:
    project.config('retry_delay = "1h"\nretry_delay_max = "1h"\n')
    project.plan([project.task("a", "--exit", "1"), project.task("b", after=["a"])])
    run = project.start_run(*FAST)
    project.wait_recorded("RETRY_SCHEDULED", "a")
    project.call("cancel", str(project.track), "a").expect(0)
    run.finish().expect(1)
    assert project.statuses() == {"a": "cancelled", "b": "blocked"}


def test_the_next_attempt_is_told_how_the_one_before_ended(project: Project) -> None:
    project.config('retry_delay = "0.01s"\n')
    script = (
        'if [ "$CONDUCTOR_ATTEMPT_NUMBER" = 1 ]; then echo "the wall is too high"; exit 7; fi; '
        'cat "$CONDUCTOR_PROMPT_FILE" > told'
    )
    project.plan([project.shell("a", script)])
    project.run(*FAST).expect(0)
    told = (project.dir / "told").read_text()
    assert "the wall is too high" in told
    assert "exit 7" in told


def test_a_worker_that_cannot_be_started_is_a_failure_that_is_told(project: Project) -> None:
    project.plan([plain("a", "no-such-program"), project.task("b")])
    run = project.run(*FAST).expect(1)
    assert project.statuses() == {"a": "failed", "b": "done"}
    assert attempts(project) == {"a": 0, "b": 1}
    assert "no-such-program" in run.out
