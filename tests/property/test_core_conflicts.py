"""The index of claims gives the same answers as comparing all patterns, whatever was asked about before."""

from __future__ import annotations

from itertools import product
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bus import patterns
from conductor.core import conflicts
from conductor.core.conflicts import Keys
from conductor.core.task import TaskSpec
from conductor.testing import plan_of, task_of

SEGMENTS = st.sampled_from(["a", "b", "c.py", "*", "**", "*.py", "{a,b}", "[ab]"])
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)
CLAIMS = st.tuples(
    st.lists(PATTERNS, max_size=3),
    st.lists(PATTERNS, max_size=2),
    st.lists(st.sampled_from(["port", "gpu"]), max_size=1),
)


def in_conflict(a: TaskSpec, b: TaskSpec) -> bool:
    """Compare everything with everything."""

    def claims(task: TaskSpec) -> list[tuple[str, bool]]:
        written = {patterns.split(file) for file in task.files}
        return [(file, True) for file in task.files] + [
            (file, False) for file in task.reads if patterns.split(file) not in written
        ]

    files = any((one or other) and conflicts.overlap(x, y) for (x, one), (y, other) in product(claims(a), claims(b)))
    return files or not set(a.resources).isdisjoint(b.resources)


@settings(max_examples=200)
@given(st.lists(CLAIMS, min_size=2, max_size=8), st.integers(0, 2**32))
def test_tasks_enter_the_index_in_any_order(claims: list[tuple[list[str], list[str], list[str]]], seed: int) -> None:
    plan = plan_of(
        *(
            task_of(f"t{number}", files=tuple(files), reads=tuple(reads), resources=tuple(resources))
            for number, (files, reads, resources) in enumerate(claims)
        )
    )
    pairs = [(a, b) for a in range(len(claims)) for b in range(len(claims)) if a != b]
    Random(seed).shuffle(pairs)
    keys, in_plan_order = Keys(plan), Keys(plan)
    for index in range(len(claims)):
        in_plan_order.claims(index)
    for a, b in pairs:
        found = keys.shared(a, b)
        assert (found is not None) == in_conflict(plan.tasks[a], plan.tasks[b])
        assert found == in_plan_order.shared(a, b)
