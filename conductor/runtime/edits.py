"""The plan on disk, compared with the one that a run began with. An edit is reported, never applied to the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bus.wire import TaskId
from conductor.core.events import PlanEdited
from conductor.core.state import Run, State
from conductor.core.task import Plan, TaskSpec
from conductor.core.wording import few
from conductor.errors import PlanError
from conductor.plan import load, source
from conductor.plan.claims import from_project

PERIOD = 2.0
"""Seconds between two looks at the files while a run lasts."""

MAX_COMPARED = 1 << 20
"""Bytes of a plan that is read on the way to say what changed in it; a larger one would stall the loop."""


class PlanEdits:
    """Looks now and then whether the plan of a run was edited."""

    def __init__(self, track: Path) -> None:
        self._track = track
        self._signature: source.Signature | None = None
        self._looked_at: source.Signature | None = None
        self._due = 0.0

    def look(self, now: float, state: State) -> PlanEdited | None:
        """Return an edit that the run of `state` was not told of; `now` is monotonic. A file is read once it has
        stopped changing."""
        if now < self._due or state.run is None:
            return None
        self._due = now + PERIOD
        before, self._signature = self._signature, source.signature(self._track)
        if self._signature != before or self._signature == self._looked_at:
            return None
        try:
            found = edited(self._track, state.plan, state.run, limit=MAX_COMPARED)
        except OSError:  # no descriptor to read with: the next look will tell
            return None
        self._looked_at = self._signature
        return found


def edited(track: Path, plan: Plan, run: Run, *, limit: int | None = None) -> PlanEdited | None:
    """Compare the files with what the run knows of them; None where there is nothing new to tell.

    A plan of more than `limit` bytes is not read to say what changed.
    """
    sha = source.fingerprint(track)
    if sha == run.source_sha:
        return None
    if limit is not None and source.size(track) > limit:
        changes: tuple[str, ...] = (f"{plan.source} changed; it is too large to be compared while the run lasts",)
    else:
        changes = _changes(track, plan, Path(run.project))
    return PlanEdited(plan.source, sha, changes) if changes or run.edited else None


def _changes(track: Path, plan: Plan, project: Path) -> tuple[str, ...]:
    try:
        return difference(plan, from_project(load(track), project))
    except PlanError as error:
        return (f"{plan.source} cannot be read now ({error.message})",)


def difference(before: Plan, after: Plan) -> tuple[str, ...]:
    """Say in words how two plans differ, a line for each kind of change."""
    old, new = definitions(before), definitions(after)
    kinds: list[tuple[str, list[str]]] = [
        ("new", [task for task in new if task not in old]),
        ("removed", [task for task in old if task not in new]),
        ("changed", [task for task in new if task in old and new[task] != old[task]]),
        ("changed", [name for name in _AROUND if getattr(before, name) != getattr(after, name)]),
    ]
    return tuple(f"{kind} in {after.source}: {few(names, 10)}" for kind, names in kinds if names)


_AROUND = ("groups", "limits", "defaults", "project")
"""What else of a plan than its tasks a run depends on."""


def definitions(plan: Plan) -> dict[TaskId, TaskSpec]:
    """Return what defines each task: not its place in the file, nor its prose."""
    return {task.id: replace(task, index=0, line=0, prose="", ticked=False) for task in plan.tasks}
