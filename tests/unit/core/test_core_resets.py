"""Starting over: what a reset takes back, what it keeps, and when it means nothing."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bus.wire import TaskId
from conductor.core.events import ControlReceived, WorkerDispatched
from conductor.core.resets import affected
from conductor.core.state import State
from conductor.core.task import Backoff, Done
from conductor.testing import Play, random_plan


def reset(play: Play, *named: str) -> Play:
    """Reset as `conductor reset` records it: the whole track, or tasks with all that depends on them."""
    if not named:
        return play.fact(ControlReceived("reset", "operator:me"))
    for name in named:
        tasks = affected(play.machine.state, [TaskId(name)])
        play.fact(ControlReceived("reset", "operator:me", name, None, tasks))
    return play


def test_a_reset_of_everything_forgets_all_but_the_numbers_of_attempts(play: Play) -> None:
    play.start("a", "b < a", retries=0).result("a").result("b", "fails")
    reset(play)
    assert play.view.state == "never_run"
    assert (play.view.project, play.view.tasks) == (None, ())
    at = play.view.reset_at
    assert at is not None
    assert play.machine.state == State(retired={TaskId("a"): 1, TaskId("b"): 1}, reset_at=at)
    play.start("a", "b < a")
    assert play.view.reset_at is None
    assert play.attempt("a").startswith("a~2-")
    play.result("a").result("b")
    assert play.view.state == "done"


def test_a_reset_of_a_task_takes_back_all_that_depends_on_it_near_or_far(play: Play) -> None:
    play.start("a", "b < a", "c < b", "d", retries=0)
    for id in "adbc":
        play.result(id)
    assert affected(play.machine.state, [TaskId("b")]) == ("b", "c")
    reset(play, "b")
    assert play.statuses == {"a": "done", "b": "ready", "c": "pending", "d": "done"}
    assert (play.seen("b").attempts, play.seen("b").error, play.seen("b").worker) == (0, None, None)
    assert (play.view.state, play.view.reason, play.view.stopped_by) == ("stopped", "reset", "operator:me")
    play.start("a", "b < a", "c < b", "d", retries=0)
    assert play.attempt("b").startswith("b~2-")
    play.result("b").result("c")
    assert play.view.state == "done"


def test_a_reset_gives_a_failed_task_and_what_it_blocked_a_fresh_start(play: Play) -> None:
    play.start("a", "b < a", "c < b", retries=1).result("a", "fails").timer("a").result("a", "fails")
    reset(play, "a")
    assert play.statuses == {"a": "ready", "b": "pending", "c": "pending"}
    assert play.machine.state.tasks[TaskId("a")].used == 0


def test_what_a_failed_task_blocks_stays_blocked_unless_that_one_is_reset(play: Play) -> None:
    play.start("a", "b < a", "c < b", retries=0).result("a", "fails")
    assert affected(play.machine.state, [TaskId("b")]) == ()
    assert affected(play.machine.state, [TaskId("a")]) == ("a", "b", "c")


def test_a_done_task_below_a_failed_one_is_blocked_once_it_is_reset(play: Play) -> None:
    """It was done before the plan made it depend on the failed one."""
    play.start("a", "b").result("a").result("b")
    reset(play, "a").start("a", "b < a", "c < b", retries=0).result("a", "fails").result("c")
    reset(play, "b")
    assert play.statuses == {"a": "failed", "b": "blocked", "c": "blocked"}
    assert play.seen("c").blocked_by == ("a",)


def test_a_reset_while_a_round_is_under_way_means_nothing(play: Play) -> None:
    play.start("a", "b < a")
    before = play.statuses
    reset(play)
    play.fact(ControlReceived("reset", "operator:me", "a", None, (TaskId("a"),)))
    assert play.statuses == before
    assert play.machine.state.ignored == {"CONTROL": 2}
    assert play.decided == []


def test_a_reset_of_a_track_that_never_ran_means_nothing(play: Play) -> None:
    reset(play)
    assert play.machine.state.ignored == {"CONTROL": 1}


def test_a_reset_task_that_the_plan_does_not_have_any_more_is_passed_over(play: Play) -> None:
    play.start("a").result("a")
    play.fact(ControlReceived("reset", "operator:me", "x", None, (TaskId("x"),)))
    assert play.statuses == {"a": "done"}
    assert play.view.state == "done"


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_resets_between_rounds_of_any_plan_keep_every_promise(seed: int) -> None:
    """The invariants are checked after each fact, and a replay of it all gives the same state."""
    random = Random(seed)
    plan = random_plan(random, random.randint(1, 10))
    play = Play()
    for _ in range(4):
        play.start(plan, retries=random.choice([0, 1]), fail_fast=random.random() < 0.2)
        while not play.machine.ended:
            if play.running and random.random() < 0.9:
                play.result(random.choice(play.running), random.choice(["ok", "ok", "fails", "missing"]))
            elif waiting := [task.id for task in play.machine.state.order if isinstance(task.status, Backoff)]:
                play.timer(random.choice(waiting))
            elif random.random() < 0.1:
                play.control("drain")
        done = [task.id for task in play.machine.state.order if isinstance(task.status, Done)]
        named = random.choice([None, *plan.tasks])
        reset(play, *([named.id] if named else []))
        if named is not None and named.id in done:
            assert not isinstance(play.machine.state.tasks[named.id].status, Done)
    launched = [event.attempt for _, event in play.journal if isinstance(event, WorkerDispatched)]
    assert len(set(launched)) == len(launched), "an attempt was named twice"
    assert play.replayed().digest() == play.machine.digest()
