"""A round from its start to its end: order, retries, isolation of failures, what is instructed."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core.events import (
    AttemptEnded,
    ControlReceived,
    LaunchFailed,
    ProgressReceived,
    ReportReceived,
    RetryScheduled,
    RunEnded,
    TaskBlocked,
    TaskCompleted,
    TaskFailed,
)
from conductor.core.instructions import CloseAttempt, LaunchWorker
from conductor.core.state import MAX_PROGRESS
from conductor.testing import Play, task_of

A = TaskId("a")


def test_a_diamond_runs_in_the_order_of_its_dependencies(play: Play) -> None:
    play.start("a", "b < a", "c < a", "d < b c")
    assert play.launched == ["a"]
    play.result("a")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_COMPLETE a", "WORKER_DISPATCHED b", "WORKER_DISPATCHED c"]
    assert play.decided[1] == TaskCompleted(A, play.attempt("a"), A, None, (), (TaskId("b"), TaskId("c")))
    play.result("c")
    assert play.launched == []
    play.result("b")
    assert play.launched == ["d"]
    play.result("d")
    assert play.decided[-1] == RunEnded("done", None, dict(play.view.counts))
    assert play.machine.ended
    assert play.view.counts["done"] == 4


def test_an_end_is_judged_settled_and_closed_and_the_next_one_launched(play: Play) -> None:
    play.start("a", "b", max_workers=1)
    attempt = play.attempt("a")
    play.result("a", seconds=2.5)
    (ended, _, dispatched) = play.decided
    assert isinstance(ended, AttemptEnded)
    assert (ended.error_class, ended.started, ended.counted, ended.seconds) == (None, True, False, 2.5)
    assert ended.exit == {"code": 0, "signal": None}
    assert ended.evidence == {"exit_status": True, "report": None, "verify": None, "outputs": None, "leftovers": []}
    b = play.attempt("b")
    nonce = b[-8:]
    assert dispatched.attempt == b == f"b~1-{nonce}"  # type: ignore[union-attr]
    assert play.told == [CloseAttempt(A, attempt), LaunchWorker(TaskId("b"), b, 1, nonce)]


def test_no_more_than_max_workers_run(play: Play) -> None:
    play.start(*"abcdefg")
    assert play.launched == list("abcde")
    assert play.result("c").launched == ["f"]


def test_an_empty_plan_is_done_at_once(play: Play) -> None:
    from conductor.core.task import Plan

    play.start(Plan(()))
    assert play.words == ["RUN_ENDED"]
    assert play.view.state == "done"


def test_a_retry_waits_for_its_timer_and_counts(play: Play) -> None:
    play.start("a", retries=2)
    first = play.attempt("a")
    play.result("a", "fails")
    assert play.words == ["ATTEMPT_ENDED a", "RETRY_SCHEDULED a"]
    assert play.timers == ["retry:a"]
    assert play.statuses == {"a": "waiting"}
    play.timer("a")
    assert play.launched == ["a"]
    assert play.attempt("a") != first
    assert play.attempt("a").startswith("a~2-")
    play.result("a", "fails").timer("a").result("a", "fails")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_FAILED a", "RUN_ENDED"]
    assert play.decided[1] == TaskFailed(A, play.attempt("a"), A, 'exit 1: "boom"', "exit")
    assert play.seen("a").attempts == 3


def test_a_tasks_own_retries_win(play: Play) -> None:
    play.start(task_of("a", retries=0), retries=5)
    assert play.result("a", "fails").words == ["ATTEMPT_ENDED a", "TASK_FAILED a", "RUN_ENDED"]


@pytest.mark.parametrize("how", ["revoked", "gone", "launch"])
def test_attempts_that_never_started_use_no_retry_but_have_a_ceiling_of_5(play: Play, how: str) -> None:
    play.start("a", retries=0)
    for _ in range(5):
        _never_start(play, how)
        assert play.words[-1] == "RETRY_SCHEDULED a"
        play.timer("a")
    _never_start(play, how)
    assert "TASK_FAILED a" in play.words
    assert play.seen("a").attempts == 0


def _never_start(play: Play, how: str) -> None:
    if how == "revoked":
        play.result("a", "revoked")
    elif how == "gone":
        play.gone("a", started=False)
    else:
        play.fact(LaunchFailed(A, play.attempt("a"), "no memory"))
    ended = play.decided[0]
    assert isinstance(ended, AttemptEnded)
    assert (ended.started, ended.counted) == (False, False)


def test_counted_and_uncounted_ends_have_their_own_budgets(play: Play) -> None:
    play.start("a", retries=1)
    for _ in range(5):
        play.gone("a", started=False).timer("a")
    play.result("a", "fails")
    assert play.words[-1] == "RETRY_SCHEDULED a"
    play.timer("a").result("a", "fails")
    assert "TASK_FAILED a" in play.words


def test_a_command_that_does_not_exist_is_not_tried_again(play: Play) -> None:
    play.start("a", retries=3).result("a", "missing")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_FAILED a", "RUN_ENDED"]
    error = play.seen("a").error
    assert error is not None
    assert (error.error_class, play.seen("a").attempts) == ("spawn", 0)


def test_a_lost_worker_is_counted(play: Play) -> None:
    play.start("a", retries=1).gone("a")
    (_, retry) = play.decided
    assert isinstance(retry, RetryScheduled)
    assert retry.error_class == "lost"
    assert play.timer("a").gone("a").words[1] == "TASK_FAILED a"


def test_everything_downstream_of_a_failure_is_blocked_by_name_and_the_rest_goes_on(play: Play) -> None:
    play.start("z < b", "a", "b < a", "c < b", "d", "e < d", retries=0, max_workers=1)
    play.result("a", "fails")
    assert play.words == [
        "ATTEMPT_ENDED a",
        "TASK_FAILED a",
        "TASK_BLOCKED z",
        "TASK_BLOCKED b",
        "TASK_BLOCKED c",
        "WORKER_DISPATCHED d",
    ]
    assert play.decided[2] == TaskBlocked(TaskId("z"), TaskId("z"), (A,), "needs a, which failed (exit 1)")
    play.result("d").result("e")
    assert play.words[-1] == "RUN_ENDED"
    assert play.view.state == "failed"
    assert (play.view.counts["done"], play.view.counts["blocked"], play.view.counts["failed"]) == (2, 3, 1)


def test_attempts_that_were_told_to_stop_are_known_as_long_as_they_hold_a_slot(play: Play) -> None:
    play.start("a", "b", max_workers=2)
    assert play.machine.state.stopping_attempts() == []
    play.fact(ControlReceived("stop", "signal:TERM"))
    assert play.machine.state.stopping_attempts() == [play.attempt("a"), play.attempt("b")]
    play.result("a")
    assert play.machine.state.stopping_attempts() == [play.attempt("b")]


def test_a_task_with_two_failed_ancestors_names_both(play: Play) -> None:
    play.start("a", "b", "c < a", "d < b c", retries=0)
    play.result("b", "fails").result("a", "fails")
    blocked = [event for _, event in play.journal if isinstance(event, TaskBlocked)]
    assert [(one.task, one.blocked_by) for one in blocked] == [("d", ("b",)), ("c", ("a",))]  # as known at that time
    assert play.seen("d").blocked_by == ("a", "b")
    assert play.seen("c").blocked_by == ("a",)


def test_a_report_gives_commit_and_files(play: Play) -> None:
    play.start("a")
    report = {"verb": "complete", "commit": "abc", "files": ["x.py"]}
    play.fact(ProgressReceived(A, play.attempt("a"), 40.0, "half"))
    assert (play.seen("a").progress_pct, play.seen("a").progress_text) == (40.0, "half")
    play.fact(ReportReceived(A, play.attempt("a"), report)).result("a")
    completed = play.decided[1]
    assert isinstance(completed, TaskCompleted)
    assert (completed.commit_sha, completed.files_modified) == ("abc", ("x.py",))
    assert play.seen("a").commit == "abc"


def test_of_a_long_report_of_progress_the_beginning_is_kept(play: Play) -> None:
    """The journal holds all of it; the state, and with it every snapshot, holds one text for each task."""
    play.start("a").fact(ProgressReceived(A, play.attempt("a"), None, "x" * 900_000))
    assert play.seen("a").progress_text == "x" * MAX_PROGRESS


def test_the_report_in_the_exit_record_is_the_last_word(play: Play) -> None:
    play.start("a").fact(ReportReceived(A, play.attempt("a"), {"verb": "fail", "message": "no"}))
    play.result("a", report={"verb": "complete", "commit": "abc", "files": None})
    assert play.seen("a").commit == "abc"


def test_leftovers_policy_fail(play: Play) -> None:
    left = {"killed": [{"pid": 7, "name": "node"}], "kept": []}
    play.start(task_of("a", leftovers="fail"), "b", retries=0)
    play.result("b", leftovers=left).result("a", leftovers=left)
    assert play.statuses == {"a": "failed", "b": "done"}


def test_fail_fast_starts_nothing_new_lets_running_ones_end_and_skips_the_rest(play: Play) -> None:
    play.start("a", "b", "c", "d < c", "e < a", retries=1, max_workers=3, fail_fast=True)
    play.result("b", "fails")
    assert play.words == ["ATTEMPT_ENDED b", "RETRY_SCHEDULED b"]  # no final failure yet
    play.result("a", "missing")
    assert play.words == ["ATTEMPT_ENDED a", "TASK_FAILED a", "RUN_GAVE_UP", "TASK_BLOCKED e"]
    assert play.running == ["c"]
    play.timer("b")
    assert play.launched == []
    play.result("c")
    assert play.words == ["ATTEMPT_ENDED c", "TASK_COMPLETE c", "TASK_SKIPPED b", "TASK_SKIPPED d", "RUN_ENDED"]
    assert play.decided[-1] == RunEnded("failed", "fail_fast", dict(play.view.counts))
    assert play.seen("d").reason == "fail_fast"


def test_fail_fast_skips_what_would_have_been_retried(play: Play) -> None:
    play.start("a", "b", retries=1, fail_fast=True)
    play.result("a", "missing").result("b", "fails")
    assert play.words == ["ATTEMPT_ENDED b", "TASK_SKIPPED b", "RUN_ENDED"]
    assert play.seen("b").last_error is not None


def test_fail_fast_cancels_the_timer_of_a_skipped_task(play: Play) -> None:
    play.start("a", "b", retries=1, fail_fast=True)
    play.result("a", "fails").result("b", "missing")
    assert play.words == ["ATTEMPT_ENDED b", "TASK_FAILED b", "RUN_GAVE_UP", "TASK_SKIPPED a", "RUN_ENDED"]
    assert play.timers == ["-retry:a"]


def test_determinism_feeding_the_facts_gives_the_decisions_byte_for_byte(play: Play) -> None:
    from typing import get_args

    from conductor.core.events import Fact

    play.start("a", "b < a", "c", task_of("d", files=("x",)), task_of("e", files=("x",)), retries=1, seed=7)
    play.result("c", "fails").result("a").timer("c").result("d").result("b", "fails").result("c").timer("b")
    play.result("e").result("b", "fails")
    assert play.machine.ended
    other = Play()
    other.plans = play.plans
    for now, event in play.journal:
        if isinstance(event, get_args(Fact)):
            other.fact(event, after=now - other.now)
    assert other.records() == play.records()


def test_seeds_change_nonces_and_delays_only(play: Play) -> None:
    play.start("a", seed=1).result("a", "fails")
    other = Play().start("a", seed=2).result("a", "fails")
    assert play.attempt("a") != other.attempt("a")
    assert play.words == other.words
