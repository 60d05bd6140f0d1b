"""`reload`: the edited plan of a track, read and checked as a start does, for the round that is under way."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bus.contract import Host
from bus.errors import BusError
from conductor.config import load_config, resolve_limits
from conductor.core import effects, limits, reload
from conductor.core.state import State
from conductor.core.supervision import PlanReloaded
from conductor.core.task import Done, Plan, TaskSpec
from conductor.errors import ConductorError
from conductor.plan import frozen, load
from conductor.plan.claims import from_project
from conductor.plan.source import fingerprint
from conductor.runtime.command import Places, check_workers
from conductor.runtime.edits import difference

NEXT_ROUND = ("limits", "defaults", "project")
"""Parts of a plan that are options of a round: they are resolved when it begins, and stay so while it lasts."""


@dataclass(frozen=True, slots=True)
class Reloading:
    """Reads the plan of a track anew."""

    host: Host
    track: Path
    places: Places
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def read(self, state: State) -> PlanReloaded | str:
        """Return the plan that the round goes on with, frozen; or why it cannot."""
        assert state.run is not None
        try:
            sha = fingerprint(self.track)
            plan = self._checked(state, Path(state.run.project))
            if refused := reload.refusal(state, plan):
                return refused
            changes = _changes(state.plan, plan)
            if not changes:
                return f"already so: {plan.source} says what the run goes by"
            body = frozen.dump(plan)
            self.host.freeze_plan(body)
        except (ConductorError, BusError) as error:
            where = f"{error.path}: " if error.path else ""
            return f"the plan cannot be taken in: {where}{error.message}"
        return PlanReloaded(hashlib.sha256(body).hexdigest(), plan, sha, changes)

    def _checked(self, state: State, project: Path) -> Plan:
        assert state.run is not None
        options = state.run.options
        plan = load(self.track)
        limits.enforce(replace(plan, limits=resolve_limits(plan, load_config(self.track, project, self.environ))))
        plan = from_project(plan, project)
        effects.enforce(plan, options)
        check_workers(plan, options, [task for task in plan.tasks if not _is_done(state, task)], self.places)
        return plan


def _is_done(state: State, spec: TaskSpec) -> bool:
    task = state.tasks.get(spec.id)
    return task is not None and isinstance(task.status, Done)


def _changes(before: Plan, after: Plan) -> tuple[str, ...]:
    """Say what is different, and what of it only a new round goes by."""
    later = [name for name in NEXT_ROUND if getattr(before, name) != getattr(after, name)]
    notes = [f"only the next round goes by the {name} of {after.source}" for name in later]
    return (*difference(before, after), *notes)
