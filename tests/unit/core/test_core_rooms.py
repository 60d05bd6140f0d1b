"""Counted resources, pure reads side by side, group by group, and doors that are closed: who starts beside whom."""

from __future__ import annotations

import pytest

from bus.wire import AttemptId, TaskId
from conductor.core.events import ControlReceived, RunResumed
from conductor.core.supervision import PlanReloaded
from conductor.core.task import Group, TaskSpec
from conductor.core.view import WaitView
from conductor.core.wait_events import WaitBegan
from conductor.testing import Play, plan_of, task_of


def using(name: str, *ids: str) -> list[TaskSpec]:
    return [task_of(id, resources=(name,)) for id in ids]


def groups(*members: tuple[str, ...]) -> tuple[Group, ...]:
    return tuple(Group(f"pg-{number}", tuple(map(TaskId, ids))) for number, ids in enumerate(members, 1))


# --- resources ------------------------------------------------------------------------------------------------------


def test_as_many_tasks_hold_a_resource_as_there_are(play: Play) -> None:
    play.start(*using("gpu", "a", "b", "c", "d"), *using("db", "x", "y"), resources={"gpu": 2}, max_workers=9)
    assert play.running == ["a", "b", "x"]
    assert play.seen("c").waits_for == (WaitView("resource", "gpu"),)
    assert play.seen("y").waits_for == (WaitView("resource", "db", TaskId("x")),)
    assert play.result("a").launched == ["c"]
    assert play.result("x").launched == ["y"]
    for id in ("b", "c", "d", "y"):
        play.result(id)


def test_a_resource_named_twice_is_held_once(play: Play) -> None:
    play.start(task_of("a", resources=("gpu", "gpu")), *using("gpu", "b", "c"), resources={"gpu": 2})
    assert play.running == ["a", "b"]


# --- effects --------------------------------------------------------------------------------------------------------


def test_only_pure_reads_run_side_by_side(play: Play) -> None:
    reads = [task_of(id, effect="pure_read") for id in ("a", "b", "c")]
    play.start(*reads, task_of("w"), task_of("x", effect="external"), parallel="pure-read")
    assert play.running == ["a", "b", "c"]
    assert play.seen("w").waits_for[0].what == "a turn of its own (--parallel pure-read)"
    play.result("a").result("b").result("c")
    assert play.running == ["w"]
    assert play.result("w").running == ["x"]
    play.result("x")


def test_a_reader_takes_no_turn_before_a_writer_that_waits(play: Play) -> None:
    tasks = [task_of("a", effect="pure_read", estimate=9.0), task_of("w", estimate=5.0)]
    play.start(*tasks, task_of("b", effect="pure_read", estimate=1.0), parallel="pure-read")
    assert play.running == ["a"]


# --- group by group -------------------------------------------------------------------------------------------------


def test_groups_run_one_after_the_other_in_plan_order_and_ungrouped_tasks_whenever_they_are_ready(play: Play) -> None:
    play.start("a", "b", "c", "d", "free", groups=groups(("a", "b"), ("c", "d")), schedule="groups", max_workers=9)
    assert play.running == ["a", "b", "free"]
    assert play.seen("c").waits_for == (WaitView("group", "pg-2"),)
    play.result("a").result("free")
    assert play.running == ["b"]
    assert play.result("b").launched == ["c", "d"]
    play.result("c").result("d")


def test_what_failed_in_a_group_keeps_the_next_one_waiting_only_while_it_is_tried(play: Play) -> None:
    play.start("a", "b", groups=groups(("a",), ("b",)), schedule="groups", retries=1).result("a", "fails")
    assert play.running == []
    play.timer("a").result("a", "fails")
    assert play.running == ["b"]
    play.result("b")


def test_a_group_that_needs_a_later_one_is_passed_over_until_it_is_reached(play: Play) -> None:
    play.start("a < c", "b", "c", "d", groups=groups(("a", "b"), ("c", "d")), schedule="groups", max_workers=1)
    assert play.running == ["c"]
    play.result("c")
    assert play.running == ["d"] or play.running == ["b"] or play.running == ["a"]
    while play.running:
        play.result(play.running[0])
    assert play.view.state == "done"


def test_groups_that_need_each_other_do_not_hold_the_run_up(play: Play) -> None:
    play.start("a", "b < c", "c", "d < a", groups=groups(("a", "b"), ("c", "d")), schedule="groups")
    order = []
    while play.running:
        order += play.running
        play.result(play.running[0])
    assert play.view.state == "done"


def test_while_an_ungrouped_task_can_bring_a_group_there_no_other_is_begun(play: Play) -> None:
    tasks = ("u", "a < u d", "b", "c < u", "d")
    play.start(*tasks, groups=groups(("a", "b"), ("c", "d")), schedule="groups", max_workers=1)
    assert play.running == ["u"]
    while play.running:
        play.result(play.running[0])
    assert play.view.state == "done"


def test_a_task_of_two_groups_belongs_to_the_first(play: Play) -> None:
    play.start("a", "b", groups=groups(("a",), ("a", "b")), schedule="groups")
    assert play.running == ["a"]
    assert play.result("a").launched == ["b"]
    play.result("b")


def test_a_group_that_is_open_again_gives_up_no_place_for_good(play: Play) -> None:
    """While `b` waits for a file, an earlier group is reached: `b` stands aside, and comes back."""
    tasks = [
        task_of("early < x", files=("f",)),
        task_of("x", estimate=1.0),
        task_of("a", files=("f",), estimate=9.0),
        task_of("b", files=("f",), estimate=5.0),
    ]
    play.start(*tasks, groups=groups(("early",), ("a", "b")), schedule="groups")
    assert play.running == ["a", "x"]
    play.result("a")
    while play.running:
        play.result(play.running[0])
    assert play.view.state == "done"


def test_a_task_that_somebody_waits_for_does_not_wait_for_its_group(play: Play) -> None:
    play.start("a", "b", "c", groups=groups(("a", "b"), ("c",)), schedule="groups", max_workers=3)
    play.fact(WaitBegan(TaskId("a"), play.attempt("a"), "0000aaaa", "task", ("c",)))
    assert play.launched == ["c"]


# --- doors ----------------------------------------------------------------------------------------------------------


def test_who_stands_behind_a_closed_door_holds_no_place(play: Play) -> None:
    """A task of a kind that is paused keeps no file from others, also not one that it waited for before."""
    agent = [task_of(id, run=("agent",), files=("f",), estimate=9.0) for id in ("a", "b")]
    play.start(*agent, task_of("c", run=("make",), files=("f",), estimate=1.0), retries=0)
    assert play.running == ["a"]
    report = {"verb": "fail", "class": "quota", "retry_after": 3600}
    play.result("a", "fails", report=report)
    assert play.running == ["c"]
    assert play.seen("b").waits_for[0].kind == "provider"
    play.result("c").order("cancel", "b").order("resume", "command:agent")
    assert play.launched == []
    play.timer("a").result("a")
    assert play.statuses == {"a": "done", "b": "cancelled", "c": "done"}


@pytest.mark.parametrize("verb", ["pause", "drain"])
def test_nothing_is_opened_for_a_run_that_starts_nothing(play: Play, verb: str) -> None:
    play.start("a", "b", groups=groups(("a",), ("b",)), schedule="groups").order(verb).result("a")
    assert play.launched == []


# --- a plan that is read again --------------------------------------------------------------------------------------


def reload(play: Play, *tasks: str | TaskSpec, groups: tuple[Group, ...] = ()) -> Play:
    plan = plan_of(*tasks, groups=groups)
    sha = f"{100 + len(play.plans):064x}"
    play.plans[sha] = plan
    assert play.machine.reload_refusal(plan) is None
    return play.fact(PlanReloaded(sha, plan, "1" * 64, ("edited",)))


def test_a_reloaded_plan_changes_what_is_not_done_yet(play: Play) -> None:
    play.start("a", "b < a", "gone < b", retries=0).result("a")
    assert play.running == ["b"]
    reload(play, "a", "b", "new", "late < new b")
    assert play.launched == ["new"]
    assert play.statuses == {"a": "done", "b": "running", "new": "running", "late": "pending"}
    assert play.view.edited == ()
    play.result("new").result("b").result("late")
    assert play.view.state == "done"


def test_what_now_depends_on_something_that_is_not_done_waits_for_it(play: Play) -> None:
    play.start("a", "b", task_of("m", manual=True), "r", max_workers=1, retries=1).result("a", "fails")
    first = play.running[0]
    reload(play, "n", "a < n", "b < n", task_of("m < n", manual=True), "r < n")
    assert play.statuses["a"] == play.statuses["m"] == "pending"
    assert first in play.running, "what runs goes on"
    play.timer("a").result(first, "fails").timer(first)
    assert play.statuses[first] == "pending", "its next attempt waits as well"
    play.order("cancel", "n").result("n", "stopped")
    assert {play.statuses[id] for id in ("a", "m", first)} == {"blocked"}


def test_the_next_attempt_of_what_ran_is_blocked_by_what_failed_meanwhile(play: Play) -> None:
    play.start("a", "z", retries=1)
    reload(play, "n", "a < n", "z").result("a", "fails").order("cancel", "n")
    assert play.statuses == {"n": "running", "a": "waiting", "z": "running"}
    play.result("n", "stopped").timer("a")
    assert play.statuses["a"] == "blocked"


def test_what_ran_is_not_started_again_behind_a_stop_before_what_it_needs_now(play: Play) -> None:
    play.start("a", "z")
    reload(play, "n", "a < n", "z").control("stop").result("a", "stopped")
    assert play.statuses["a"] == "pending"


def test_what_ran_and_is_done_needs_nothing_any_more(play: Play) -> None:
    play.start("a", "z", max_workers=2)
    reload(play, "n", "a < n", "z").result("z")
    play.result("n").result("a")
    assert play.view.state == "done"


def test_what_was_blocked_by_something_that_it_does_not_need_any_more_is_freed(play: Play) -> None:
    play.start("x", "a < x", "b < x", "z", retries=0).result("x", "fails")
    reload(play, "x", "a", "b < x", "z")
    assert play.launched == ["a"]
    assert play.statuses["b"] == "blocked"


def test_work_that_waits_for_approval_is_kept_by_a_reloaded_plan(play: Play) -> None:
    play.start(task_of("a", approve="after"), "b").result("a")
    reload(play, "n", task_of("a < n", approve="after"), "b")
    play.order("approve", "a")
    assert play.statuses["a"] == "done"


def test_requirement_19_a_reloaded_plan_asks_nobody_whom_it_does_not_name_any_more(play: Play) -> None:
    """A person's task that became a command runs; a gate that is gone is open, before and behind the work."""
    gated = [task_of("g", approve="before"), task_of("w", approve="after")]
    play.start(task_of("m", manual=True), *gated, "z", max_workers=9).result("w")
    assert {id: play.statuses[id] for id in "mgw"} == dict.fromkeys("mgw", "waiting")
    reload(play, "m", "g", "w", "z")
    assert sorted(play.launched) == ["g", "m"]
    assert play.statuses["w"] == "done"
    play.result("m").result("g").result("z")
    assert play.view.state == "done"


def test_requirement_19_a_reloaded_plan_asks_a_person_first_where_it_says_so_now(play: Play) -> None:
    play.start("z", "m < z", "g < z", "r", max_workers=9).order("pause").result("z").result("r", "fails")
    reload(play, "z", task_of("m < z", manual=True), task_of("g < z", approve="before"), "r")
    play.order("resume")
    assert play.launched == []
    assert [play.seen(id).waits_for[0].kind for id in "mg"] == ["manual", "approval"]
    play.order("complete", "m").order("approve", "g")
    assert (play.statuses["m"], play.launched) == ("done", ["g"])


def test_what_a_person_has_said_counts_before_the_plan_that_asks_nobody(play: Play) -> None:
    play.start(task_of("m", manual=True), task_of("g", approve="before"), task_of("w", approve="after"), "z")
    play.result("w")
    for verb, id in (("complete", "m"), ("reject", "g"), ("reject", "w")):
        order = play.machine.resolve(ControlReceived(verb, "operator:me", id, None, ahead=True))
        play.machine.handle(order, play.now, decides=False)
        play.journal.append((play.now, order))
    reload(play, "m", "g", "w", "z")
    assert [play.statuses[id] for id in "mgw"] == ["done", "failed", "failed"]


def test_work_whose_gate_the_next_round_does_not_know_is_done(play: Play) -> None:
    play.start(task_of("w", approve="after"), "z").result("w").result("z", "stopped").control("stop")
    assert play.view.state == "stopped"
    play.start("w", "z")
    assert (play.statuses["w"], play.running) == ("done", ["z"])


def test_a_plan_that_leaves_out_what_runs_is_refused(play: Play) -> None:
    play.start("a", "b")
    assert play.machine.reload_refusal(plan_of("b")) == "the plan leaves out what is running: a"


def test_a_plan_that_is_read_again_between_rounds_says_nothing(play: Play) -> None:
    reload(play.start("a").result("a"), "a", "b")
    assert play.view.ignored == {"PLAN_RELOADED": 1}


def test_a_task_that_comes_back_goes_on_counting_its_attempts(play: Play) -> None:
    play.start("a", "z", retries=0).result("a")
    reload(play, "z")
    reload(play, "z", "a")
    assert play.attempt("a").startswith("a~2-")
    assert AttemptId(play.attempt("a")) in play.machine.state.open_attempts()


def test_the_time_of_groups_that_are_gone_is_forgotten(play: Play) -> None:
    one = Group("pg-1", (TaskId("a"),), timeout=60.0)
    play.start("a", "b", groups=(one,))
    run = play.machine.state.run
    assert run is not None
    assert set(run.groups_since) == {"pg-1"}
    reload(play, "a", "b")
    assert run.groups_since == {}
    play.fact(RunResumed(run.id, run.options, 9))
    assert play.told == []
