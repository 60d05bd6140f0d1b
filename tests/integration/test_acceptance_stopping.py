"""Stopping, by signals and by `conductor stop`, and the run after it."""

from __future__ import annotations

import os
import signal

import pytest

from tests.integration.tools import Project, Running, wait_for


def chain(project: Project) -> Running:
    """Run `a` (gated) and what depends on it; return once it runs."""
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    run = project.start_run()
    project.wait_started("a")
    return run


def ended(project: Project) -> tuple[str, str | None]:
    """State and reason of the last RUN_ENDED."""
    payload = project.recorded("RUN_ENDED")[-1]["payload"]
    return payload["state"], payload["reason"]


def finish_next_run(project: Project, starts: dict[str, int]) -> None:
    """The next run does the rest, and only the rest."""
    project.open_gate("a")
    project.run().expect(0)
    assert set(project.statuses().values()) == {"done"}
    assert {task: project.starts().count(task) for task in starts} == starts
    assert sorted(record["task"] for record in project.recorded("TASK_COMPLETE")) == ["a", "b"]


def test_one_interrupt_lets_what_runs_end_and_starts_nothing_more(project: Project) -> None:
    run = chain(project)
    run.send(signal.SIGINT)
    project.wait_recorded("CONTROL")
    assert project.status()["run"]["state"] == "draining"
    project.open_gate("a")
    run.finish().expect(130)
    assert project.starts() == ["a"]
    status = project.status()
    assert status["run"]["state"] == "stopped"
    assert status["run"]["reason"] == "stopped"
    assert [task["status"] for task in status["tasks"]] in (["done", "ready"], ["done", "pending"])
    assert ended(project) == ("stopped", "stopped")
    finish_next_run(project, {"a": 1, "b": 1})


def test_one_interrupt_with_nothing_left_exits_0(project: Project) -> None:
    project.plan([project.task("a", gated=True)])
    run = project.start_run()
    project.wait_started("a")
    run.send(signal.SIGINT)
    project.wait_recorded("CONTROL")
    project.open_gate("a")
    run.finish().expect(0)
    assert project.statuses() == {"a": "done"}


def test_one_interrupt_does_not_wait_for_a_retry(project: Project) -> None:
    project.config('retry_delay = "4h"\nretry_delay_max = "4h"\n')
    project.plan([project.task("a", "--exit", "1")])
    run = project.start_run()
    project.wait_recorded("RETRY_SCHEDULED")
    (task,) = project.status()["tasks"]
    assert task["status"] == "waiting"
    assert [wait["kind"] for wait in task["waits_for"]] == ["backoff"]
    run.send(signal.SIGINT)
    run.finish().expect(130)
    assert project.starts() == ["a"]
    counts = project.status()["counts"]
    assert counts["ready"] + counts["pending"] == 1
    assert project.recorded("RUN_ENDED")[-1]["payload"]["counts"] == counts


def test_one_interrupt_with_nothing_left_but_blocked_tasks_exits_1(project: Project) -> None:
    project.plan(
        [
            project.task("a", gated=True),
            project.task("bad", "--exit", "1", retries=0),
            project.task("below", after=["bad"]),
        ]
    )
    run = project.start_run()
    project.wait_started("a")
    project.wait_recorded("TASK_BLOCKED", "below")
    run.send(signal.SIGINT)
    project.wait_recorded("CONTROL")
    project.open_gate("a")
    run.finish().expect(1)
    assert project.status()["run"]["state"] == "failed"


def test_two_interrupts_stop_the_workers_and_use_no_retry(project: Project) -> None:
    run = chain(project)
    run.send(signal.SIGINT)
    project.wait_recorded("CONTROL")
    run.send(signal.SIGINT)
    run.finish().expect(130)
    check_stopped(project)
    finish_next_run(project, {"a": 2, "b": 1})


def test_term_is_a_second_interrupt(project: Project) -> None:
    run = chain(project)
    run.send(signal.SIGTERM)
    run.finish().expect(143)
    check_stopped(project)
    finish_next_run(project, {"a": 2, "b": 1})


def check_stopped(project: Project) -> None:
    """`a` was stopped; nothing of it is final."""
    (end,) = project.recorded("ATTEMPT_ENDED")
    assert (end["payload"]["error_class"], end["payload"]["counted"]) == ("stopped", False)
    assert ended(project) == ("stopped", "stopped")
    assert not project.recorded("TASK_FAILED")
    assert not list((project.bus / "events").glob("TASK_*.event"))
    status = project.status()
    assert [task["status"] for task in status["tasks"]] in (["ready", "pending"], ["pending", "pending"])
    assert status["tasks"][0]["attempts"] == 1
    assert project.ends() == []


def test_a_stopped_task_keeps_its_used_retries(project: Project) -> None:
    project.config('retry_delay = "0.01s"\n')
    script = "echo x >>count; [ $(wc -l <count) = 2 ] || exit 1; exec sleep 60"
    project.plan([project.shell("a", script, retries=1)])
    run = project.start_run()
    count = project.dir / "count"
    wait_for(lambda: count.exists() and len(count.read_text().split()) == 2, "the second attempt")
    run.send(signal.SIGTERM)
    run.finish().expect(143)
    project.run().expect(1)
    assert len(count.read_text().split()) == 3
    assert project.statuses() == {"a": "failed"}


def test_stop_ends_the_workers(project: Project) -> None:
    run = chain(project)
    project.call("stop", str(project.track)).expect(0)
    run.finish().expect(130)
    check_stopped(project)
    (control,) = project.recorded("CONTROL")
    assert control["payload"]["verb"] == "stop"
    assert control["source"].startswith("operator:")
    finish_next_run(project, {"a": 2, "b": 1})


def test_stop_drain_lets_the_workers_end(project: Project) -> None:
    run = chain(project)
    project.call("stop", str(project.track), "--drain", "--json").expect(0)
    project.open_gate("a")
    run.finish().expect(130)
    assert project.starts() == ["a"]
    finish_next_run(project, {"a": 1, "b": 1})


def test_stop_of_a_suspended_conductor_says_how_to_wake_it_and_goes_through_then(project: Project) -> None:
    run = chain(project)
    run.send(signal.SIGSTOP)
    wait_for(lambda: project.status()["suspended"], "a conductor that stands still")
    assert f"Wake it: `kill -CONT {run.process.pid}`" in project.call("status", str(project.track)).expect(0).out
    order = project.start("stop", str(project.track))
    wait_for(lambda: "is suspended and takes no orders" in order.err(), "word of that")
    run.send(signal.SIGCONT)
    assert order.finish().expect(0).out.startswith("recorded: ")
    run.finish().expect(130)


def test_stop_with_nothing_running_is_no_error(project: Project) -> None:
    project.plan([project.task("a")])
    project.call("stop", str(project.track)).expect(0)
    assert not project.bus.exists()
    project.run().expect(0)
    project.call("stop", str(project.track)).expect(0)
    project.call("stop", str(project.track), "--drain").expect(0)
    project.run().expect(0)
    assert project.statuses() == {"a": "done"}


def test_stop_without_a_conductor_ends_the_workers_that_live_on(project: Project) -> None:
    run = chain(project)
    run.send(signal.SIGKILL)
    run.finish()
    project.call("stop", str(project.track)).expect(0)
    assert not project.processes()
    assert project.status()["run"]["state"] == "stopped"
    finish_next_run(project, {"a": 2, "b": 1})


def test_three_interrupts_leave_at_once_and_the_workers_live_on(project: Project) -> None:
    project.config('terminate_grace = "1h"\n')
    project.plan([project.task("a", "--stubborn", gated=True), project.task("b", after=["a"])])
    run = project.start_run()
    project.wait_started("a")
    for times in (1, 2):
        run.send(signal.SIGINT)
        project.wait_recorded("CONTROL", times=times)
    seq = project.records()[-1]["seq"]
    run.send(signal.SIGINT)
    run.finish().expect(130)
    assert project.records()[-1]["seq"] == seq
    status = project.status()
    assert status["run"]["state"] == "interrupted"
    assert status["run"]["conductor"] is None
    assert status["tasks"][0]["alive"] is True

    again = project.start_run()
    project.wait_recorded("ATTEMPT_ADOPTED", "a")
    assert project.starts() == ["a"]
    project.open_gate("a")
    again.finish().expect(0)
    # Its end came after the ladder's first signal, so it counts as stopped; the second attempt began after it.
    happened = [(note["what"], note["task"]) for note in project.notes()]
    once = [("start", "a"), ("end", "a")]
    assert happened in ([*once, ("start", "b"), ("end", "b")], [*once, *once, ("start", "b"), ("end", "b")])


def test_a_hangup_and_a_closed_pipe_change_nothing(project: Project) -> None:
    project.plan([project.task("a", gated=True), project.task("b", after=["a"])])
    read, write = os.pipe()
    run = project.start_run("--json", stdout_fd=write)
    os.close(write)
    project.wait_started("a")
    os.close(read)
    run.send(signal.SIGHUP)
    run.send(signal.SIGHUP)
    project.open_gate("a")
    assert run.finish().code == 0
    assert not project.recorded("CONTROL")
    assert project.statuses() == {"a": "done", "b": "done"}


@pytest.mark.parametrize("watch", [(), ("--no-watch",)], ids=["watch", "no-watch"])
def test_an_order_without_a_living_addressee_is_not_obeyed_later(project: Project, watch: tuple[str, ...]) -> None:
    project.plan([project.task("a")])
    project.run(*watch).expect(0)
    (project.bus / "control" / "00000099-stop").write_bytes(b"")
    project.plan([project.task("a"), project.task("b")])
    project.run(*watch).expect(0)
    assert project.statuses() == {"a": "done", "b": "done"}
    assert not list((project.bus / "control").iterdir())
