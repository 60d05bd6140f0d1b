"""What contradicts `--parallel pure-read`, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bus.wire import TaskId
from conductor.core import effects
from conductor.core.task import Group, Plan, RunOptions, TaskSpec
from conductor.errors import PlanError
from conductor.testing.plans import plan_of, task_of

PURE = RunOptions(parallel="pure-read")


def plan(effect_of: str, *tasks: str, workers: int | None = 2, **changes: object) -> Plan:
    """A plan whose tasks have the effects `r`, `w`, `x` or `m` (for a person) in turn, all of them in one group."""
    made: list[TaskSpec] = []
    for letter, text in zip(effect_of, tasks, strict=True):
        task = task_of(text, **changes)
        effect = {"r": "pure_read", "w": "write", "x": "external", "m": "write"}[letter]
        made.append(replace(task, effect=effect, manual=letter == "m", line=7 + len(made)))
    return replace(plan_of(*made), groups=(Group("g", tuple(task.id for task in made), max_workers=workers),))


@pytest.mark.parametrize(
    ("effect_of", "tasks", "named"),
    [
        ("ww", ("a", "b"), ("a", "b", 7)),
        ("rw", ("a", "b"), ("a", "b", 8)),
        ("rx", ("a", "b"), ("a", "b", 8)),
        ("rrw", ("a", "b < a", "c"), ("a", "c", 9)),
        ("wrr", ("a", "b < a", "c < a b"), None),
        ("www", ("a", "b < a", "c < b"), None),
        ("wrrw", ("a", "b", "c", "d"), None),
        ("rrrr", ("a", "b", "c", "d"), None),
        ("wm", ("a", "b"), None),
        ("w", ("a",), None),
        ("wwwww", ("a", "b < a", "c < b", "d < c", "e < b d"), None),
        ("wwww", ("a", "b < a", "c < a", "d < b c"), ("b", "c", 8)),
    ],
)
def test_a_group_whose_tasks_cannot_run_side_by_side(
    effect_of: str, tasks: tuple[str, ...], named: tuple[str, str, int] | None
) -> None:
    made = plan(effect_of, *tasks)
    effects.enforce(made, RunOptions())
    effects.enforce(made, replace(PURE, group_workers=4))
    effects.enforce(plan(effect_of, *tasks, workers=None), PURE)
    effects.enforce(plan(effect_of, *tasks, workers=1), PURE)
    if named is None:
        effects.enforce(made, PURE)
        return
    with pytest.raises(PlanError, match="group g asks for 2 of its tasks side by side") as caught:
        effects.enforce(made, PURE)
    assert f": {named[0]} (" in caught.value.message
    assert f" and {named[1]} (" in caught.value.message
    assert (caught.value.code, caught.value.path, caught.value.line) == (
        "concurrent_effect_denied", "plan.md", named[2],
    )  # fmt: skip
    assert "--max-workers" in str(caught.value.hint)


@pytest.mark.parametrize(("last", "refused"), [("d < b c", False), ("d < b", False), ("d < x", True)])
def test_tasks_that_need_each_other_by_others_are_in_order(last: str, refused: bool) -> None:
    made = plan_of("a", "x", "b < a x", "c < a x", last)
    made = replace(made, groups=(Group("g", (TaskId("a"), TaskId("d")), max_workers=2),))
    if refused:
        with pytest.raises(PlanError, match=r"a \(write\) and d \(write\) run alone"):
            effects.enforce(made, PURE)
    else:
        effects.enforce(made, PURE)


@pytest.mark.parametrize("key", ["files", "outputs"])
def test_a_pure_read_that_writes(key: str) -> None:
    writes = {key: ("dist/a.whl",)}
    made = plan("r", "a", **writes)
    effects.enforce(made, RunOptions())
    effects.enforce(plan("w", "a", **writes), PURE)
    effects.enforce(plan("r", "a", reads=("x",)), PURE)
    with pytest.raises(PlanError, match=r"task a .* writes dist/a\.whl") as caught:
        effects.enforce(made, PURE)
    assert (caught.value.code, caught.value.line) == ("concurrent_effect_denied", 7)


def test_two_thousand_tasks_in_a_row_are_looked_at_once_each() -> None:
    tasks = tuple(TaskSpec(TaskId(f"{n}"), "", n, depends_on=(TaskId(f"{n - 1}"),) if n else ()) for n in range(2000))
    effects.enforce(Plan(tasks, groups=(Group("g", tuple(task.id for task in tasks), max_workers=2),)), PURE)
