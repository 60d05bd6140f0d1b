"""An operator's hands while no conductor lives: an order is recorded at once, and the next run carries it out."""

from __future__ import annotations

from tests.integration.operators import drop, order, orders, task, why
from tests.integration.recovery import crash, gated, identity
from tests.integration.tools import Project, alive, wait_for


def test_a_run_that_crashed_is_steered_and_the_next_one_carries_it_out(project: Project) -> None:
    """Cancel of a living worker's task, steering, a pause, an edited plan: all recorded before any run."""
    words = f"{project.bus}/attempts/*/$CONDUCTOR_ATTEMPT/in/*"
    steered = f"touch b.up; until cat {words} 2>&-; do sleep 0.02; done"
    nodes = [gated(project, "a"), project.shell("b", steered), project.task("c", after=["b"])]
    project.plan(nodes)
    crash(project, "a", "b")
    who = identity(project, "a")
    assert "No conductor lives now; the next run acts on it." in order(project, "cancel", "a").out
    wait_for(lambda: not alive(who.command), "the end of the cancelled command: its worker is told at once")
    assert order(project, "steer", "b", "go on").out == "given to the worker of b.\n"
    order(project, "pause")
    assert order(project, "pause").out.startswith("Already paused")
    project.plan([*nodes, project.task("d", after=["c"])])
    assert order(project, "reload").out.startswith("recorded: the run goes on with the plan as it is now.")
    assert [verb for verb, _, _ in orders(project)] == ["cancel", "steer", "pause", "reload"]
    run = project.start_run()
    project.wait_recorded("TASK_COMPLETE", "b")
    project.wait_recorded("TASK_CANCELLED", "a")
    assert [wait["kind"] for wait in task(project, "c")["waits_for"]] == ["paused"]
    order(project, "resume")
    run.finish().expect(1)
    assert project.statuses() == {"a": "cancelled", "b": "done", "c": "done", "d": "done"}


def test_requirement_14_orders_by_file_to_a_run_that_crashed(project: Project) -> None:
    """The plan is read again by whoever takes the run over; a refused order is shown with the task it was about."""
    nodes = [gated(project, "a")]
    project.plan(nodes)
    crash(project, "a")
    project.plan([*nodes, project.task("d", after=["a"])])
    drop(project, "reload")
    drop(project, "complete", target="a", who="mary")
    project.open_gate("a")
    project.run().expect(0)
    assert project.statuses() == {"a": "done", "d": "done"}
    for verb, arguments in (("why", ["a"]), ("events", ["--task", "a"])):
        said = project.call(verb, str(project.track), *arguments).expect(0).out
        assert "is not for a person" in said


def test_what_waits_for_people_is_answered_between_two_runs(project: Project) -> None:
    nodes = [
        project.task("a", approve="after"),
        project.task("b", approve="after"),
        {"id": "c", "name": "By hand", "agent": "manual"},
        {"id": "d", "name": "By hand", "agent": "manual"},
        project.task("e", "--fail-first", "1", retries=0),
    ]
    project.plan(nodes)
    project.run("--no-wait").expect(6)
    assert project.status()["run"]["reason"] == "waits_for_people"
    order(project, "approve", "a")
    drop(project, "reject", target="b", text="too risky")
    order(project, "complete", "c")
    assert order(project, "retry", "e").out.startswith("back to pending: e.")
    assert task(project, "e")["status"] in ("pending", "ready")
    drop(project, "complete", target="d", who="mary")
    project.run("--no-wait").expect(1)
    statuses = project.statuses()
    assert statuses == {**dict.fromkeys("acde", "done"), "b": "failed"}
    assert sorted(project.starts("a", "e")) == ["a", "e", "e"]
    assert "mary" in " ".join(who for _, _, who in orders(project))


def test_orders_that_mean_nothing_are_refused_and_change_nothing(project: Project) -> None:
    project.plan([project.task("a")])
    assert "no bus" in order(project, "pause", "--json", code=1).error["message"]
    project.run().expect(0)
    before = len(project.records())
    assert order(project, "cancel", "a", "--json", code=1).error["code"] == "refused"
    assert order(project, "cancel", "z", "--json", code=2).error["code"] == "unknown_task"
    assert len(project.records()) == before
    assert "Done" in why(project, "a")
