"""What starts next: priority, conflicts, groups, and that nobody starves."""

from __future__ import annotations

import pytest

from bus.wire import TaskId
from conductor.core.task import Group, TaskSpec
from conductor.testing import Play, task_of

FREE = task_of("free", estimate=30.0)


def group(*tasks: str, max_workers: int | None = None) -> Group:
    return Group("pg-1", tuple(map(TaskId, tasks)), max_workers=max_workers)


def test_the_critical_path_goes_first_and_ties_in_plan_order(play: Play) -> None:
    play.start("a", "b", task_of("c", estimate=60.0), task_of("d < c", estimate=9000.0), max_workers=1)
    assert play.launched == ["c"]
    assert play.result("c").launched == ["d"]
    assert play.result("d").launched == ["a"]
    assert play.result("a").launched == ["b"]
    play.result("b")


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ({"files": ("x",)}, {"files": ("x",)}, False),
        ({"files": ("x",)}, {"files": ("y",)}, True),
        ({"files": ("src/*",)}, {"files": ("src/a/b.py",)}, False),
        ({"files": ("src/a.py",)}, {"files": ("src",)}, False),
        ({"files": ("x",)}, {"reads": ("x",)}, False),
        ({"reads": ("x",)}, {"reads": ("x",)}, True),
        ({"reads": ("**/*.py",)}, {"files": ("src/deep/er/x.py",)}, False),
        ({"resources": ("db",)}, {"resources": ("db",)}, False),
        ({"resources": ("x",)}, {"files": ("x",)}, True),
        ({"reads": ("x",), "files": ("x",)}, {"reads": ("x",)}, False),
    ],
)  # fmt: skip
def test_no_two_tasks_that_conflict_run_side_by_side(
    play: Play, one: dict[str, tuple[str, ...]], other: dict[str, tuple[str, ...]], *, together: bool
) -> None:
    play.start(task_of("a", **one), task_of("b", **other))
    assert play.launched == (["a", "b"] if together else ["a"])
    assert play.result("a").launched == ([] if together else ["b"])
    play.result("b")


def test_conflicts_of_files_may_be_allowed_those_of_resources_not(play: Play) -> None:
    tasks = [task_of("a", files=("x",)), task_of("b", files=("x",)), task_of("c", resources=("r",))]
    play.start(*tasks, task_of("d", resources=("r",)), on_conflict="allow")
    assert play.launched == ["a", "b", "c"]


def test_a_task_does_not_conflict_with_itself(play: Play) -> None:
    play.start(task_of("a", files=("src/a.py", "src/*", "src"), reads=("src/a.py",)))
    assert play.launched == ["a"]


def test_a_task_in_back_off_lets_others_have_its_files(play: Play) -> None:
    play.start(task_of("a", files=("x",)), task_of("b", files=("x",)))
    play.result("a", "fails")
    assert play.launched == ["b"]
    play.timer("a")
    assert play.statuses["a"] == "waiting"
    assert play.seen("a").waits_for[0].holder == "b"
    assert play.result("b").launched == ["a"]


def test_a_waiting_task_keeps_its_place_so_lower_ones_cannot_take_turns_in_front_of_it(play: Play) -> None:
    """`big` conflicts with all small ones; without the rule they would hand the files on among themselves."""
    small = [task_of(f"s{one}", files=(f"src/{one}",), estimate=1.0) for one in range(4)]
    play.start(*small, task_of("gate"), task_of("big < gate", files=("src",), estimate=60.0), FREE, max_workers=2)
    assert play.launched == ["gate", "free"]
    assert play.result("free").launched == ["s0"]
    play.result("gate")
    assert play.launched == []  # s1 would find its file free, but big waits for s0
    assert play.seen("s1").waits_for[0].holder == "big"
    assert play.result("s0").launched == ["big"]
    assert play.result("big").launched == ["s1", "s2"]


def test_a_late_coming_task_of_higher_priority_goes_before_those_that_wait(play: Play) -> None:
    tasks = [task_of("g", estimate=99999.0), task_of("r", files=("x",), estimate=500.0)]
    late = task_of("late < g", files=("x",), estimate=400.0)
    play.start(*tasks, late, task_of("w", files=("x",), estimate=1.0))
    assert play.running == ["g", "r"]
    play.result("g")
    assert play.launched == []
    assert play.result("r").launched == ["late"]
    assert play.result("late").launched == ["w"]


def test_a_line_forms_and_only_its_head_moves(play: Play) -> None:
    play.start(*(task_of(f"t{one}", files=("x",)) for one in range(6)), "free")
    assert play.running == ["t0", "free"]
    for one in range(5):
        assert play.result(f"t{one}").launched == [f"t{one + 1}"]


def test_readers_go_together_and_a_writer_alone(play: Play) -> None:
    def reader(id: str, estimate: float) -> TaskSpec:
        return task_of(id, reads=("x",), estimate=estimate)

    play.start(reader("a", 9.0), reader("b", 8.0), task_of("w", files=("x",), estimate=7.0), reader("c", 6.0))
    assert play.launched == ["a", "b"]
    play.result("a")
    assert play.launched == []
    assert play.result("b").launched == ["w"]
    assert play.result("w").launched == ["c"]


@pytest.mark.parametrize(
    ("own", "option", "expected"), [(None, None, 5), (2, None, 2), (7, None, 7), (2, 3, 3), (None, 6, 6)]
)
def test_groups_are_capped(play: Play, own: int | None, option: int | None, expected: int) -> None:
    members = [f"t{one}" for one in range(9)]
    play.start(
        *members, "free", groups=(group(*members, max_workers=own),), max_workers=20, group_workers=option
    )  # fmt: skip
    assert play.launched == [*members[:expected], "free"]
    assert play.result("t0").launched == [members[expected]]
    assert play.seen("t8").waits_for[0].kind == "group"


def test_a_task_of_two_groups_needs_room_in_both(play: Play) -> None:
    one, other = group("a", "b", "c", max_workers=1), Group("pg-2", (TaskId("b"), TaskId("d")), max_workers=1)
    play.start("a", "b", "c", "d", groups=(one, other))
    assert play.launched == ["a", "d"]
    play.result("a")
    assert play.launched == ["c"]  # b has no room in pg-2, c needs none there
    play.result("d")
    assert play.launched == []
    assert play.result("c").launched == ["b"]


def test_a_task_that_waits_in_a_group_and_is_skipped_leaves_its_line(play: Play) -> None:
    play.start("a", "b", "c", groups=(group("a", "b", "c", max_workers=1),), fail_fast=True, retries=0)
    play.result("a", "fails")
    assert play.words[2:] == ["RUN_GAVE_UP", "TASK_SKIPPED b", "TASK_SKIPPED c", "RUN_ENDED"]


def test_tasks_that_wait_for_a_conflict_and_are_skipped_leave_their_line(play: Play) -> None:
    tasks = [task_of(f"t{one}", files=("x",)) for one in range(3)]
    play.start(*tasks, fail_fast=True, retries=0).result("t0", "fails")
    assert play.words[2:] == ["RUN_GAVE_UP", "TASK_SKIPPED t1", "TASK_SKIPPED t2", "RUN_ENDED"]


def test_lines_are_left_in_any_order(play: Play) -> None:
    """Here the last in line is skipped first: plan order is the reverse of the priority."""
    tasks = [task_of(f"t{one}", files=("x",), estimate=float(one)) for one in range(1, 5)]
    members = [task_of(f"g{one}", estimate=float(one)) for one in range(1, 5)]
    groups = (group(*(task.id for task in members), max_workers=1),)
    play.start(*tasks, *members, groups=groups, fail_fast=True, retries=0)
    assert play.running == ["t4", "g4"]
    play.result("t4", "fails").result("g4")
    assert play.view.counts["skipped"] == 6
