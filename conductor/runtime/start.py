"""How a `run` begins: go on after a crash, start a round, or nothing to do. All checks stand before any work.

Which of the three follows from the journal alone: no RUN_ENDED behind the newest RUN_STARTED means that a conductor
died, and its run goes on; otherwise a new round reads the plan again.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bus.wire import TaskId
from conductor.config import (
    Config,
    Flags,
    Settings,
    find_project,
    load_config,
    override_options,
    resolve_limits,
    resolve_options,
    resolve_settings,
)
from conductor.core import effects, limits
from conductor.core.events import PlanEdited, RunResumed, RunStarted
from conductor.core.schedule import only_missing
from conductor.core.state import Run
from conductor.core.task import Done, Plan, RunOptions, TaskSpec
from conductor.core.wording import few
from conductor.core.worst_case import too_short, worst_case
from conductor.errors import ConductorError
from conductor.plan import frozen, load
from conductor.plan.claims import from_project
from conductor.plan.source import fingerprint
from conductor.runtime import descriptors
from conductor.runtime.command import Places, check_workers, command_notes
from conductor.runtime.edits import definitions, difference, edited
from conductor.runtime.paths import check_recordable
from conductor.runtime.replay import Replayed

_ANEW = "begin anew: `conductor reset TRACK`, or name another bus with --bus-dir"


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    track: Path
    bus: Path
    flags: Flags
    project: str | None = None
    unsafe_fs: bool = False
    """Whether the user takes the risk of a file system on which locks do not work, or that others can write."""
    to_stop: bool = False
    """Whether a run is taken over only to end it: then nothing will be launched, and no worker is needed."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True, slots=True)
class Start:
    """How the run begins."""

    first: RunStarted | RunResumed | None
    """The first fact; None where there is nothing to do."""
    plan: Plan
    options: RunOptions
    settings: Settings
    places: Places
    notes: tuple[str, ...] = ()
    """What people should know: an edited plan, changes that a new round applies."""
    edit: PlanEdited | None = None
    """An edit of the plan that is not recorded yet."""

    @property
    def goes_on(self) -> bool:
        """Whether it goes on with the run of a conductor that died."""
        return isinstance(self.first, RunResumed)


def begin(request: Request, replayed: Replayed) -> Start:
    """Decide how the run begins, and check everything that can be checked. Raises ConductorError; writes nothing."""
    if replayed.unfinished is not None:
        return _resume(request, replayed, replayed.unfinished)
    return _new_round(request, replayed)


def _resume(request: Request, replayed: Replayed, run: Run) -> Start:
    plan = replayed.plan
    project = Path(run.project) if request.to_stop else _project(request, replayed, plan)
    config = load_config(request.track, project, request.environ)
    options = override_options(run.options, request.flags)
    first = RunResumed(run.id, options, replayed.last_seq)
    if request.to_stop:  # its project may be gone, and its plan another one
        return _start(request, first, plan, project, options, config)
    edit = edited(request.track, plan, run)
    told = edit.changes if edit else run.edited
    notes = (f"{plan.source} was edited since the run began; the edit is not applied until this run has ended", *told)
    start = _start(request, first, plan, project, options, config, notes if told else ())
    return _checked(replace(start, edit=edit), replayed)


def _new_round(request: Request, replayed: Replayed) -> Start:
    source_sha = fingerprint(request.track)
    plan = load(request.track)
    project = _project(request, replayed, plan)
    config = load_config(request.track, project, request.environ)
    limits.enforce(replace(plan, limits=resolve_limits(plan, config)))
    plan = from_project(plan, project)
    options = resolve_options(plan, request.flags, config, seed=int.from_bytes(os.urandom(6)))
    _check_only(plan, options, replayed)
    notes = _changes(replayed.plan, plan, replayed) if replayed.run else ()
    if replayed.run is not None and not _unfinished(plan, options, replayed):
        return _start(request, None, plan, project, options, config, notes)
    body = frozen.dump(plan)
    sha = hashlib.sha256(body).hexdigest()
    first = RunStarted(os.urandom(8).hex(), sha, str(project), options, plan, source_sha)
    return _checked(_start(request, first, plan, project, options, config, notes), replayed)


def _start(
    request: Request,
    first: RunStarted | RunResumed | None,
    plan: Plan,
    project: Path,
    options: RunOptions,
    config: Config,
    notes: tuple[str, ...] = (),
) -> Start:
    check_recordable(project, "the project")
    places = places_of(request, project)
    return Start(first, plan, options, resolve_settings(config), places, notes)


def places_of(request: Request, project: Path) -> Places:
    """Return where a run of a request works."""
    return Places(str(request.track), str(project), str(request.bus), request.environ.get("PATH", os.defpath))


def _checked(start: Start, replayed: Replayed) -> Start:
    """Check that all tasks of the round can be started, and note what was given for nothing."""
    effects.enforce(start.plan, start.options)
    needed = would_run(start, replayed)
    descriptors.check(min(start.options.max_workers, len(needed)))
    check_workers(start.plan, start.options, needed, start.places)
    short = _time_note(start, needed)
    return replace(start, notes=(*start.notes, *command_notes(needed, start.options), *short))


def _time_note(start: Start, needed: list[TaskSpec]) -> list[str]:
    """Say that the time for the whole run may be up before its tasks are done."""
    left = replace(start.plan, tasks=tuple(replace(task, index=place) for place, task in enumerate(needed)))
    worst = worst_case(left, start.options, grace=start.settings.ladder.terminate)
    message = too_short(start.options.run_timeout, worst)
    return [] if message is None else [message]


def _project(request: Request, replayed: Replayed, plan: Plan) -> Path:
    """Return the project. That of the first start holds for ever; only an explicit other one is an error.

    A track that was moved takes a project that its plan names relative to it along.
    """
    home = request.environ.get("HOME")

    def find(plan: Plan) -> Path:
        return find_project(
            request.track, flag=request.project, plan=plan, cwd=_cwd(), home=Path(home) if home else None
        )

    if replayed.run is None:
        return find(plan)
    before = Path(replayed.run.project)
    explicit = request.project is not None or plan.project is not None
    if explicit and (wanted := find(plan)) != before:
        if not before.exists() and request.project is None and plan.project == replayed.plan.project:
            return wanted
        raise ConductorError(
            "usage",
            f"the track runs in the project {before} since its first start, and {wanted} is asked for now",
            path=str(request.track),
            hint=f"go on there: `conductor run TRACK --project {shlex.quote(str(before))}`; or {_ANEW}",
        )
    if not before.is_dir():
        raise ConductorError(
            "usage",
            f"the project {before}, in which the track runs since its first start, is not there",
            path=str(before),
            hint=f"bring it back, or {_ANEW}",
        )
    return before


def _cwd() -> Path:
    """Return the folder that we are in; where it was removed `/`, which is nobody's project."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


def _check_only(plan: Plan, options: RunOptions, replayed: Replayed) -> None:
    if options.only is None:
        return
    known = {task.id for task in plan.tasks}
    for task in options.only:
        if task not in known:
            raise ConductorError("unknown_task", f"--only names {task!r}, which is not in {plan.source}")
    missing = only_missing(replayed.machine.state, plan, options.only)
    missing = [task for task in missing if task not in options.ticked_done]
    if missing:
        raise ConductorError(
            "usage",
            f"--only leaves out {', '.join(missing)}, on which a named task depends and which is not done",
            hint="name them as well: " + " ".join(f"--only {task}" for task in missing),
        )


def would_run(start: Start, replayed: Replayed) -> list[TaskSpec]:
    """Return the tasks that the run would work on, in plan order."""
    return _unfinished(start.plan, start.options, replayed)


def _unfinished(plan: Plan, options: RunOptions, replayed: Replayed) -> list[TaskSpec]:
    """Return the tasks that this round would run."""
    done = _done(replayed) | set(options.ticked_done)
    return [task for task in plan.tasks if task.id not in done and (options.only is None or task.id in options.only)]


def _done(replayed: Replayed) -> set[TaskId]:
    return {task.id for task in replayed.machine.state.order if isinstance(task.status, Done)}


def _changes(before: Plan, after: Plan, replayed: Replayed) -> tuple[str, ...]:
    """Say what a new round applies, and which changes it does not: what is done stays done."""
    old, new, done = definitions(before), definitions(after), _done(replayed)
    kept = [task for task in new if task in done and task in old and old[task] != new[task]]
    notes = difference(before, after)
    return (*notes, f"done tasks are not run again, although they changed: {few(kept, 10)}") if kept else notes
