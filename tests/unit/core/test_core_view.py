"""What people see: the picture of a run, and the sentences that explain a task."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core.decide import because_of
from conductor.core.events import ProgressReceived
from conductor.core.state import State
from conductor.core.task import Cancelled, Group
from conductor.core.view import ErrorView, WaitView, run_view
from conductor.core.why import why
from conductor.core.words import WORDS
from conductor.testing import Play, task_of


def explain(play: Play, id: str) -> list[str]:
    return why(play.view, TaskId(id))


def test_before_any_run_there_is_nothing() -> None:
    view = run_view(State(), 0.0)
    assert (view.id, view.state, view.tasks, view.options) == (None, "never_run", (), None)
    assert view.counts == dict.fromkeys(WORDS, 0)


def test_the_run(play: Play) -> None:
    play.start("a", "b < a")
    view = play.view
    assert (view.id, view.state, view.project, view.reason) == (f"{1:016x}", "running", "/p", None)
    assert (view.started_at, view.ended_at) == (play.now + 1e9, None)
    assert [task.id for task in view.tasks] == ["a", "b"]
    assert sum(view.counts.values()) == 2
    play.result("a").result("b")
    assert play.view.ended_at == play.now + 1e9


def test_a_running_task(play: Play) -> None:
    play.start("a", retries=1)
    seen = play.seen("a")
    assert (seen.status, seen.attempts, seen.number, seen.worker) == ("running", 1, 1, play.attempt("a"))
    assert (seen.started_at, seen.ended_at, seen.exit, seen.error) == (play.now + 1e9, None, None, None)
    assert explain(play, "a") == [f"a is running: attempt 1, worker {play.attempt('a')}."]
    play.fact(ProgressReceived(TaskId("a"), play.attempt("a"), 40.0, "half way"))
    assert explain(play, "a")[1:] == ["It says: 40 % half way"]
    play.fact(ProgressReceived(TaskId("a"), play.attempt("a"), None, "more"))
    assert explain(play, "a")[1:] == ["It says: more"]
    play.result("a", "fails").timer("a")
    assert play.seen("a").attempts == 2
    assert play.seen("a").last_error == ErrorView("exit", "exit 1: boom")
    assert explain(play, "a")[1:] == ["Its last ended attempt: exit: exit 1: boom (0 retries are left)."]
    play.control("stop")
    assert explain(play, "a")[1] == "It is being stopped (stopped)."


def test_a_done_task(play: Play) -> None:
    play.start("a").result("a", seconds=2.5, report={"verb": "complete", "commit": "abc"})
    seen = play.seen("a")
    assert (seen.status, seen.exit, seen.commit, seen.worker) == ("done", {"code": 0, "signal": None}, "abc", None)
    assert explain(play, "a") == ["a is done: attempt 1 succeeded after 2.5 s; evidence: exit status and report."]


def test_a_ticked_task(play: Play) -> None:
    play.start("a", ticked_done=(TaskId("a"),))
    assert explain(play, "a") == ["a is done: its box in the plan was ticked, no attempt was made."]


def test_a_failed_task_and_what_it_blocks(play: Play) -> None:
    play.start("a", "b < a", "x", "c < x b", retries=0).result("a", "fails")
    assert play.seen("a").error == ErrorView("exit", "exit 1: boom")
    assert explain(play, "a") == ["a failed after 1 attempt: exit 1: boom [exit]."]
    assert play.seen("c").error is None
    assert explain(play, "c") == ["c is blocked: it needs b → a, which failed: exit 1: boom [exit]."]


def test_a_cancelled_task(play: Play) -> None:
    """Cancelling is a later verb; the state and its words are there."""
    play.start("a", "b < a", max_workers=1).result("a", "missing")
    state = play.machine.state
    before = state.tasks[TaskId("a")].status
    state.tasks[TaskId("a")].status = Cancelled("operator:me")
    assert play.seen("a").reason == "operator:me"
    assert explain(play, "a")[0] == "a was cancelled by operator:me."
    assert because_of(state.tasks[TaskId("a")]) == "needs a, which was cancelled"
    assert explain(play, "b") == ["b is blocked: it needs a, which was cancelled by operator:me."]
    state.tasks[TaskId("a")].status = before


def test_a_pending_task(play: Play) -> None:
    play.start("a", "b", "c < a b", "d < a c b").result("b")
    assert explain(play, "c") == ["c is pending: it needs a (running)."]
    assert explain(play, "d") == ["d is pending: it needs a (running) and c (pending)."]


def test_a_ready_task(play: Play) -> None:
    play.start("a", "b", "c < a", max_workers=1)
    assert play.seen("b").waits_for == ()
    assert explain(play, "b") == ["b is ready: all its dependencies are done, it lacks a free worker (1 are busy)."]
    play.control("drain", "operator:me")
    assert explain(play, "b") == ["b is ready, but nothing new is started: the run is being stopped."]
    play.result("a")
    assert explain(play, "b") == [
        "b is ready, but was not started before the run ended.",
        "The run has ended: stopped by operator:me. The next `conductor run` goes on with it.",
    ]


def test_a_pending_task_of_a_stopped_run(play: Play) -> None:
    play.start("a", "b < a").control("stop").result("a", "stopped")
    assert explain(play, "b")[1].startswith("The run has ended: stopped by signal:INT.")
    assert explain(play, "a")[2] == "Its last ended attempt: stopped: stopped: stopped (2 retries are left)."


def test_a_task_that_waits_for_a_file_or_a_resource(play: Play) -> None:
    play.start(
        task_of("a", files=("src/x.py",), resources=("db",)),
        task_of("b", files=("src/*",)),
        task_of("c", resources=("db",)),
    )
    assert play.seen("b").waits_for == (WaitView("conflict", "src/x.py", TaskId("a")),)
    assert play.seen("c").waits_for == (WaitView("resource", "db", TaskId("a")),)
    assert play.view.counts["waiting"] == 2
    assert explain(play, "b") == ["b waits for src/x.py, which task a (running) claims."]
    assert explain(play, "c") == ["c waits for resource db, which task a (running) claims."]


def test_a_task_that_waits_for_its_group(play: Play) -> None:
    play.start("a", "b", groups=(Group("pg-1", (TaskId("a"), TaskId("b")), max_workers=1),))
    assert play.seen("b").waits_for == (WaitView("group", "pg-1"),)
    assert explain(play, "b") == ["b waits for room in group pg-1, whose workers are all busy."]


def test_a_task_that_waits_before_its_next_attempt(play: Play) -> None:
    play.start("a", retry_delay=60.0, retries=2).result("a", "fails")
    (wait,) = play.seen("a").waits_for
    assert (wait.kind, wait.what, wait.holder) == ("backoff", "attempt 2", None)
    assert wait.seconds is not None
    assert wait.until == pytest.approx(play.now + 1e9 + wait.seconds)
    assert explain(play, "a") == [
        f"a waits for attempt 2, which begins in {wait.seconds:.0f} s.",
        "Its last ended attempt: exit: exit 1: boom (1 retry is left).",
    ]


def test_a_skipped_task(play: Play) -> None:
    play.start("a", "b", only=(TaskId("a"),))
    assert play.seen("b").reason == "not named by --only"
    assert explain(play, "b") == ["b was skipped: not named by --only."]


def test_a_task_that_is_not_in_the_plan(play: Play) -> None:
    play.start("a")
    with pytest.raises(KeyError):
        explain(play, "x")
