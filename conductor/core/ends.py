"""How tasks come to their end where no attempt decides alone: by what somebody ordered, and at gates. Decides only."""

from __future__ import annotations

from typing import Final

from conductor.core import policy
from conductor.core.events import Decision, TaskCompleted, TaskFailed, TaskSkipped
from conductor.core.gates import TIMED_OUT, needs_approval
from conductor.core.state import State, Task
from conductor.core.supervision import ApprovalAsked, ManualOpened, TaskCancelled
from conductor.core.task import IDLE, AwaitsApproval, Ended, Manual, Pending, Ready
from conductor.core.wording import exact, person

REJECTED: Final = "rejected"
"""Class of a task whose work, or whose beginning, a person did not want."""

REPORTED: Final = "reported"
"""Class of a task of which somebody said that it failed."""


def completed(state: State, task: Task) -> TaskCompleted:
    """Return the end of a task that is done."""
    attempt = task.status.attempt if isinstance(task.status, (Ended, AwaitsApproval)) else None
    commit, files = policy.reported_work(task.report if attempt else None)
    return TaskCompleted(
        task=task.id,
        attempt=attempt,
        task_id=task.id,
        commit_sha=commit,
        files_modified=files,
        unblocks=tuple(
            other.id for other in state.dependants(task) if other.open == 1 and isinstance(other.status, Pending)
        ),
    )


def work_done(state: State, task: Task) -> Decision:
    """Return what follows from work that is done: the end, or the question whether it is good."""
    if task.spec.approve == "after":
        return ApprovalAsked(task.id, "after", task.status.attempt if isinstance(task.status, Ended) else None)
    return completed(state, task)


def has_order(task: Task) -> bool:
    """Tell whether an order about a task can be carried out as it is; while an attempt is alive, none can."""
    match task.ordered:
        case ("cancel", _, _):
            return isinstance(task.status, IDLE)
        case ("approve" | "reject", _, _):
            return isinstance(task.status, AwaitsApproval)
        case (_, _, _):
            return isinstance(task.status, Manual)
        case _:
            return False


def as_ordered(state: State, task: Task) -> Decision:
    """Carry an order out: see `has_order`."""
    assert task.ordered is not None
    verb, who, text = task.ordered
    if verb == "cancel":
        return TaskCancelled(task.id, task.id, who)
    if verb == "approve":
        return completed(state, task)
    if verb == "complete":
        return work_done(state, task)
    if verb == TIMED_OUT:
        return TaskFailed(task.id, None, task.id, f"nobody did it within {exact(task.spec.timeout or 0)}", TIMED_OUT)
    error_class, what = (REJECTED, "rejected") if verb == "reject" else (REPORTED, "said to have failed")
    attempt = task.status.attempt if isinstance(task.status, AwaitsApproval) else None
    message = f"{what} by {person(who)}" + (f": {text}" if text else "")
    return TaskFailed(task.id, attempt, task.id, message[: policy.MAX_MESSAGE], error_class)


def needs_a_person(task: Task) -> bool:
    """Tell whether a person comes first: then no attempt of the task may be made, whatever is free."""
    return isinstance(task.status, Ready) and (task.spec.manual or needs_approval(task))


def may_start(task: Task) -> bool:
    """Tell whether an attempt of a task may be made once there is room for it."""
    return isinstance(task.status, Ready) and not needs_a_person(task)


def opened(task: Task) -> Decision:
    """Ask the person: see `needs_a_person`."""
    return ApprovalAsked(task.id, "before", None) if needs_approval(task) else ManualOpened(task.id)


def expired_group(state: State, task: Task) -> str | None:
    """Return the group of a task that has run out of time; None where none has."""
    expired = state.run.groups_expired if state.run else []
    return next((group.id for group in state.timed.get(task.id, ()) if group.id in expired), None)


def out_of_time(state: State, task: Task) -> TaskSkipped:
    """Skip a task whose group has run out of time."""
    return TaskSkipped(task.id, task.id, f"group {expired_group(state, task)} has run out of time")
