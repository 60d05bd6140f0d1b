"""What people see: the picture of a run, and the sentences that explain a task."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core.decide import because_of
from conductor.core.events import LaunchFailed, ProgressReceived
from conductor.core.state import State
from conductor.core.task import Cancelled, Group
from conductor.core.view import ErrorView, WaitView, planned_view, run_view
from conductor.core.why import LONGEST_PATH, MOST, waiting_text, why
from conductor.core.wording import duration
from conductor.core.words import WORDS
from conductor.testing import Play, plan_of, task_of


def explain(play: Play, id: str) -> list[str]:
    """At the wall clock of the story."""
    return why(play.view, TaskId(id), play.now + 1e9)


def test_before_any_run_there_is_nothing() -> None:
    view = run_view(State())
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
    assert (seen.ran, seen.estimate) == (True, None)
    play.now += 12
    assert explain(play, "a") == ["Attempt 1 runs for 12s."]
    play.fact(ProgressReceived(TaskId("a"), play.attempt("a"), 40.0, "half way"))
    assert explain(play, "a") == ["Attempt 1 runs for 13s, at 40 %: half way."]
    play.fact(ProgressReceived(TaskId("a"), play.attempt("a"), None, "more"))
    assert explain(play, "a") == ["Attempt 1 runs for 14s: more."]
    play.result("a", "fails").timer("a")
    assert play.seen("a").attempts == 2
    assert play.seen("a").last_error == ErrorView("exit", 'exit 1: "boom"')
    assert explain(play, "a")[1:] == ['The attempt before failed: exit 1: "boom"; no retry left.']
    play.control("stop")
    assert explain(play, "a")[0] == "Attempt 2 runs for 1.0s, being stopped."


def test_a_done_task(play: Play) -> None:
    play.start("a").result("a", seconds=2.5, report={"verb": "complete", "commit": "abc"})
    seen = play.seen("a")
    assert (seen.status, seen.exit, seen.commit, seen.worker) == ("done", {"code": 0, "signal": None}, "abc", None)
    assert explain(play, "a") == ["Done after 2.5s, commit abc; what tells: exit status, report."]


def test_a_ticked_task(play: Play) -> None:
    play.start("a", ticked_done=(TaskId("a"),))
    assert explain(play, "a") == ["Its box in the plan is ticked; no attempt was made."]


def test_a_failed_task_and_what_it_blocks(play: Play) -> None:
    play.start("a", "b < a", "x", "c < x b", retries=0).result("a", "fails")
    assert play.seen("a").error == ErrorView("exit", 'exit 1: "boom"')
    assert explain(play, "a") == ['Attempt 1 failed: exit 1: "boom".']
    assert play.seen("c").error is None
    assert explain(play, "c") == ['Needs b → a (Task a), which failed: exit 1: "boom".']


def test_a_cancelled_task(play: Play) -> None:
    """Cancelling is a later verb; the state and its words are there."""
    play.start("a", "b < a", max_workers=1).result("a", "missing")
    state = play.machine.state
    before = state.tasks[TaskId("a")].status
    state.tasks[TaskId("a")].status = Cancelled("operator:me")
    assert play.seen("a").reason == "operator:me"
    assert explain(play, "a")[0] == "Cancelled by me."
    assert because_of(state.tasks[TaskId("a")]) == "needs a, which was cancelled"
    assert explain(play, "b") == ["Needs a (Task a), which was cancelled by me."]
    state.tasks[TaskId("a")].status = before


def test_a_pending_task(play: Play) -> None:
    play.start("a", "b", "c < a b", "d < a c b").result("b")
    assert explain(play, "c") == ["Needs a, which is running."]
    assert explain(play, "d") == ["Needs a, which is running.", "Needs c → a, which is running."]


def test_a_ready_task(play: Play) -> None:
    play.start("a", "b", "c < a", max_workers=1)
    assert play.seen("b").waits_for == ()
    assert explain(play, "b") == ["It could start, but lacks a free worker: 1 worker busy."]
    play.control("drain", "operator:me")
    assert explain(play, "b") == [
        "It could start, but nothing new is started now.",
        "The run is being ended by me.",
    ]
    play.result("a")
    assert explain(play, "b") == ["The run has ended: stopped by me."]


def test_a_pending_task_of_a_stopped_run(play: Play) -> None:
    play.start("a", "b < a").control("stop").result("a", "stopped")
    assert explain(play, "b") == ["Needs a, which is ready.", "The run has ended: stopped by Ctrl-C."]
    assert explain(play, "a")[0] == "Attempt 1 was stopped; that uses up no retry."


def test_a_task_that_waits_for_a_file_or_a_resource(play: Play) -> None:
    play.start(
        task_of("a", files=("src/x.py",), resources=("db",)),
        task_of("b", files=("src/*",)),
        task_of("c", resources=("db",)),
    )
    assert play.seen("b").waits_for == (WaitView("conflict", "src/x.py", TaskId("a")),)
    assert play.seen("c").waits_for == (WaitView("resource", "db", TaskId("a")),)
    assert play.view.counts["waiting"] == 2
    assert explain(play, "b") == ["Waits for src/x.py, in use by a."]
    assert explain(play, "c") == ["Waits for db, in use by a."]


def test_a_task_that_waits_for_its_group(play: Play) -> None:
    play.start("a", "b", groups=(Group("pg-1", (TaskId("a"), TaskId("b")), max_workers=1),))
    assert play.seen("b").waits_for == (WaitView("group", "pg-1"),)
    assert explain(play, "b") == ["Waits for a place in group pg-1."]


def test_a_task_that_waits_before_its_next_attempt(play: Play) -> None:
    play.start("a", retry_delay=60.0, retries=2).result("a", "fails")
    (wait,) = play.seen("a").waits_for
    assert (wait.kind, wait.what, wait.holder) == ("backoff", "attempt 2", None)
    assert wait.until is not None
    assert wait.until > play.now + 1e9
    assert explain(play, "a") == [
        f"Tries again: attempt 2 in {duration(wait.until - play.now - 1e9)}.",
        'Attempt 1 failed: exit 1: "boom"; 1 retry left.',
    ]


def test_a_skipped_task(play: Play) -> None:
    play.start("a", "b", only=(TaskId("a"),))
    assert play.seen("b").reason == "not named by --only"
    assert explain(play, "b") == ["Skipped: not named by --only."]


def test_a_task_that_is_not_in_the_plan(play: Play) -> None:
    play.start("a")
    with pytest.raises(KeyError):
        explain(play, "x")


def test_a_plan_that_was_never_run() -> None:
    view = planned_view(plan_of("a", "b < a"))
    assert (view.state, view.id) == ("never_run", None)
    assert [task.status for task in view.tasks] == ["pending", "pending"]
    assert (view.counts["pending"], sum(view.counts.values())) == (2, 2)


def test_an_attempt_that_never_started_has_no_output(play: Play) -> None:
    play.start("a", retries=0).fact(LaunchFailed(TaskId("a"), play.attempt("a"), "no room"))
    assert not play.seen("a").ran


def test_a_task_after_one_that_waits_itself(play: Play) -> None:
    play.start(
        task_of("a", files=("x",)),
        task_of("b", files=("x", "y")),
        task_of("c", files=("y",)),
        task_of("d < b"),
        task_of("e < a"),
        task_of("f < e"),
    )
    assert explain(play, "c") == ["Waits for y, after b."]
    assert explain(play, "d") == ["Needs b, which is waiting."]
    assert waiting_text(WaitView("merge", "the merge"), None, 0.0) == "for the merge"


def test_nothing_new_is_started_once_the_run_gave_up(play: Play) -> None:
    play.start("a", "b", "c", max_workers=2, retries=0, fail_fast=True).result("a", "fails")
    assert explain(play, "c") == [
        "It could start, but nothing new is started: a task failed, and --fail-fast starts nothing more then."
    ]


def test_long_paths_and_many_causes_are_cut(play: Play) -> None:
    chain = ["n0", *(f"n{number} < n{number - 1}" for number in range(1, LONGEST_PATH + 4))]
    tops = [f"t{number}" for number in range(MOST + 2)]
    play.start(*chain, *tops, f"last < {' '.join(tops)}", retries=0, max_workers=20)
    assert explain(play, f"n{LONGEST_PATH + 3}") == ["Needs n8 → n7 → n6 → … 4 more … → n1 → n0, which is running."]
    assert explain(play, "last")[MOST:] == ["And 2 more."]
    for top in tops:
        play.result(top, "fails")
    assert len(explain(play, "last")) == MOST + 1
    assert explain(play, "last")[-1] == "And 2 more."
