"""What must hold of a state at the end of every pass. Each rule has a name; the first that is broken is raised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from conductor.core.conflicts import Keys
from conductor.core.ends import has_order
from conductor.core.rooms import rooms_of
from conductor.core.state import ALIVE, State, Task
from conductor.core.task import (
    Backoff,
    Blocked,
    Cancelled,
    Done,
    Ended,
    Exited,
    Failed,
    Manual,
    Pending,
    Ready,
    Running,
)
from conductor.core.transitions import STATUSES, Phase


class InvariantBroken(AssertionError):
    """A promise of the core does not hold; the text says which and where."""


def check(state: State) -> None:
    """Check every rule. Raises InvariantBroken. Linear in tasks, quadratic only in running ones."""
    for rule in RULES:
        for trouble in rule(state):
            raise InvariantBroken(f"{rule.__name__.lstrip('_')}: {trouble}")


def _indexes_equal_recomputation(state: State) -> Iterator[str]:
    if list(state.tasks.values()) != state.order or [task.spec for task in state.order] != list(state.plan.tasks):
        yield "the tasks are not those of the plan, in its order"
    tally = Counter(type(task.status) for task in state.order)
    if state.tally != {status: tally[status] for status in STATUSES}:
        yield f"tally is {state.tally}, counted {tally}"
    for task in state.order:
        open = sum(1 for dependency in state.dependencies(task) if not isinstance(dependency.status, Done))
        if task.open != open:
            yield f"{task.id} says {task.open} open dependencies, there are {open}"


def _no_status_outlives_its_pass(state: State) -> Iterator[str]:
    for task in state.order:
        if isinstance(task.status, (Exited, Ended)):
            yield f"{task.id} is {type(task.status).__name__}"


def _slots_equal_running_set(state: State) -> Iterator[str]:
    alive = {task.id for task in state.order if isinstance(task.status, ALIVE)}
    if alive != set(state.running):
        yield f"running {sorted(alive)}, slots {sorted(state.running)}"
    if not set(state.reconciling) <= alive:
        yield f"to be found again, but not running: {sorted(set(state.reconciling) - alive)}"
    if state.phase in (Phase.NEVER, Phase.ENDED) and alive:
        yield f"running although the run is over: {sorted(alive)}"


def _attempts_alive_at_most_once(state: State) -> Iterator[str]:
    attempts = [task.status.attempt for task in state.order if isinstance(task.status, Running)]
    if len(set(attempts)) < len(attempts):
        yield "two tasks have one attempt"
    for task in state.order:
        if isinstance(task.status, Running) and (task.status.attempt, task.status.number) != (
            task.attempt,
            task.number,
        ):
            yield f"{task.id} runs {task.status.attempt}, its newest attempt is {task.attempt}"


def _started_only_after_dependencies(state: State) -> Iterator[str]:
    """Done tasks are left out: a ticked one, or one of a changed plan, may have open dependencies; and so what ran, or
    had failed already, when a plan was read again."""
    run = state.run
    begun = () if run is None or run.reloaded else (Backoff, *ALIVE)
    for task in state.order:
        if isinstance(task.status, (Ready, Manual, *begun)) and task.open:
            yield f"{task.id} is {type(task.status).__name__} with {task.open} open dependencies"


def _pending_waits_for_something(state: State) -> Iterator[str]:
    for task in state.order:
        if isinstance(task.status, Pending) and not task.open:
            yield f"{task.id} is pending without an open dependency"


def _blocked_has_a_failed_ancestor(state: State) -> Iterator[str]:
    for task in state.order:
        above = [dependency.status for dependency in state.dependencies(task)]
        stuck = any(isinstance(status, (Failed, Cancelled, Blocked)) for status in above)
        if isinstance(task.status, Blocked):
            if not stuck:
                yield f"{task.id} is blocked by nothing"
            for cause in task.status.by:
                if cause in state.tasks and not isinstance(state.tasks[cause].status, (Failed, Cancelled)):
                    yield f"{task.id} is said to be blocked by {cause}, which did not fail"
        elif stuck and isinstance(task.status, (Pending, Ready, Manual)):
            yield f"{task.id} is not blocked, but something upstream failed"


def _caps_are_kept(state: State) -> Iterator[str]:
    """Not after a resume with smaller numbers, or with another plan: what runs then ends by itself."""
    if state.run is None or state.run.resumed or state.run.reloaded:
        return
    options = state.run.options
    if len(state.running) > options.max_workers:
        yield f"{len(state.running)} running, at most {options.max_workers} may"
    for room in rooms_of(state.plan, options):
        side_by_side = sum(1 for id in room.tasks if id in state.running)
        if side_by_side > room.size:
            yield f"{side_by_side} of {room.kind} {room.name} running, at most {room.size} may"


def _people_are_asked_first(state: State) -> Iterator[str]:
    if state.run is None or state.run.reloaded:
        return
    for task in (state.tasks[id] for id in state.running):
        if task.spec.manual:
            yield f"{task.id} is for a person, and runs"
        if task.spec.approve == "before" and not task.approved:
            yield f"{task.id} runs, and nobody approved it"


def _orders_are_carried_out(state: State) -> Iterator[str]:
    if state.phase not in (Phase.RUNNING, Phase.DRAINING):
        return
    for task in state.order:
        if has_order(task):
            yield f"{task.id} is still to be ended as ordered: {task.ordered}"
    for kind, pause in state.providers.items():
        if pause.over is not None:
            yield f"the pause of {kind} is over ({pause.over}), and goes on"


def _no_overlapping_tasks_run(state: State) -> Iterator[str]:
    if len(state.running) < 2 or state.run is None or state.run.resumed or state.run.reloaded:
        return
    keys = Keys(state.plan, state.run.options)
    running: list[Task] = [state.tasks[id] for id in state.running]
    for number, task in enumerate(running):
        for other in running[:number]:
            if found := keys.shared(task.index, other.index):
                yield f"{other.id} and {task.id} run side by side, both with {found[1]}"


RULES: tuple[Callable[[State], Iterator[str]], ...] = (
    _indexes_equal_recomputation,
    _no_status_outlives_its_pass,
    _slots_equal_running_set,
    _attempts_alive_at_most_once,
    _started_only_after_dependencies,
    _pending_waits_for_something,
    _blocked_has_a_failed_ancestor,
    _caps_are_kept,
    _no_overlapping_tasks_run,
    _people_are_asked_first,
    _orders_are_carried_out,
)
