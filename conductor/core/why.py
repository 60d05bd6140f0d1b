"""Why a task is where it is, in plain sentences, from the picture of the run alone.

Names and messages in them come from plans and commands: whoever shows them makes them safe first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bus.wire import TaskId
from conductor.core.policy import CONDUCTOR_DIED, STOPPED
from conductor.core.reasons import gave_up_line
from conductor.core.reasons import gave_up_text as gave_up_text
from conductor.core.view import ErrorView, RunView, TaskView, WaitView
from conductor.core.waits import DEADLOCK_VICTIM, HUNG, STALE_TOKEN
from conductor.core.why_waits import attempt_wait_text, in_a_deadlock, life_text
from conductor.core.wording import duration, few, left_behind, person, plural, sentence

MOST = 10
"""Dependencies or causes that are told of one by one."""

SINCE = " after the run began (time without a conductor included)"
"""What a length of time means where a run was taken over."""

OPEN = ("pending", "ready", "waiting", "running")
"""Statuses of a task that a run still works on, or would."""

LONGEST_PATH = 6
"""Tasks on a path of dependencies that are all named."""


@dataclass(frozen=True, slots=True)
class _Scene:
    view: RunView
    tasks: Mapping[TaskId, TaskView]
    now: float
    """Wall clock."""


def why(view: RunView, id: TaskId, now: float) -> list[str]:
    """Explain a task's state; `now` is the wall clock. Raises KeyError for a task that the plan does not have."""
    scene = _Scene(view, {task.id: task for task in view.tasks}, now)
    task = scene.tasks[id]
    return [*_EXPLAIN[task.status](task, scene), *_attempt_before(task), *_over(task, view)]


def error_text(error: ErrorView) -> str:
    """Say why an attempt did not succeed."""
    return error.message or error.error_class


def waiting_text(wait: WaitView, holder: TaskView | None, now: float) -> str:
    """Say what a task waits for: `for src/a.py, in use by 1.2`, `attempt 2 in 5.0s`; `now` is the wall clock."""
    if wait.kind == "backoff":
        return f"{wait.what} in {duration(wait.until - now)}" if wait.until is not None else wait.what
    if wait.kind in _FOR_PEOPLE:
        return _FOR_PEOPLE[wait.kind](wait)
    if wait.kind in ("lock", "task", "answer", "pool"):
        return attempt_wait_text(wait, holder.status if holder else None)
    if wait.kind == "provider":
        left = "until it is resumed" if wait.until is None else f"for {duration(wait.until - now)} more at most"
        return f"for {wait.what}, held back {left}"
    if wait.kind == "group":
        return f"for a place in group {wait.what}"
    if holder is None:
        return f"for {wait.what}"
    return f"for {wait.what}, {'in use by' if holder.worker else 'after'} {holder.id}"


_FOR_PEOPLE: Mapping[str, Callable[[WaitView], str]] = {
    "approval": lambda wait: "for approval to start" if wait.what == "before" else "for approval of its work",
    "manual": lambda wait: f"for {wait.what} to do it",
    "paused": lambda wait: f"for the run to go on, paused by {person(wait.what)}",
}


def _pending(task: TaskView, scene: _Scene) -> list[str]:
    open = [id for id in task.depends_on if scene.tasks[id].status != "done"]
    lines = []
    for id in open[:MOST]:
        path = _open_path(scene.tasks[id], scene)
        lines.append(f"Needs {_arrows(path)}, which is {scene.tasks[path[-1]].status}.")
    return lines if len(open) <= MOST else [*lines, f"And {len(open) - MOST} more."]


def _open_path(task: TaskView, scene: _Scene) -> list[TaskId]:
    """Follow what is not done from a task to one that does not itself wait for a dependency."""
    path = [task.id]
    while task.status == "pending":
        task = next(other for id in task.depends_on if (other := scene.tasks[id]).status != "done")
        path.append(task.id)
    return path


def _ready(task: TaskView, scene: _Scene) -> list[str]:
    view = scene.view
    if view.ended_at is not None:
        return []  # that the run has ended says it all
    if view.gave_up:
        return [f"It could start, but nothing new is started: {gave_up_text(view.gave_up, view.options)}."]
    if view.state != "running":
        return ["It could start, but nothing new is started now."]
    busy = sum(1 for other in view.tasks if other.worker is not None)
    return [f"It could start, but lacks a free worker: {plural(busy, 'worker')} busy."]


def _waiting(task: TaskView, scene: _Scene) -> list[str]:
    found = _running(task, scene) if task.worker else []
    for wait in task.waits_for:
        holder = None if wait.holder is None else scene.tasks[wait.holder]
        verb = "Tries again:" if wait.kind == "backoff" else "Waits"
        found.append(f"{verb} {waiting_text(wait, holder, scene.now)}.")
    return found


def _running(task: TaskView, scene: _Scene) -> list[str]:
    since = "" if task.started_at is None else f" for {duration(scene.now - task.started_at)}"
    stopping = f", {stopping_text(task.stopping)}" if task.stopping else ""
    progress = "" if task.progress_pct is None else f", at {task.progress_pct:.0f} %"
    text = f": {task.progress_text}" if task.progress_text else ""
    told = [f"Attempt {task.number} runs{since}{stopping}{progress}{text}."]
    if task.life and (life := life_text(task.life, scene.now)):
        told.append(life)
    return [*told, in_a_deadlock(task.deadlock)] if task.deadlock else told


def stopping_text(reason: str) -> str:
    """Say that an attempt is being stopped, and why, unless somebody just wanted it so."""
    return "being stopped" + _STOPS.get(reason, f": {reason}")


_STOPS: Mapping[str, str] = {
    STOPPED: "",
    DEADLOCK_VICTIM: " to end a deadlock",
    STALE_TOKEN: ", as a lock was taken from it",
    HUNG: ", as it hangs",
}


def _done(task: TaskView, scene: _Scene) -> list[str]:
    if task.attempt is None:
        return ["Its box in the plan is ticked; no attempt was made."]
    took = "" if task.seconds is None else f" after {duration(task.seconds)}"
    tries = f" in {plural(task.attempts, 'attempt')}" if task.attempts > 1 else ""
    commit = f", commit {task.commit}" if task.commit else ""
    held = [name.replace("_", " ") for name, value in (task.evidence or {}).items() if value is True]
    return [f"Done{took}{tries}{commit}; what tells: {few(held) or 'nothing'}.", *_left_behind(task)]


def _left_behind(task: TaskView) -> list[str]:
    left = left_behind((task.evidence or {}).get("leftovers") or ())
    return [f"{sentence(left)}."] if left else []


def _failed(task: TaskView, scene: _Scene) -> list[str]:
    what = f"Attempt {task.number} failed" if task.number else "Failed"  # a person's task has no attempts
    return [f"{what}: {_error(task)}.", *_left_behind(task)]


def _blocked(task: TaskView, scene: _Scene) -> list[str]:
    lines = []
    for id in task.blocked_by[:MOST]:
        top = scene.tasks[id]
        how = (
            f"failed: {_error(top)}" if top.status == "failed" else f"was cancelled by {person(top.reason or 'nobody')}"
        )
        lines.append(f"Needs {_arrows(_blocked_path(task, id, scene))} ({top.name}), which {how}.")
    return lines if len(task.blocked_by) <= MOST else [*lines, f"And {len(task.blocked_by) - MOST} more."]


def _blocked_path(task: TaskView, top: TaskId, scene: _Scene) -> list[TaskId]:
    """Return the dependencies that lead from a blocked task to one that blocks it, without the task itself."""
    path: list[TaskId] = []
    while not path or path[-1] != top:
        near = (scene.tasks[id] for id in task.depends_on)
        task = next(other for other in near if other.id == top or top in other.blocked_by)
        path.append(task.id)
    return path


def _arrows(path: list[TaskId]) -> str:
    if len(path) > LONGEST_PATH:
        return " → ".join([*path[:3], f"… {len(path) - 5} more …", *path[-2:]])
    return " → ".join(path)


def _skipped(task: TaskView, scene: _Scene) -> list[str]:
    return [f"Skipped: {gave_up_text(task.reason or '', scene.view.options)}."]


def state_text(state: str) -> str:
    """Say how a run stands, or ended."""
    return "gave up" if state == "escalated" else state


def _cancelled(task: TaskView, scene: _Scene) -> list[str]:
    return [f"Cancelled by {person(task.reason or 'nobody')}."]


_EXPLAIN: Mapping[str, Callable[[TaskView, _Scene], list[str]]] = {
    "pending": _pending,
    "ready": _ready,
    "waiting": _waiting,
    "running": _running,
    "done": _done,
    "failed": _failed,
    "blocked": _blocked,
    "skipped": _skipped,
    "cancelled": _cancelled,
}


_OTHERS_FAULT = frozenset({STOPPED, CONDUCTOR_DIED, DEADLOCK_VICTIM, STALE_TOKEN})
"""Classes whose message says what was done to an attempt, or not done."""


def _attempt_before(task: TaskView) -> list[str]:
    """Say what the newest ended attempt of an unfinished task came to."""
    if task.status in ("done", "failed") or task.last_error is None:
        return []
    which = "The attempt before" if task.worker else f"Attempt {task.number}"
    if task.last_error.error_class in _OTHERS_FAULT:
        return [f"{which} was {task.last_error.message}; that uses up no retry."]
    left = {0: "no retry", 1: "1 retry"}.get(task.retries_left, f"{task.retries_left} retries")
    return [f"{which} failed: {error_text(task.last_error)}; {left} left."]


def _over(task: TaskView, view: RunView) -> list[str]:
    """Say how the run of an unfinished task ended, or that it is ending."""
    if task.status not in OPEN:
        return []
    by = f" by {person(view.stopped_by)}" if view.stopped_by else ""
    if view.state == "draining":
        return [f"The run is being ended{by}."]
    if view.gave_up and view.ended_at is None:
        return [] if task.status == "ready" else [f"The run {gave_up_line(view.gave_up, view.options)}."]
    if view.ended_at is None:
        return []
    if what := _TAKEN_BACK.get(view.reason or ""):
        return [f"The run has ended; tasks of it were {what}{by} since, for the next run."]
    return [f"The run has ended: {state_text(view.state)}{by}."]


_TAKEN_BACK: Mapping[str, str] = {"reset": "set back", "retry": "taken up again"}
"""What was done to tasks of a run that was over, by the reason that it has then."""


def _error(task: TaskView) -> str:
    return error_text(task.error) if task.error else ""
