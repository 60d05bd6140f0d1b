"""What running attempts wait for, and what waits for them, as people and scripts see it."""

from __future__ import annotations

from collections.abc import Iterator

from bus.wire import TaskId
from conductor.core.awaited import closure, targets
from conductor.core.contest import Contest, live_grants, live_waits
from conductor.core.state import FINAL, State
from conductor.core.task import Ready, Running
from conductor.core.wait_view import WaitView
from conductor.core.waits import Wait


def waits_of_attempts(state: State) -> dict[TaskId, tuple[WaitView, ...]]:
    """Return what each running attempt waits for; of one that is being stopped, nothing more."""
    waits = live_waits(state)
    contest = Contest(live_grants(state), (wait for several in waits.values() for wait in several))
    found = {}
    for id, several in waits.items():
        status = state.tasks[id].status
        if isinstance(status, Running) and status.stopping is None:
            found[id] = tuple(dict.fromkeys(view for wait in several for view in _views(state, contest, wait)))
    return {id: views for id, views in found.items() if views}


def _views(state: State, contest: Contest, wait: Wait) -> Iterator[WaitView]:
    if wait.kind == "question":
        yield WaitView("answer", wait.id, text=wait.text)
    elif wait.kind == "lock":
        behind = [WaitView("lock", key, task) for task, key in contest.obstacles(wait)]
        yield from behind or (WaitView("lock", key) for key in wait.what)
    else:
        for id in map(TaskId, wait.what):
            if id in state.tasks and not isinstance(state.tasks[id].status, FINAL):
                yield WaitView("task", id, id)


def waits_for_the_pool(state: State, waiting: frozenset[TaskId]) -> Iterator[tuple[TaskId, WaitView]]:
    """Yield ready tasks that somebody waits for, near or far, where those of `waiting` hold all slots."""
    run = state.run
    if run is None or len(state.running) < run.options.max_workers or not waiting.issuperset(state.running):
        return
    for index in sorted(closure(state, targets(state))):
        task = state.order[index]
        if isinstance(task.status, Ready):
            yield task.id, WaitView("pool", "a free worker")
