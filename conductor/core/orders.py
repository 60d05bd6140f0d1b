"""What operators order: which tasks an order is about, why it may mean nothing now, and how it changes the state.

An order never does more than the state allows: what means nothing is recorded with the reason, and ignored. What needs
a record of its own (a task that ends) is only noted here (`Task.ordered`); the decision follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from bus.wire import TaskId
from conductor.core.changes import Moment, cell, let_go, set_status, tell
from conductor.core.events import ControlReceived
from conductor.core.policy import FAIL_FAST
from conductor.core.resets import causes, count_open
from conductor.core.state import State, Task
from conductor.core.task import (
    AwaitsApproval,
    Backoff,
    Blocked,
    Cancelled,
    Done,
    Failed,
    Manual,
    Pending,
    Ready,
    Running,
    Skipped,
)
from conductor.core.transitions import APPROVE, RETRY, Phase
from conductor.core.wording import few, person

NOT_NAMED = "not named by --only"
"""Why a task is skipped that `--only` leaves out."""

RETRY_REASON = "retry"
"""Reason of a round that was over when tasks of it were taken back."""

TASK_VERBS: Final = ("cancel", "retry", "approve", "reject", "complete", "fail", "steer")
"""Orders about one task, which is their target."""


def resolve(state: State, order: ControlReceived) -> ControlReceived:
    """Return the order with the tasks that it changes, or with the reason why it means nothing now."""
    if order.verb == "reset":  # whoever records one holds the track, and found its tasks
        return replace(order, task=about(state, order))
    refused = refusal(state, order)
    if refused is not None:
        return replace(order, task=about(state, order), refused=refused)
    task = about(state, order)
    if task is None:
        return order
    tasks = taken_back(state, state.tasks[task]) if order.verb == "retry" else (task,)
    return replace(order, task=task, tasks=tasks)


def about(state: State, order: ControlReceived) -> TaskId | None:
    """Return the task that an order is about: its target, or whose question it answers."""
    if order.verb == "answer":
        return next((wait.task for wait in state.waits.values() if wait.id == order.target), None)
    about = order.verb in TASK_VERBS or order.verb == "reset"
    return _target(order) if about and _target(order) in state.tasks else None


def refusal(state: State, order: ControlReceived) -> str | None:
    """Return why an order means nothing now, in a sentence; it begins with `already` where what it asks for is so."""
    if order.verb in TASK_VERBS:
        task = state.tasks.get(_target(order))
        if task is None:
            return f"the run has no task {order.target}" if order.target else f"`{order.verb}` needs a task"
        return _OF_TASK[order.verb](state, task, order)
    check = _OF_RUN.get(order.verb)
    return f"`{order.verb}` is no order" if check is None else check(state, order)


def obey(state: State, order: ControlReceived, moment: Moment) -> None:
    """Follow an order that is not refused."""
    match order.verb:
        case "pause":
            _pause(state, order)
        case "resume":
            _resume(state, order)
        case "retry":
            _retry(state, order, moment)
        case "steer" | "answer":
            _write(state, order)
        case "approve" if not _after(state.tasks[_target(order)]):
            _approve(state, state.tasks[_target(order)], moment)
        case "cancel" | "complete" | "fail" | "approve" | "reject":
            task = state.tasks[_target(order)]
            task.ordered = (order.verb, order.who, order.text or "")
            tell(task, order.TYPE, order.verb)
            set_status(state, task, task.status, moment)
            moment.listener.suspect(task)
        case _:  # `unlock` and `reload` bring facts of their own
            pass


def _target(order: ControlReceived) -> TaskId:
    return TaskId(order.target or "")


def _after(task: Task) -> bool:
    return isinstance(task.status, AwaitsApproval) and task.status.when == "after"


# --- why not --------------------------------------------------------------------------------------------------------


def _end_refusal(state: State, order: ControlReceived) -> str | None:
    return None if state.phase in (Phase.RUNNING, Phase.DRAINING) else "no run is under way"


def _pause_refusal(state: State, order: ControlReceived) -> str | None:
    held = state.paused_ahead if order.ahead else state.run and state.run.paused_by
    if held:
        return f"already paused by {person(held)}"
    if order.ahead or state.phase is Phase.RUNNING:
        return None
    return "the run is being ended" if state.phase is Phase.DRAINING else "no run is under way"


def _resume_refusal(state: State, order: ControlReceived) -> str | None:
    if order.target is not None:
        return None if order.target in state.providers else f"already so: {order.target} is not paused"
    paused = state.paused_ahead or (state.run and state.run.paused_by) or state.providers
    return None if paused else "already so: nothing is paused"


def _unlock_refusal(state: State, order: ControlReceived) -> str | None:
    return None if order.target else "`unlock` needs a path"


def _reload_refusal(state: State, order: ControlReceived) -> str | None:
    if _end_refusal(state, order) is None:
        return None
    return "no run is under way, and the next one reads the plan anyway"


def _answer_refusal(state: State, order: ControlReceived) -> str | None:
    open = {wait.id: wait for wait in state.waits.values() if wait.kind == "question"}
    if order.target not in open:
        return f"there is no open question {order.target}" + (f"; open: {few(list(open))}" if open else "")
    task = state.tasks.get(open[order.target].task)
    if task is not None and answer_name(order.target) in task.letters:
        return f"already answered: {order.target}"
    return None if order.text else "an answer needs a text"


_OF_RUN: Mapping[str, Callable[[State, ControlReceived], str | None]] = {
    "drain": _end_refusal,
    "stop": _end_refusal,
    "pause": _pause_refusal,
    "resume": _resume_refusal,
    "unlock": _unlock_refusal,
    "reload": _reload_refusal,
    "answer": _answer_refusal,
}


def _cancel_refusal(state: State, task: Task, order: ControlReceived) -> str | None:
    match task.status:
        case Cancelled(who):
            return f"already cancelled by {person(who)}"
        case Done():
            return f"task {task.id} is done"
        case Failed() | Blocked() | Skipped():
            return f"task {task.id} {_was(task)}, and is not going to run"
    return f"already being cancelled: task {task.id}" if task.ordered and task.ordered[0] == "cancel" else None


def _retry_refusal(state: State, task: Task, order: ControlReceived) -> str | None:
    return _no_retry(state, task) or _starts_nothing(state, order)


def _starts_nothing(state: State, order: ControlReceived) -> str | None:
    """Say why a retry would come to nothing: it would only take the failure out of what the run ends with."""
    run = state.run
    if run is None or run.phase is Phase.ENDED:
        return None
    if run.phase is Phase.DRAINING and not order.ahead:  # whoever goes on with it does not end it
        return "the run is being ended, and starts nothing more: retry after it has ended"
    if run.gave_up in (None, FAIL_FAST):  # the latter is lifted with the last failed task
        return None
    return f"the run gave up ({run.gave_up}), and starts nothing more: retry after it has ended"


def _no_retry(state: State, task: Task) -> str | None:
    match task.status:
        case Failed() | Cancelled():
            return None
        case Pending() | Ready() | Backoff() | Running() if task.ordered and task.ordered[0] == "cancel":
            return f"task {task.id} is being cancelled, as {person(task.ordered[1])} ordered: retry it once it is"
        case Backoff():
            return None
        case Skipped(reason):
            return f"task {task.id} is {NOT_NAMED}" if reason == NOT_NAMED else None
        case Blocked():
            return f"task {task.id} is blocked by {few(causes(state, task))}: retry that"
        case Done():
            return f"task {task.id} is done: only a reset starts it over"
        case Running():
            return f"already running: task {task.id}"
    return f"already going to run: task {task.id}"


def _approve_refusal(state: State, task: Task, order: ControlReceived) -> str | None:
    if isinstance(task.status, AwaitsApproval):
        return f"already ordered: {task.ordered[0]}" if task.ordered else None
    if task.spec.approve is None:
        return f"task {task.id} asks for no approval"
    if task.approved:
        return f"already approved: task {task.id}"
    if isinstance(task.status, (Done, Failed, Cancelled)) or task.spec.approve == "after":
        return f"task {task.id} {_was(task)}: there is nothing to approve"
    return None


def _reject_refusal(state: State, task: Task, order: ControlReceived) -> str | None:
    if not isinstance(task.status, AwaitsApproval):
        return f"task {task.id} {_was(task)}: there is nothing to reject"
    return f"already ordered: {task.ordered[0]}" if task.ordered else None


def _by_hand_refusal(state: State, task: Task, order: ControlReceived) -> str | None:
    if not task.spec.manual:
        return f"task {task.id} is not for a person: its worker says when it is done"
    if task.ordered:
        return f"already ordered: {task.ordered[0]}"
    match task.status:
        case Manual():
            return None
        case Ready() | Pending() | Skipped() if not task.open:
            return None  # when its time comes, it is so at once
        case Ready() | Pending() | Skipped():
            return f"task {task.id} depends on tasks that are not done"
        case Done():
            return f"already done: task {task.id}"
    return f"task {task.id} {_was(task)}"


def _steer_refusal(state: State, task: Task, order: ControlReceived) -> str | None:
    if not isinstance(task.status, Running):
        return f"task {task.id} {_was(task)}: nobody would read it"
    return None if order.text else "steering needs a text"


def _was(task: Task) -> str:
    match task.status:
        case Failed():
            return "has failed"
        case Blocked():
            return "is blocked"
        case Skipped():
            return "was skipped"
        case Cancelled():
            return "was cancelled"
        case Done():
            return "is done"
        case AwaitsApproval():
            return "waits for approval"
        case Running():
            return "is running"
        case Backoff():
            return "has no attempt now, and waits for its next one"
    return "has not begun"


_OF_TASK: Mapping[str, Callable[[State, Task, ControlReceived], str | None]] = {
    "cancel": _cancel_refusal,
    "retry": _retry_refusal,
    "approve": _approve_refusal,
    "reject": _reject_refusal,
    "complete": _by_hand_refusal,
    "fail": _by_hand_refusal,
    "steer": _steer_refusal,
}


# --- what changes ---------------------------------------------------------------------------------------------------


def _pause(state: State, order: ControlReceived) -> None:
    if order.ahead:
        state.paused_ahead = order.who
    else:
        assert state.run is not None
        state.run.paused_by = order.who


def _resume(state: State, order: ControlReceived) -> None:
    """Go on; who names no worker kind means all of them."""
    if order.target is None:
        state.paused_ahead = None
        if state.run is not None:
            state.run.paused_by = None
    for kind in state.providers if order.target is None else [order.target]:
        state.providers[kind] = replace(state.providers[kind], over=f"resumed by {person(order.who)}")


def taken_back(state: State, task: Task) -> tuple[TaskId, ...]:
    """Return the tasks that a retry takes back, in plan order: the task, and what only it kept from running."""
    if isinstance(task.status, Backoff):
        return (task.id,)
    found = {task.index}
    for index in state.graph.order:
        below = state.order[index]
        if found.isdisjoint(state.graph.dependencies[index]):
            continue
        freed = isinstance(below.status, Blocked) and not causes(state, below, found)
        if freed or (isinstance(below.status, Skipped) and below.status.reason != NOT_NAMED):
            found.add(index)
    return tuple(state.order[index].id for index in sorted(found))


def _retry(state: State, order: ControlReceived, moment: Moment) -> None:
    first = state.tasks[_target(order)]
    tell(first, order.TYPE, order.verb)
    if isinstance(first.status, Backoff):
        let_go(state, first, moment)
        return
    back = [state.tasks[id] for id in order.tasks or taken_back(state, first) if id in state.tasks]
    for task in back:
        task.status = cell(task, RETRY)()
        task.used, task.uncounted, task.ordered, task.approved, task.progress = 0, {}, None, False, None
    for task in (state.order[index] for index in state.graph.order):
        if isinstance(task.status, Blocked) and first.id in task.status.by:
            task.status = Blocked(causes(state, task))
    count_open(state)
    run = state.run
    assert run is not None
    again = {group.id for group in state.plan.groups if not {task.id for task in back}.isdisjoint(group.tasks)}
    run.groups_expired = [id for id in run.groups_expired if id not in again]
    for id in again & run.groups_since.keys():
        del run.groups_since[id]
    if run.phase is Phase.ENDED:
        run.end, run.reason, run.stopped_by = "stopped", RETRY_REASON, order.who


def _approve(state: State, task: Task, moment: Moment) -> None:
    task.approved = True
    tell(task, ControlReceived.TYPE, "approve")
    if isinstance(task.status, AwaitsApproval):
        set_status(state, task, cell(task, APPROVE)(), moment)


def _write(state: State, order: ControlReceived) -> None:
    task = state.tasks[about(state, order) or _target(order)]
    steers = sum(1 for name in task.letters if name.endswith("-steer.md"))
    name = answer_name(order.target) if order.verb == "answer" else f"{steers + 1:08d}-steer.md"
    task.letters = {**task.letters, name: order.text or ""}
    tell(task, order.TYPE, order.verb)


def answer_name(question: str | None) -> str:
    """Return the name of the text that answers a question."""
    return f"answer-{question}"
