"""Why a task is where it is, in plain sentences, from the picture of the run alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bus.wire import TaskId
from conductor.core.view import RunView, TaskView, WaitView


def why(view: RunView, id: TaskId) -> list[str]:
    """Explain a task's state; the first sentence names it. Raises KeyError for a task that the plan does not have."""
    tasks = {task.id: task for task in view.tasks}
    task = tasks[id]
    return [*_EXPLAIN[task.status](task, tasks, view), *_last_attempt(task)]


_Tasks = Mapping[TaskId, TaskView]


def _pending(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    open = [tasks[id] for id in task.depends_on if id in tasks and tasks[id].status != "done"]
    needs = _list([f"{other.id} ({other.status})" for other in open])
    return [f"{task.id} is pending: it needs {needs}.", *_over(view)]


def _ready(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    if _over(view):
        return [f"{task.id} is ready, but was not started before the run ended.", *_over(view)]
    if view.state == "draining":
        return [f"{task.id} is ready, but nothing new is started: the run is being stopped."]
    busy = sum(1 for other in view.tasks if other.worker is not None)
    return [f"{task.id} is ready: all its dependencies are done, it lacks a free worker ({busy} are busy)."]


def _waiting(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    return [f"{task.id} waits for {_wait(wait, tasks)}." for wait in task.waits_for]


def _wait(wait: WaitView, tasks: _Tasks) -> str:
    if wait.kind == "backoff":
        return f"{wait.what}, which begins in {wait.seconds or 0:.0f} s"
    if wait.kind == "group":
        return f"room in group {wait.what}, whose workers are all busy"
    holder = tasks.get(wait.holder) if wait.holder else None
    whose = "" if holder is None else f", which task {holder.id} ({holder.status}) claims"
    return f"{'resource ' if wait.kind == 'resource' else ''}{wait.what}{whose}"


def _running(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    lines = [f"{task.id} is running: attempt {task.number}, worker {task.worker}."]
    if task.stopping:
        lines.append(f"It is being stopped ({task.stopping}).")
    if task.progress_pct is not None or task.progress_text:
        said = f"{task.progress_pct:.0f} % " if task.progress_pct is not None else ""
        lines.append(f"It says: {said}{task.progress_text}".rstrip())
    return lines


def _done(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    if task.attempt is None:
        return [f"{task.id} is done: its box in the plan was ticked, no attempt was made."]
    took = f" after {task.seconds:.1f} s" if task.seconds is not None else ""
    held = [name.replace("_", " ") for name, value in (task.evidence or {}).items() if value]
    return [f"{task.id} is done: attempt {task.number} succeeded{took}; evidence: {_list(held) or 'none'}."]


def _failed(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    times = f"{task.attempts} attempt{'' if task.attempts == 1 else 's'}"
    return [f"{task.id} failed after {times}: {_error(task)}."]


def _blocked(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    lines = []
    for id in task.blocked_by:
        cause = tasks[id]
        how = f"failed: {_error(cause)}" if cause.status == "failed" else f"was cancelled by {cause.reason}"
        lines.append(f"{task.id} is blocked: it needs {' → '.join(_path(task, id, tasks))}, which {how}.")
    return lines


def _path(task: TaskView, cause: TaskId, tasks: _Tasks) -> list[TaskId]:
    """Return the dependencies that lead from a blocked task to one that blocks it, without the task itself."""
    path: list[TaskId] = []
    here = task
    while not path or path[-1] != cause:
        near = [tasks[id] for id in here.depends_on if id in tasks]
        here = next(other for other in near if other.id == cause or cause in other.blocked_by)
        path.append(here.id)
    return path


def _skipped(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    return [f"{task.id} was skipped: {task.reason}."]


def _cancelled(task: TaskView, tasks: _Tasks, view: RunView) -> list[str]:
    return [f"{task.id} was cancelled by {task.reason}."]


_EXPLAIN: Mapping[str, Callable[[TaskView, _Tasks, RunView], list[str]]] = {
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


def _over(view: RunView) -> list[str]:
    """Say how the run ended; nothing while it goes on."""
    if view.ended_at is None:
        return []
    by = f" by {view.stopped_by}" if view.reason == "stopped" and view.stopped_by else ""
    return [f"The run has ended: {view.state}{by}. The next `conductor run` goes on with it."]


def _last_attempt(task: TaskView) -> list[str]:
    """Say what the newest ended attempt of an unfinished task came to."""
    if task.status in ("done", "failed") or task.last_error is None:
        return []
    left = f"{task.retries_left} {'retry is' if task.retries_left == 1 else 'retries are'} left"
    return [f"Its last ended attempt: {task.last_error.error_class}: {task.last_error.message} ({left})."]


def _error(task: TaskView) -> str:
    error = task.error
    return "" if error is None else f"{error.message} [{error.error_class}]"


def _list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
