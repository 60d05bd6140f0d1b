"""Rounds after the first, `--only`, `--skip-ticked`, and a conductor that died."""

from __future__ import annotations

from typing import Any

import pytest

from bus.wire import AttemptId, TaskId
from conductor.core.events import AttemptAdopted, LaunchFailed, ResultReceived, RunResumed, TaskCompleted, WorkerGone
from conductor.core.instructions import StartTimer, TerminateWorker
from conductor.core.schedule import only_missing
from conductor.core.task import RunOptions
from conductor.core.view import ErrorView
from conductor.testing import Play, ending, plan_of, task_of


def resume(play: Play, *, after: float = 1.0, **options: Any) -> Play:
    """Let a new conductor take over: a fresh machine that replayed the journal."""
    play.machine = play.replayed()
    return play.fact(RunResumed("0" * 16, RunOptions(**options), len(play.journal)), after=after)


def test_a_new_round_repeats_what_is_not_done_with_fresh_budgets(play: Play) -> None:
    plan = plan_of("a", "b", "c < b", task_of("d", retries=0), "e < d")
    play.start(plan, retries=1, fail_fast=False)
    play.result("a").result("b", "fails").timer("b").result("b", "fails").result("d", "fails")
    assert play.statuses == {"a": "done", "b": "failed", "c": "blocked", "d": "failed", "e": "blocked"}
    numbers = {play.attempt("b"), play.attempt("d")}
    play.start(plan, retries=1)
    assert play.launched == ["b", "d"]
    assert play.attempt("b").startswith("b~3-")
    assert not numbers & {play.attempt("b"), play.attempt("d")}
    play.result("b", "fails")
    assert play.words[-1] == "RETRY_SCHEDULED b"  # a fresh budget
    play.timer("b").result("b").result("d").result("c").result("e")
    assert play.view.state == "done"
    assert play.seen("b").attempts == 4


def test_nothing_to_do_ends_the_round_at_once(play: Play) -> None:
    plan = plan_of("a")
    play.start(plan).result("a").start(plan)
    assert play.words == ["RUN_ENDED"]
    assert play.view.state == "done"


def test_a_changed_plan_adds_removes_and_keeps_what_is_done(play: Play) -> None:
    play.start("a", "b", "c < a", retries=0).result("a").result("b", "fails").result("c")
    play.start("n", task_of("a", files=("other",)), "c < a n")
    assert play.launched == ["n"]
    assert play.statuses == {"n": "running", "a": "done", "c": "done"}
    play.result("n")
    assert play.view.state == "done"
    play.start("n", "a", "b < n", "c")
    assert play.attempt("b").startswith("b~2-")  # a task that comes back does not use its numbers again
    play.result("b")


def test_a_late_result_of_an_earlier_round_is_ignored(play: Play) -> None:
    play.start("a", retries=0)
    old = play.attempt("a")
    play.gone("a").start("a").fact(ResultReceived(TaskId("a"), old, ending()))
    assert play.running == ["a"]
    play.result("a")


def test_only_skips_the_others_and_a_skip_never_blocks(play: Play) -> None:
    play.start("a", "b < a", "c", "d < c", only=(TaskId("a"), TaskId("b")))
    assert play.words == ["TASK_SKIPPED c", "TASK_SKIPPED d", "WORKER_DISPATCHED a"]
    assert play.seen("c").reason == "not named by --only"
    play.result("a").result("b")
    assert play.view.state == "done"
    play.start("a", "b < a", "c", "d < c")
    assert play.launched == ["c"]
    play.result("c").result("d")


def test_only_with_an_open_dependency_outside_ends_as_skipped(play: Play) -> None:
    play.start("a", "b < a", only=(TaskId("b"),))  # refused by the command line, harmless here
    assert play.words == ["TASK_SKIPPED a", "TASK_SKIPPED b", "RUN_ENDED"]
    assert play.seen("b").reason == "needs a, which was skipped"
    assert play.view.state == "failed"


def test_only_keeps_failures_apart(play: Play) -> None:
    play.start("a", "b", only=(TaskId("a"),), retries=0).result("a", "fails")
    assert play.view.state == "failed"


def test_only_missing_names_dependencies_neither_done_nor_named(play: Play) -> None:
    play.start("a", "b", "c < a b", "d < c", only=(TaskId("a"),)).result("a")
    state = play.machine.state
    assert only_missing(state, state.plan, ["c"]) == ["b"]  # type: ignore[list-item]
    assert only_missing(state, state.plan, ["d", "c", "b"]) == []  # type: ignore[list-item]
    assert only_missing(state, state.plan, ["d"]) == ["c"]  # type: ignore[list-item]


def test_ticked_tasks_are_taken_as_done_without_an_attempt(play: Play) -> None:
    play.start("a", "b < a", "c < b", ticked_done=(TaskId("b"), TaskId("a"), TaskId("nobody")))
    assert play.words == ["TASK_COMPLETE a", "TASK_COMPLETE b", "WORKER_DISPATCHED c"]
    assert play.decided[0] == TaskCompleted(TaskId("a"), None, TaskId("a"), None, (), (TaskId("b"),))
    assert (play.seen("a").attempts, play.seen("a").evidence) == (0, None)
    play.result("c")


def test_a_ticked_task_may_be_done_before_its_dependency(play: Play) -> None:
    play.start("a", "b < a", "c < b", ticked_done=(TaskId("b"),))
    assert play.running == ["a", "c"]
    play.result("c").result("a", "missing")
    assert play.statuses == {"a": "failed", "b": "done", "c": "done"}


def test_nothing_starts_before_every_running_attempt_was_found_again(play: Play) -> None:
    play.start(*"abcdef", max_workers=4)
    attempts = {id: play.attempt(id) for id in "abcd"}
    resume(play, max_workers=5)
    assert (play.told, play.decided) == ([], [])
    assert play.machine.state.reconciling_attempts() == list(attempts.items())
    play.fact(AttemptAdopted(TaskId("a"), attempts["a"]))
    assert play.launched == []
    play.result("b")
    assert play.words == ["ATTEMPT_ENDED b", "TASK_COMPLETE b"]
    play.fact(WorkerGone(TaskId("c"), attempts["c"], True, "dead"))
    assert play.words == ["ATTEMPT_ENDED c", "RETRY_SCHEDULED c"]
    play.fact(LaunchFailed(TaskId("d"), attempts["d"], "never launched"))
    assert play.launched == ["e", "f"]
    assert play.machine.state.reconciling_attempts() == []
    assert play.view.state == "running"


@pytest.mark.parametrize(
    ("passed", "left"),
    [(0.25, "rest"), (1000.0, "nothing")],
    ids=["rest", "nothing"],
)
def test_timers_are_armed_again_with_what_remains(play: Play, passed: float, left: str) -> None:
    play.start("a", retry_delay=60.0, seed=3).result("a", "fails")
    (timer,) = [one for one in play.told if isinstance(one, StartTimer)]
    assert timer.seconds > 1
    resume(play, after=passed)
    expected = {"rest": timer.seconds - 0.25, "nothing": 0.0}[left]
    assert play.told == [StartTimer("retry:a", pytest.approx(expected))]
    play.timer("a").result("a")


def test_what_a_dead_conductor_left_is_done_again_though_another_fact_comes_before_any_decision(play: Play) -> None:
    """An edit of the plan, or an order to end the run, is recorded together with RUN_RESUMED."""
    play.start("a", "b").result("a", "fails")
    machine = play.replayed()
    (told,) = machine.handle(RunResumed("0" * 16, RunOptions(), len(play.journal)), play.now, decides=False)
    assert isinstance(told, StartTimer)
    play.control("stop")
    machine = play.replayed()
    told = machine.handle(RunResumed("0" * 16, RunOptions(), len(play.journal)), play.now, decides=False)
    assert told[0] == TerminateWorker(TaskId("b"), play.attempt("b"), "stopped")


def test_stops_that_were_decided_are_instructed_again(play: Play) -> None:
    play.start("a", "b").control("stop")
    a, b = play.attempt("a"), play.attempt("b")
    resume(play)
    again = [TerminateWorker(TaskId("a"), a, "stopped"), TerminateWorker(TaskId("b"), b, "stopped")]
    assert play.told == again
    play.fact(AttemptAdopted(TaskId("a"), a))
    assert play.told == again[:1]  # once more, now that somebody watches it
    play.result("a", "stopped").gone("b")
    assert play.running == ["a", "b"]  # the stop was meant for the conductor that died; the new run goes on
    play.result("a").result("b")


def test_an_adopted_attempt_that_is_not_stopped_needs_nothing(play: Play) -> None:
    play.start("a")
    attempt = play.attempt("a")
    resume(play).fact(AttemptAdopted(TaskId("a"), attempt))
    assert play.told == []
    play.fact(AttemptAdopted(TaskId("a"), AttemptId("a~7-00000000"))).result("a")


def test_options_of_the_new_command_line_hold_from_then_on(play: Play) -> None:
    play.start(*"abc", max_workers=1, retries=0, fail_fast=False)
    attempt = play.attempt("a")
    resume(play, max_workers=3, retries=2).fact(AttemptAdopted(TaskId("a"), attempt))
    assert play.running == ["a", "b", "c"]
    play.result("a", "fails")
    assert play.words[-1] == "RETRY_SCHEDULED a"


def test_fewer_workers_after_a_resume_let_the_running_ones_end(play: Play) -> None:
    play.start(*"abcde", max_workers=4)
    attempts = {id: play.attempt(id) for id in "abcd"}
    resume(play, max_workers=1)
    for id, attempt in attempts.items():
        play.fact(AttemptAdopted(TaskId(id), attempt))
    play.result("a").result("b").result("c")
    assert play.launched == []
    assert play.result("d").launched == ["e"]


def test_fail_fast_may_come_with_the_new_options(play: Play) -> None:
    play.start("a", "b", "c", max_workers=2, retries=0).result("a", "fails")
    attempts = {id: play.attempt(id) for id in "bc"}
    resume(play, fail_fast=True)
    for id, attempt in attempts.items():
        play.fact(AttemptAdopted(TaskId(id), attempt))
    play.result("b", "fails").result("c")
    assert play.view.reason == "fail_fast"


def test_fail_fast_may_go_with_the_new_options(play: Play) -> None:
    play.start("a", "b", "c", max_workers=2, retries=0, fail_fast=True).result("a", "fails")
    b = play.attempt("b")
    resume(play).fact(AttemptAdopted(TaskId("b"), b))
    assert play.launched == ["c"]
    play.result("b").result("c")


def test_only_of_a_resume_skips_what_waits_and_what_comes_back(play: Play) -> None:
    play.start(*"abc", max_workers=1)
    a = play.attempt("a")
    resume(play, only=(TaskId("b"),))
    assert play.words == ["TASK_SKIPPED c"]
    play.fact(AttemptAdopted(TaskId("a"), a))
    play.result("a", "fails")
    assert play.words == ["ATTEMPT_ENDED a", "RETRY_SCHEDULED a", "TASK_SKIPPED a"]
    play.result("b")


def test_a_journal_cut_anywhere_leads_to_exactly_the_missing_decisions(play: Play) -> None:
    from typing import get_args

    from conductor.core.events import ControlReceived, Decision

    play.start("a", "b < a", "c < a", "d", task_of("e", retries=0), "f < e", "g < f", "h", max_workers=3)
    play.result("a").result("d", "fails").timer("d").result("e", "fails").result("b").control("stop")
    records = play.records()
    kinds = [isinstance(event, get_args(Decision)) for _, event in play.journal]
    for cut in range(1, len(records)):
        end = next((at for at in range(cut, len(kinds)) if not kinds[at]), len(kinds))
        now = play.journal[cut - 1][0]
        machine = play.replayed(records[:cut])
        instructions = machine.handle(ControlReceived("unknown", "operator:me"), now, wall=now + 1e9)
        made = [one.decision for one in instructions if hasattr(one, "decision")]
        assert made == [event for _, event in play.journal[cut:end]], f"cut behind {cut} records"


def test_a_stop_without_a_conductor_starts_nothing(play: Play) -> None:
    """`conductor stop` takes a dead run over only to end it: RUN_RESUMED is only applied."""
    play.start("a", "b", "c", max_workers=2).result("a", "fails")
    b, c = play.attempt("b"), play.attempt("c")
    play.machine = play.replayed()
    resumed = RunResumed("0" * 16, RunOptions(max_workers=2), len(play.journal))
    play.machine.replay(resumed, play.now, wall=play.now + 1e9)
    play.journal.append((play.now, resumed))
    play.control("stop")
    assert (play.launched, play.terminated) == ([], ["b", "c"])
    play.fact(AttemptAdopted(TaskId("b"), b)).fact(WorkerGone(TaskId("c"), c, True, "dead")).result("b", "stopped")
    assert play.view.state == "stopped"
    assert play.statuses == {"a": "ready", "b": "ready", "c": "ready"}


def test_requirement_23_what_a_reboot_ended_uses_no_retry(play: Play) -> None:
    play.start("a", retries=0).fact(WorkerGone(TaskId("a"), play.attempt("a"), True, "another boot", reboot=True))
    assert play.words == ["ATTEMPT_ENDED a", "RETRY_SCHEDULED a"]
    assert (play.seen("a").attempts, play.seen("a").retries_left) == (1, 0)
    assert play.seen("a").last_error == ErrorView("reboot", "the machine was restarted meanwhile: another boot")
    assert play.machine.state.open_attempts() == []
    play.timer("a")
    assert play.machine.state.open_attempts() == [play.attempt("a")]
    play.result("a")
