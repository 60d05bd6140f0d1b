"""Gates, manual tasks and cancelled ones: how their decisions change the state, and how long a person may take."""

from __future__ import annotations

from conductor.core.changes import Moment, decided, set_status, tell
from conductor.core.state import State, Task
from conductor.core.supervision import ApprovalAsked, ManualOpened, TaskCancelled
from conductor.core.task import AwaitsApproval, Cancelled, Manual

MANUAL_KEY = "manual:"
"""Timers of this prefix end the manual task named behind it, where it has a time limit of its own."""

BY_PLAN = "plan"
"""Who approves of work whose gate is not in the plan any more."""

TIMED_OUT = "timeout"
"""The order that such a timer gives, and the class of a task that it ends."""


def approval_asked(state: State, event: ApprovalAsked, moment: Moment) -> None:
    """Let a task wait at its gate."""
    task = decided(state, event.TYPE, event.task)
    task.ordered = None
    set_status(state, task, AwaitsApproval(event.when, event.attempt), moment)
    tell(task, event.TYPE, event.when)


def manual_opened(state: State, event: ManualOpened, moment: Moment) -> None:
    """Hand a task to people."""
    task = decided(state, event.TYPE, event.task)
    assert state.run is not None
    task.started_at = moment.wall
    set_status(state, task, Manual(state.run.clock(moment.now)), moment)
    tell(task, event.TYPE)


def task_cancelled(state: State, event: TaskCancelled, moment: Moment) -> None:
    """Call a task off."""
    task = decided(state, event.TYPE, event.task)
    task.ordered, task.approved, task.ended_at = None, False, moment.wall
    set_status(state, task, Cancelled(event.who), moment)
    tell(task, event.TYPE)


def manual_timer_fired(state: State, task: Task, moment: Moment) -> bool:
    """Note that a manual task has run out of time; tell whether it means anything now."""
    if not isinstance(task.status, Manual) or task.ordered:
        return False
    task.ordered = (TIMED_OUT, "", "")
    set_status(state, task, task.status, moment)
    return True


def needs_approval(task: Task) -> bool:
    """Tell whether a task must not begin before somebody approved it."""
    return task.spec.approve == "before" and not task.approved


def lets_go(task: Task) -> bool:
    """Tell whether a task waits for a person whom its plan, read again, does not ask any more. What somebody ordered
    meanwhile comes first."""
    match task.status:
        case _ if task.ordered:
            return False
        case Manual():
            return not task.spec.manual
        case AwaitsApproval("before", _):
            return task.spec.approve != "before"
    return False


def release_work(task: Task) -> None:
    """Let work that waits for approval be done where its plan does not ask for that any more."""
    if holds_work(task) and task.spec.approve != "after" and not task.ordered:
        task.ordered = ("approve", BY_PLAN, "")


def holds_work(task: Task) -> bool:
    """Tell whether the work of a task is done and waits only for approval: then it is not thrown away with a round."""
    return isinstance(task.status, AwaitsApproval) and task.status.when == "after"
