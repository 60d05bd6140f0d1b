"""An operator's hands while a conductor lives: each order is recorded with who gave it, and carried out at once."""

from __future__ import annotations

import getpass
import sys

from tests.integration.operators import drop, order, orders, task, why
from tests.integration.tools import START, Project, alive, wait_for

ME = f"operator:{getpass.getuser()}"


def test_a_pause_starts_nothing_new_and_a_resume_goes_on(project: Project) -> None:
    """By verb, then the same by files."""
    project.plan([project.task("a", gated=True), project.task("b", gated=True), project.task("c", gated=True)])
    run = project.start_run("--max-workers", "1")
    for number, (first, give) in enumerate((("a", order), ("b", drop))):
        project.wait_started(first)
        give(project, "pause")
        project.wait_recorded("CONTROL", times=2 * number + 1)
        assert project.status()["run"]["state"] == "paused"
        project.open_gate(first)
        project.wait_recorded("TASK_COMPLETE", first)
        waiting = task(project, "c")
        assert [wait["kind"] for wait in waiting["waits_for"]] == ["paused"]
        assert waiting["worker"] is None
        assert project.starts()[-1] == first
        give(project, "resume")
    project.open_gate("c")
    run.finish().expect(0)
    assert [verb for verb, _, _ in orders(project)] == ["pause", "resume", "pause", "resume"]
    assert orders(project)[0] == ("pause", None, ME)


def test_a_cancelled_task_is_stopped_and_what_needs_it_is_blocked(project: Project) -> None:
    nodes = [project.task("a", gated=True), project.task("b", after=["a"]), project.task("c", gated=True)]
    project.plan([*nodes, project.task("d", gated=True), project.task("e", after=["d"])])
    run = project.start_run()
    project.wait_started("a", "c", "d")
    pid = next(note["pid"] for note in project.notes() if note["task"] == "a")
    said = order(project, "cancel", "a", "-m", "not wanted").out
    assert said.startswith("a is cancelled once its worker is stopped; it is told to stop.")
    project.wait_recorded("TASK_BLOCKED", "b")
    assert (task(project, "a")["reason"], task(project, "b")["blocked_by"]) == (ME, ["a"])
    assert not alive(pid)
    drop(project, "cancel", target="d", who="mary")
    project.wait_recorded("TASK_CANCELLED", "d")
    assert order(project, "cancel", "a").out.startswith("Already cancelled")
    assert "refused" in order(project, "cancel", "b", "--json", code=1).error["code"]
    project.open_gate("c")
    run.finish().expect(1)
    assert project.statuses() == {"a": "cancelled", "b": "blocked", "c": "done", "d": "cancelled", "e": "blocked"}
    assert orders(project) == [("cancel", "a", ME), ("cancel", "d", "operator:mary")]


def test_a_retry_takes_back_what_failed_and_what_it_blocked_and_ends_a_delay(project: Project) -> None:
    project.config('retry_delay = "4h"\nretry_delay_max = "4h"\n')
    delayed = project.task("c", "--fail-first", "1")
    failing = project.task("a", gated=True, retries=0)
    project.plan([failing, project.task("b", after=["a"]), delayed, project.task("d", gated=True)])
    run = project.start_run()
    project.open_gate("a", code=1)
    project.wait_recorded("TASK_BLOCKED", "b")
    project.wait_recorded("RETRY_SCHEDULED", "c")
    assert [wait["kind"] for wait in task(project, "c")["waits_for"]] == ["backoff"]
    project.open_gate("a")
    said = order(project, "retry", "a", "c").out
    assert said.startswith("back to pending: a, b.\nc is tried again now.\n")
    project.wait_recorded("TASK_COMPLETE", "b")
    project.wait_recorded("TASK_COMPLETE", "c")
    project.open_gate("d")
    run.finish().expect(0)
    assert project.recorded("CONTROL")[0]["payload"]["tasks"] == ["a", "b"]


def test_gates_and_tasks_of_people_wait_without_a_slot_until_somebody_says(project: Project) -> None:
    nodes = [
        project.task("before", approve="before"),
        project.task("after", approve="after"),
        project.task("bad", approve="after"),
        {"id": "hand", "name": "By hand", "agent": "manual"},
        {"id": "lost", "name": "Cannot be done", "agent": "manual"},
        {"id": "file", "name": "By a file", "agent": "manual"},
        project.task("last", after=["before", "after", "hand", "file"]),
    ]
    project.plan(nodes)
    run = project.start_run("--max-workers", "1")
    for id in ("before", "after", "bad"):
        project.wait_recorded("APPROVAL_ASKED", id)
    project.wait_recorded("MANUAL_OPENED", "file")
    tasks = {
        one["id"]: (one["status"], *(wait["kind"] for wait in one["waits_for"])) for one in project.status()["tasks"]
    }
    people = {"approval": ("before", "after", "bad"), "manual": ("hand", "lost", "file")}
    assert {id: tasks[id] for ids in people.values() for id in ids} == {
        id: ("waiting", kind) for kind, ids in people.items() for id in ids
    }
    assert "before" not in project.starts()
    page = project.call("status", str(project.track)).out
    assert f"hand is for a person\n  Done:    conductor complete {project.track} hand\n" in page
    order(project, "approve", "before", "after")
    order(project, "reject", "bad", "-m", "too risky")
    order(project, "complete", "hand")
    order(project, "fail", "lost", "-m", "nobody has the key")
    (project.bus / "events" / "TASK_COMPLETE_file.event").touch()
    run.finish().expect(1)
    ended = {one["id"]: one for one in project.status()["tasks"]}
    statuses = {**dict.fromkeys(["before", "after", "hand", "file", "last"], "done"), "bad": "failed", "lost": "failed"}
    assert {id: one["status"] for id, one in ended.items()} == statuses
    assert ended["bad"]["error"]["class"] == "rejected"
    assert ended["bad"]["error"]["message"].endswith("too risky")
    assert "nobody has the key" in ended["lost"]["error"]["message"]
    assert project.starts("bad") == ["bad"]


def test_a_question_is_answered_and_a_worker_is_given_words(project: Project) -> None:
    ask = 'answer=$(conductor bus ask "which one?") && [ "$answer" = "the second" ]'
    read = f"touch up; until cat {project.bus}/attempts/*/$CONDUCTOR_ATTEMPT/in/*-steer.md 2>&-; do sleep 0.02; done"
    project.plan([project.shell("asks", ask), project.shell("reads", read)])
    run = project.start_run()
    wait_for((project.dir / "up").exists, "the reader")
    project.wait_recorded("WAIT_BEGAN", "asks")
    assert [wait["kind"] for wait in task(project, "asks")["waits_for"]] == ["answer"]
    (question,) = project.status()["questions"]
    assert (question["task"], question["text"]) == ("asks", "which one?")
    assert "which one?" in why(project, "asks")
    assert "refused" in order(project, "answer", "00000000", "x", "--json", code=1).error["code"]
    order(project, "answer", "asks", "the", "second")
    order(project, "steer", "reads", "leave the tests alone")
    run.finish().expect(0)
    assert orders(project)[0] == ("answer", question["id"], ME)
    assert project.printed("reads") == "leave the tests alone"


def test_a_lock_that_is_taken_by_force_costs_its_holder_the_attempt_and_no_retry(project: Project) -> None:
    hold = (
        "conductor bus lock a.py && touch held-$CONDUCTOR_ATTEMPT_NUMBER; [ $CONDUCTOR_ATTEMPT_NUMBER = 2 ] || sleep 60"
    )
    project.plan([project.shell("a", hold, retries=0)])
    run = project.start_run()
    wait_for((project.dir / "held-1").exists, "the lock")
    project.wait_recorded("GRANT_SEEN")
    (lock,) = project.status()["locks"]
    assert (lock["keys"], lock["task"]) == (["a.py"], "a")
    order(project, "unlock", "a.py", code=2)
    order(project, "unlock", "./a.py", "--force")
    run.finish().expect(0)
    ended = [record["payload"]["error_class"] for record in project.recorded("ATTEMPT_ENDED", "a")]
    assert ended == ["stale_token", None]


def test_a_reload_follows_the_plan_and_a_broken_plan_changes_nothing(project: Project) -> None:
    first = project.task("a", gated=True)
    project.plan([first])
    run = project.start_run()
    project.wait_started("a")
    project.plan([first, project.task("b", after=["c"])])
    assert order(project, "reload", "--json", code=3).error["code"] == "plan_unknown_dependency"
    project.plan([first, project.task("b", after=["a"])])
    said = order(project, "reload").out
    assert said.startswith("the run follows the plan as it is now.\n  ")
    assert project.statuses() == {"a": "running", "b": "pending"}
    project.open_gate("a")
    run.finish().expect(0)
    assert project.statuses() == {"a": "done", "b": "done"}


def test_requirement_37_a_worker_that_steers_its_own_track_is_refused(project: Project) -> None:
    us = f"{sys.executable} -E -P {START}"
    calls = [f"cancel {project.track} a", f"answer {project.track} a x", f"pause {project.track}"]
    project.plan([project.shell("a", "; ".join(f"{us} {call}; echo $?" for call in calls))])
    project.run().expect(0)
    assert project.printed("a").split() == ["2"] * len(calls)
    assert orders(project) == []
