"""What is seen of running attempts: what they wait for and why, what the evidence says of them, and deadlocks."""

from __future__ import annotations

from bus.wire import TaskId
from conductor.core.view import WaitView
from conductor.core.why import why
from conductor.testing import Play, task_of


def explain(play: Play, id: str) -> list[str]:
    """At the wall clock of the story."""
    return why(play.view, TaskId(id), play.now + 1e9)


def test_an_attempt_that_waits_for_a_lock_names_who_is_in_the_way(play: Play) -> None:
    play.start("a", "b", "c")
    play.holds("a", "src/x.py", "y")
    play.waits("b", "lock", "src")
    play.waits("c", "lock", "src/x.py")
    seen = play.seen("b")
    assert (seen.status, seen.worker) == ("waiting", play.attempt("b"))
    assert seen.waits_for == (WaitView("lock", "src", TaskId("a")),)
    assert play.seen("c").waits_for == (WaitView("lock", "src/x.py", "a"), WaitView("lock", "src/x.py", "b"))
    assert explain(play, "b") == ["Attempt 1 runs for 3.0s.", "Waits for the lock of src, after a."]


def test_a_lock_that_could_be_had_any_moment_has_nobody_in_the_way(play: Play) -> None:
    play.start("a")
    play.waits("a", "lock", "x")
    assert play.seen("a").waits_for == (WaitView("lock", "x"),)
    assert explain(play, "a")[1] == "Waits for the lock of x."


def test_an_attempt_that_waits_for_a_task_says_how_that_is(play: Play) -> None:
    play.start("a", "b", "c < b")
    play.waits("a", "task", "c", "b", "unheard-of")
    assert play.seen("a").waits_for == (WaitView("task", "c", "c"), WaitView("task", "b", "b"))
    assert explain(play, "a")[1:] == ["Waits for task c, which is pending.", "Waits for task b, which is running."]
    play.result("b").result("c")
    assert (play.seen("a").status, play.seen("a").waits_for) == ("running", ())


def test_requirement_12_a_question_is_shown_with_its_text(play: Play) -> None:
    play.start("a", "b")
    play.holds("a", "x")
    play.waits("b", "lock", "x")
    id = play.waits("a", "question", text="Which port?")
    assert play.seen("a").waits_for == (WaitView("answer", id, text="Which port?"),)
    assert explain(play, "a")[1] == f'Waits for an answer to "Which port?" (question {id}).'
    assert play.view.counts["waiting"] == 2


def test_who_is_being_stopped_waits_no_more(play: Play) -> None:
    play.start("a")
    play.waits("a", "question", text="?")
    play.control("stop")
    assert (play.seen("a").status, play.seen("a").waits_for) == ("running", ())


def test_a_task_that_a_full_pool_waits_for_waits_for_the_pool(play: Play) -> None:
    play.start("a", "b", "t", "u", "v < t", "a1 < a", "a2 < a1", "b1 < b", "b2 < b1", max_workers=2)
    play.waits("a", "task", "v")
    assert (play.seen("t").status, play.seen("v").status) == ("ready", "pending")
    play.waits("b", "question", text="?")
    assert play.seen("t").waits_for == (WaitView("pool", "a free worker"),)
    assert explain(play, "t") == ["Waits for a free worker, and all of them wait themselves."]
    assert play.seen("u").status == "ready"


def test_a_task_that_others_wait_for_goes_first_also_in_the_picture(play: Play) -> None:
    files = ("x",)
    play.start("a", task_of("b", files=files), task_of("t", files=files), task_of("r", files=files), max_workers=2)
    assert play.running == ["a", "b"]
    assert play.seen("r").waits_for == (WaitView("conflict", "x", "t"),)
    play.waits("a", "task", "r")
    assert play.seen("t").waits_for == (WaitView("conflict", "x", "r"),)
    play.result("b")
    assert play.launched == ["r"]


def test_a_deadlock_is_told_to_its_members_while_it_lasts(play: Play) -> None:
    play.start("a", "b", "c")
    play.holds("a", "x")
    play.holds("b", "y")
    play.waits("a", "lock", "y")
    play.waits("b", "lock", "x")
    told = (
        "It is in a deadlock: a waits for y (held by b); b waits for x (held by a). "
        "b, the youngest, is stopped and tried again."
    )
    assert told in explain(play, "a")
    assert explain(play, "b") == ["Attempt 1 runs for 4.0s, being stopped to end a deadlock.", told]
    assert [one.victim for one in play.view.deadlocks] == [play.attempt("b")]
    assert play.seen("c").deadlock is None
    play.result("b", "stopped")
    assert play.view.deadlocks == ()
    assert explain(play, "b")[-1] == "Attempt 1 was stopped: to end a deadlock with a; that uses up no retry."


def test_a_deadlock_of_the_pool_says_so(play: Play) -> None:
    play.start("a", "y < a", "t", max_workers=1)
    play.waits("a", "task", "t")
    assert explain(play, "a")[-1] == (
        "It is in a deadlock: a waits for task t, a free worker. a, the youngest, is stopped and tried again."
    )
    play.result("a", "stopped")
    assert explain(play, "a")[-1] == (
        "Attempt 1 was stopped: it waited for t, for which no worker was free; that uses up no retry."
    )


def test_lives_are_said_with_what_they_rest_on(play: Play) -> None:
    play.start("a", "b")
    assert play.seen("a").life is None
    play.life("a", "quiet", "no output, no message for 10m")
    play.now += 60
    assert explain(play, "a")[1] == "It is quiet: no output, no message for 10m (seen 1m ago)."
    for life, text in (
        ("starting", "It is starting"),
        ("stuck", "Its worker is stuck"),
        ("finished", "It has finished, and its worker lives on"),
        ("unkillable", "It cannot be ended, and keeps what it holds"),
    ):
        play.life("a", life)
        assert explain(play, "a")[1] == f"{text} (seen 0.0s ago)."
    play.life("a", "working")
    assert len(explain(play, "a")) == 1
    play.result("a")
    assert play.seen("a").life is None


def test_requirement_22_only_who_says_so_himself_is_ended_for_being_quiet(play: Play) -> None:
    play.start(task_of("a", stale_after=60.0), "b", task_of("c", stale_after=0.0), retries=0)
    for id in "abc":
        play.life(id, "quiet", "no output for 1m")
        assert play.terminated == (["a"] if id == "a" else [])
    play.result("a", "stopped")
    assert play.seen("a").error is not None
    assert play.seen("a").error.message == "stopped: it hung, with no output for 1m"
    assert play.seen("a").error.error_class == "hung"


def test_a_stuck_worker_is_left_alone_until_it_is_overdue(play: Play) -> None:
    play.start("a")
    play.life("a", "stuck", "no sign of life for 2m")
    assert play.terminated == []
    play.life("a", "stuck", "its worker gave no sign of life for 40m", overdue=True)
    assert play.words == ["STOP a"]
    play.gone("a")
    assert play.seen("a").last_error is not None
    said = "stopped: it had longer than its time limit, and its worker gave no sign of life for 40m"
    assert play.seen("a").last_error.message == said


def test_who_gave_a_sign_again_before_he_was_stopped_has_hung_all_the_same(play: Play) -> None:
    play.start(task_of("a", stale_after=60.0)).life("a", "quiet", "no output for 1m").life("a", "working")
    play.result("a", "stopped")
    assert play.seen("a").last_error is not None
    assert play.seen("a").last_error.message == "stopped: it hung"


def test_requirement_11_a_result_one_of_whose_grants_was_taken_counts_for_nothing(play: Play) -> None:
    play.start("a", retries=0)
    grant = play.holds("a", "x")
    play.lets_go("a", grant, "taken")
    assert play.words == ["STOP a"]
    play.result("a")
    assert play.words == ["ATTEMPT_ENDED a", "RETRY_SCHEDULED a"]
    assert play.seen("a").last_error is not None
    assert play.seen("a").last_error.message == "stopped: a lock was taken from it by force"
    play.timer("a").result("a")
    assert play.statuses == {"a": "done"}


def test_a_grant_taken_while_the_run_is_stopped_counts_as_well(play: Play) -> None:
    play.start("a")
    grant = play.holds("a", "x")
    play.control("stop").lets_go("a", grant, "taken")
    assert play.words == ["STOP a"]
    play.result("a")
    assert play.seen("a").last_error is not None
    assert play.seen("a").last_error.error_class == "stale_token"


def test_facts_about_what_is_gone_are_counted_and_change_nothing(play: Play) -> None:
    play.start("a")
    play.lets_go("a", "ffffffff").waits_no_more("a", "ffffffff")
    play.result("a")
    play.waits("a", "question")
    assert play.machine.state.ignored == {"GRANT_GONE": 1, "WAIT_ENDED": 1, "WAIT_BEGAN": 1}
    assert play.machine.state.waits == {}


def test_what_a_grant_leaves_behind_is_forgotten_when_its_task_runs_no_more(play: Play) -> None:
    play.start("a", retries=1)
    grant = play.holds("a", "x")
    first = play.attempt("a")
    play.result("a", "fails")
    assert len(play.machine.state.grants) == 1
    play.lets_go("a", grant, "closed")
    assert play.machine.state.grants == {}
    assert play.attempt("a") == first
