"""Deadlocks of every kind: found, named, and ended by one victim; what only looks like one is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from bus.wire import TaskId
from conductor.core.events import TimerFired
from conductor.core.instructions import StartTimer
from conductor.core.task import Group, RunOptions
from conductor.core.wait_events import DeadlockDetected
from conductor.testing import Play, task_of


def detected(play: Play) -> DeadlockDetected:
    found = [one for one in play.decided if isinstance(one, DeadlockDetected)]
    assert len(found) == 1, play.words
    return found[0]


def members(found: DeadlockDetected) -> dict[str, list[tuple[str, str]]]:
    return {one["task"]: [(wait["kind"], wait["what"]) for wait in one["waits_for"]] for one in found.members}


def two_locks(play: Play, **options: Any) -> None:
    play.start("a", "b", **options)
    play.holds("a", "x")
    play.holds("b", "y")
    play.waits("a", "lock", "y")
    assert play.words == []
    play.waits("b", "lock", "x")


def test_requirement_12_two_locks_taken_crosswise_are_named_and_the_youngest_is_stopped(play: Play) -> None:
    two_locks(play)
    found = detected(play)
    assert play.words == ["DEADLOCK_DETECTED b", "STOP b"]
    assert play.terminated == ["b"]
    assert members(found) == {"a": [("lock", "y")], "b": [("lock", "x")]}
    assert found.members[0]["waits_for"] == [{"kind": "lock", "what": "y", "holder": play.attempt("b")}]
    assert (found.victim, found.rule, len(found.id)) == (play.attempt("b"), "youngest", 8)
    play.result("b", "stopped")
    assert play.words == ["ATTEMPT_ENDED b", "RETRY_SCHEDULED b", "DEADLOCK_RESOLVED b"]
    assert play.seen("b").retries_left == 2
    assert play.seen("b").last_error is not None
    assert play.seen("b").last_error.message == "stopped: to end a deadlock with a"
    play.result("a").timer("b").result("b")
    assert play.view.state == "done"


@pytest.mark.parametrize(("rule", "victim"), [("youngest", "b"), ("oldest", "a"), ("fewest-locks", "b")])
def test_the_victim_is_chosen_by_rule(play: Play, rule: str, victim: str) -> None:
    two_locks(play, deadlock_victim=rule)
    assert play.terminated == [victim]


def test_fewest_locks_counts_keys_and_not_grants(play: Play) -> None:
    play.start("a", "b", deadlock_victim="fewest-locks")
    play.holds("a", "x")
    play.holds("b", "y", "z")
    play.waits("a", "lock", "y")
    play.waits("b", "lock", "x")
    assert play.terminated == ["a"]


def test_requirement_12_three_locks_in_a_ring_are_one_deadlock_and_who_waits_behind_it_is_no_member(play: Play) -> None:
    play.start("a", "b", "c", "d")
    for id, key in (("a", "x"), ("b", "y"), ("c", "z")):
        play.holds(id, key)
    play.waits("d", "lock", "x")
    play.waits("a", "lock", "y")
    play.waits("b", "lock", "z")
    play.waits("c", "lock", "x")
    assert members(detected(play)).keys() == {"a", "b", "c"}
    assert play.terminated == ["c"]


def test_requirement_12_a_lock_and_a_wait_on_the_task_that_waits_for_it(play: Play) -> None:
    play.start("a", "b")
    play.holds("a", "x")
    play.waits("b", "lock", "x")
    assert play.words == []
    play.waits("a", "task", "b")
    found = detected(play)
    assert members(found) == {"a": [("task", "b")], "b": [("lock", "x")]}
    assert found.members[0]["waits_for"][0]["holder"] == play.attempt("b")
    assert play.terminated == ["a"]  # if the youngest were stopped, it would wait for the same lock again
    play.result("a", "stopped").result("b").timer("a")
    assert play.launched == ["a"]


def test_requirement_12_a_pool_whose_workers_all_wait_for_a_task_without_a_slot(play: Play) -> None:
    play.start(*"abcde", "f", *"ghijk", max_workers=5)
    for id in "abcd":
        play.waits(id, "task", "f")
    assert play.words == []
    play.waits("e", "task", "f")
    found = detected(play)
    assert members(found) == {id: [("task", "f"), ("pool", "f")] for id in "abcde"}
    assert play.terminated == ["e"]
    play.result("e", "stopped")
    assert play.launched == ["f"]  # before all that would come first by priority
    play.result("f")
    assert play.launched == ["g"]


def test_a_pool_of_one_runs_what_its_worker_waits_for_before_it_tries_again(play: Play) -> None:
    play.start("a", "y < a", "z < y", *"bcd", "f", "g < f", max_workers=1)
    wait = play.waits("a", "task", "g")
    assert play.words == ["DEADLOCK_DETECTED a", "STOP a"]
    play.result("a", "stopped")
    assert play.launched == ["f"]
    play.waits_no_more("a", wait).timer("a").result("f")
    assert play.launched == ["g"]
    play.result("g")
    assert play.launched == ["a"]
    assert play.machine.state.wanted == {}


def test_a_task_that_waits_for_its_own_dependant_is_in_a_deadlock_with_itself(play: Play) -> None:
    play.start("a", "b < a")
    play.waits("a", "task", "b")
    assert members(detected(play)) == {"a": [("task", "b")]}


@pytest.mark.parametrize(
    ("awaited", "said"),
    [
        (["b"], "it waited for b, which needs a"),
        (["c"], "it waited for c, which needs a"),
        (["b", "c", "d"], "it waited for b, c, which need a"),
        (["a"], "it waited for itself"),
    ],
)
def test_a_victim_whose_wait_can_never_come_is_not_tried_again(play: Play, awaited: list[str], said: str) -> None:
    play.start("a", "b < a", "c < b", "d", max_workers=2)
    play.waits("a", "task", *awaited)
    assert play.terminated == ["a"]
    play.result("a", "stopped").result("d")
    assert play.statuses == {"a": "failed", "b": "blocked", "c": "blocked", "d": "done"}
    assert play.seen("a").error is not None
    assert play.seen("a").error.message == f"stopped: {said}"
    assert play.seen("a").number == 1
    assert play.machine.state.deadlocks == {}


def test_a_task_that_conflicts_with_who_waits_for_it(play: Play) -> None:
    play.start(task_of("a", files=("src/x.py",)), task_of("b", files=("src/",)))
    play.waits("a", "task", "b")
    assert members(detected(play)) == {"a": [("task", "b")]}
    play.result("a", "stopped")
    assert play.launched == ["b"]


def test_a_task_whose_group_is_full_of_those_who_wait_for_it(play: Play) -> None:
    group = Group("g", (TaskId("a"), TaskId("b"), TaskId("c")), max_workers=2)
    play.start("a", "b", "c", "d", groups=(group,))
    play.waits("a", "task", "c")
    assert play.words == []
    play.waits("b", "task", "c")
    assert members(detected(play)).keys() == {"a", "b"}
    play.result("b", "stopped")
    assert play.launched == ["c"]


def test_a_task_that_becomes_ready_before_the_awaited_one_may_close_a_circle(play: Play) -> None:
    """`u` wants what `w` has, and stands in line before `t`, which `w` waits for. No wait begins at that moment."""
    u, t = task_of("u < v", files=("w", "t")), task_of("t", files=("t", "s"))
    play.start(task_of("w", files=("w",)), "x", "v", task_of("s", files=("s",)), u, t, "after < u", max_workers=4)
    assert set(play.running) == {"w", "x", "v", "s"}
    play.waits("w", "task", "t")
    play.waits("x", "task", "u")
    assert play.words == []
    play.result("v")
    assert members(detected(play)) == {"w": [("task", "t")]}
    play.result("w", "stopped")
    assert play.launched == ["u"]


def test_two_processes_of_one_attempt_may_wait_at_once(play: Play) -> None:
    """Nobody of the two holds anything yet; whatever comes free, they will hold what the other one waits for."""
    play.start("a", "b", "c")
    play.holds("c", "x", "y")
    play.waits("a", "lock", "x")
    play.waits("b", "lock", "y")
    play.waits("b", "lock", "x")
    assert play.words == []
    play.waits("a", "lock", "y")
    assert members(detected(play)).keys() == {"a", "b"}


def test_what_an_attempt_will_hold_first_lets_it_overtake(play: Play) -> None:
    """Its second wait is behind `b`, which is behind its first: it gets both before."""
    play.start("a", "b", "c")
    play.holds("c", "x", "y")
    play.waits("a", "lock", "x")
    play.waits("b", "lock", "x", "y")
    play.waits("a", "lock", "y")
    assert play.words == []


@pytest.mark.parametrize("order", ["drain", "fail fast"])
def test_who_waits_for_a_task_that_will_not_start_any_more_does_not_hold_the_run_up(play: Play, order: str) -> None:
    play.start("a", "b", "c", max_workers=2, fail_fast=True, retries=0)
    play.waits("a", "task", "c")
    if order == "drain":
        play.control("drain")
    else:
        play.result("b", "fails")
    assert play.words[-1:] == ([] if order == "drain" else ["RUN_GAVE_UP"])
    assert play.timers == ["heed"]
    play.fact(TimerFired("heed"))  # it hears of it, and heeds it not
    assert (play.words, play.terminated) == (["STOP a"], ["a"])
    for id in play.running:
        play.result(id, "stopped" if id == "a" else "ok")
    assert play.machine.ended


def test_requirement_12_a_question_asked_with_a_lock_held_is_no_deadlock(play: Play) -> None:
    play.start("a", "b")
    play.holds("a", "x")
    play.waits("b", "lock", "x")
    wait = play.waits("a", "question")
    play.waits_no_more("a", wait)
    assert play.words == []
    play.waits("b", "task", "a")
    assert play.words == []


@pytest.mark.parametrize("first", ["x", "src/x.py", "src", "src/*.py"])
def test_keys_that_only_overlap_are_in_the_way_too(play: Play, first: str) -> None:
    play.start("a", "b")
    play.holds("a", "src/x.py" if first != "x" else "x")
    play.holds("b", "y")
    play.waits("a", "lock", "y")
    play.waits("b", "lock", first)
    assert play.terminated == ["b"]


def test_shared_locks_are_not_in_each_others_way(play: Play) -> None:
    play.start("a", "b", "c")
    play.holds("a", "x", shared=True)
    play.holds("b", "y", shared=True)
    play.waits("a", "lock", "y", shared=True)
    play.waits("b", "lock", "x", shared=True)
    assert play.words == []


def test_an_older_wait_is_in_the_way_of_a_younger_one(play: Play) -> None:
    """`b` could have x by what is held, but stands behind `c`, which waits for `a`, which waits for `b`."""
    play.start("a", "b", "c")
    play.holds("a", "x", shared=True)
    play.holds("b", "y")
    play.waits("c", "lock", "x")
    play.waits("a", "lock", "y")
    assert play.words == []
    play.waits("b", "lock", "x", shared=True)
    assert members(detected(play)).keys() == {"a", "b", "c"}


def test_requirement_12_edges_that_are_gone_make_no_circle(play: Play) -> None:
    play.start("a", "b", "c", retries=1)
    held = play.holds("a", "x")
    play.holds("b", "y")
    wait = play.waits("a", "lock", "y")
    play.waits_no_more("a", wait)
    play.waits("b", "lock", "x")
    assert play.words == []
    play.lets_go("a", held)
    play.waits("a", "lock", "y")
    assert play.words == []
    play.holds("c", "x")
    play.result("c", "fails")
    assert play.words == ["ATTEMPT_ENDED c", "RETRY_SCHEDULED c"]


def test_what_an_ended_attempt_left_behind_is_in_nobodys_way(play: Play) -> None:
    """Its files are removed a moment after its end."""
    play.start("a", "b", retries=1)
    play.holds("a", "x")
    play.waits("a", "lock", "y")
    play.result("a", "fails").timer("a")
    play.holds("b", "y")
    play.waits("b", "lock", "x")
    play.waits("a", "lock", "y")
    assert play.words == []


@pytest.mark.parametrize("outcome", ["done", "failed", "unknown"])
def test_a_wait_for_a_task_that_has_an_end_is_over(play: Play, outcome: str) -> None:
    play.start("a", "b", retries=0, max_workers=2)
    play.result("b", "fails" if outcome == "failed" else "ok")
    play.waits("a", "task", "zz" if outcome == "unknown" else "b")
    assert play.words == []


def test_a_wait_for_what_a_person_does_is_no_deadlock(play: Play) -> None:
    """Near and far: a manual task, one that depends on such a one, one at its gate; the pool is full all the time."""
    gate = task_of("g", approve="before")
    play.start(
        "a", "y < a", "z < y", task_of("m", manual=True), "n < m", task_of("o < m", manual=True), gate, max_workers=1
    )
    play.waits("a", "task", "m", "g", "o")
    assert play.words == []
    assert play.seen("a").status == "waiting"
    play.waits("a", "task", "n")  # whenever that is: it will find no slot
    assert members(detected(play)) == {"a": [("task", "n"), ("pool", "n")]}


def test_two_deadlocks_at_once_have_a_victim_each(play: Play) -> None:
    play.start("a", "b", "c", "d")
    for id, key in (("a", "x"), ("b", "y"), ("c", "z"), ("d", "w")):
        play.holds(id, key)
    play.waits("c", "lock", "w")
    play.waits("d", "lock", "z", "y")
    assert play.terminated == ["d"]
    play.waits("a", "lock", "y")
    play.waits("b", "lock", "x")
    assert play.terminated == ["b"]
    assert len(play.machine.state.deadlocks) == 2
    play.result("d", "stopped").result("b", "stopped")
    assert play.machine.state.deadlocks == {}


def test_a_task_that_would_fail_by_it_is_spared(play: Play) -> None:
    """Its ceiling of attempts that use no retry is reached: now it is the other one's turn."""
    play.start("a", "b", restart_intensity=None)
    play.holds("a", "x")
    play.waits("a", "lock", "y")
    for _ in range(5):
        play.holds("b", "y")
        play.waits("b", "lock", "x")
        assert play.terminated == ["b"]
        play.result("b", "stopped").timer("b")
    play.holds("b", "y")
    play.waits("b", "lock", "x")
    assert play.terminated == ["a"]


def test_if_all_would_fail_by_it_one_does(play: Play) -> None:
    keys, turn = {"a": ("x", "y"), "b": ("y", "x")}, "b"
    play.start(*keys, restart_intensity=None)
    play.holds("a", "x")
    play.waits("a", "lock", "y")
    for number in range(11):
        held, wanted = keys[turn]
        play.holds(turn, held)
        play.waits(turn, "lock", wanted)
        (turn,) = play.terminated
        play.result(turn, "stopped")
        if number < 10:
            play.timer(turn)
    assert play.statuses == {"a": "failed", "b": "waiting"}
    assert play.seen("a").error is not None
    assert play.seen("a").error.message == "stopped: to end a deadlock with b"


def test_a_victim_that_finished_before_it_was_stopped_is_done(play: Play) -> None:
    two_locks(play)
    play.result("b")
    assert play.words == ["ATTEMPT_ENDED b", "TASK_COMPLETE b", "DEADLOCK_RESOLVED b"]


def test_the_back_off_of_a_victim_ends_although_its_deadlock_is_resolved_behind_its_begin(play: Play) -> None:
    """A timer that is lost here is never armed again: the run would wait for ever."""
    two_locks(play)
    play.result("b", "stopped")
    assert play.timers == ["retry:b"]


def test_deadlocks_are_no_restarts(play: Play) -> None:
    two_locks(play, restart_intensity=0)
    play.result("b", "stopped")
    assert play.machine.state.run is not None
    assert play.machine.state.run.gave_up is None


def test_a_deadlock_survives_a_crash_at_every_line(play: Play) -> None:
    """Cut anywhere, the next conductor decides what is missing, and nothing twice."""
    from conductor.core.events import AttemptAdopted, RunResumed

    two_locks(play)
    records = play.records()
    options = RunOptions()
    for cut in range(len(records) - 2, len(records) + 1):
        machine = play.replayed(records[:cut])
        words = []
        for fact in (
            RunResumed("0" * 16, options, 1),
            *(AttemptAdopted(TaskId(id), play.attempt(id)) for id in ("a", "b")),
        ):
            told = machine.handle(fact, play.now + 1)
            words += [getattr(one, "decision", one).__class__.__name__ for one in told]
        missing = {"DeadlockDetected", "StopDecided"} & set(words)
        done = {record.type for record in records[:cut]} & {"DEADLOCK_DETECTED", "STOP"}
        assert len(missing) + len(done) == 2
        assert "TerminateWorker" in words


def wait_in_vain(play: Play, **options: Any) -> None:
    """`i` waits for `g`, which needs `f`, which runs."""
    play.start("f", "i", "g < f", **options)
    play.waits("i", "task", "g")
    assert play.words == []


def test_a_wait_for_what_a_draining_run_does_not_start_is_no_deadlock(play: Play) -> None:
    """Whoever waits hears of it and decides; nothing is stopped for it that goes on by itself."""
    wait_in_vain(play)
    play.control("drain")
    assert (play.words, play.terminated) == ([], [])
    assert [one for one in play.told if isinstance(one, StartTimer)] == [StartTimer("heed", 10.0)]
    play.result("f")
    assert (play.words, play.terminated) == (["ATTEMPT_ENDED f", "TASK_COMPLETE f"], [])
    play.result("i")
    assert play.view.state == "stopped"


def test_who_waits_on_in_vain_is_stopped_and_told_so(play: Play) -> None:
    wait_in_vain(play)
    play.control("drain")
    play.fact(TimerFired("heed"))
    assert (play.words, play.terminated) == (["STOP i"], ["i"])
    play.result("i", "stopped")
    assert play.seen("i").last_error is not None
    assert play.seen("i").last_error.error_class == "stopped"
    assert play.seen("i").last_error.message == "stopped: it waited for a task that is not started any more"
    assert play.result("f").view.state == "stopped"


def test_a_run_that_gave_up_says_so_where_somebody_waits_for_what_it_does_not_start(play: Play) -> None:
    play.start("f", "i", "x", "g < f", fail_fast=True, retries=0)
    play.waits("i", "task", "g")
    play.result("x", "fails")
    assert play.words == ["ATTEMPT_ENDED x", "TASK_FAILED x", "RUN_GAVE_UP"]
    assert play.terminated == []
    play.waits("i", "task", "x")
    play.result("f").result("i")
    assert play.view.state == "failed"


def test_what_runs_may_be_waited_for_also_while_a_run_is_ending(play: Play) -> None:
    wait_in_vain(play)
    play.control("drain")
    play.waits("f", "question", text="?")
    play.fact(TimerFired("heed"))
    assert play.terminated == ["i"]  # and f, which waits for a person, goes on


def test_who_waits_for_what_needs_a_task_that_the_round_leaves_out_waits_for_what_cannot_come(play: Play) -> None:
    play.start("x", "a", "g < x", only=(TaskId("a"), TaskId("g")))
    assert play.statuses["x"] == "skipped"
    play.waits("a", "task", "g")
    assert play.terminated == ["a"]


def test_a_retry_in_a_run_that_gave_up_lets_waiters_hope_and_tells_them_anew(play: Play) -> None:
    play.start("f", "i", "x", "y", "g < f", fail_fast=True, retries=0)
    play.waits("i", "task", "g")
    play.result("x", "fails")
    assert play.words[-1:] == ["RUN_GAVE_UP"]
    play.result("y", "fails").order("retry", "x")
    assert play.words == ["RUN_GAVE_UP"]  # y has failed still
    play.order("retry", "y")
    assert "RUN_GAVE_UP" not in play.words
    play.result("f")
    assert "g" in play.launched
