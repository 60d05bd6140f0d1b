"""`conductor reset`: tasks of a track, or all of it, as if they had never run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from bus.contract import Reader
from bus.errors import HeldByOther
from bus.wire import AttemptId, TaskId
from conductor.cli.guard import refuse_from_worker
from conductor.cli.load import open_track
from conductor.cli.operator import operator
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.output import out, print_json
from conductor.cli.track import Track, resolve, unknown_task
from conductor.core.resets import affected
from conductor.core.wording import few, plural
from conductor.runtime.replay import replay

MOST = 20
"""Tasks that are named one by one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was set back, or would be."""

    tasks: tuple[TaskId, ...]
    everything: bool
    ended: bool = False
    """Whether the run of a conductor that had died was ended first."""
    bus: bool = True
    """Whether there is a bus at all."""
    unkillable: tuple[AttemptId, ...] = ()
    """Attempts that nothing could end when their run was over."""


@click.command(
    epilog=examples(
        ("reset my-track 1.2", "this task, and what depends on it"),
        ("reset my-track", "everything"),
        ("reset my-track --dry-run", "only say what"),
    )
)
@track_argument
@click.argument("tasks", nargs=-1, metavar="[TASK…]")
@click.option("--dry-run", is_flag=True, help="Say what would be set back, and do nothing.")
@json_option("One JSON object.")
@bus_dir_option
def reset(track: str, tasks: tuple[str, ...], dry_run: bool, as_json: bool, bus_dir: str | None) -> int:
    """Set TASKs of TRACK, and all that depend on them, back to pending; without TASK, all of the track.

    The next run does them again. Nothing is deleted: neither what tasks wrote, nor logs, nor the journal.
    """
    place = resolve(track, bus_dir)
    refuse_from_worker(place)
    reader = open_track(place)
    if reader is None:
        outcome = Outcome((), everything=not tasks, bus=False)
    elif dry_run:
        outcome = preview(place, reader, tasks)
    else:
        outcome = _reset(place, tasks)
    if as_json:
        print_json(as_data(outcome, dry_run=dry_run), pretty=False)
    else:
        out(as_text(place, outcome, tasks, dry_run=dry_run))
    return 0


def preview(track: Track, reader: Reader, tasks: Sequence[str]) -> Outcome:
    """Return what a reset would set back. Raises `unknown_task`."""
    state = replay(reader).machine.state
    left = tuple(state.unkillable)
    if not tasks:
        return Outcome(tuple(task.id for task in state.order), everything=True, unkillable=left)
    known = [task.id for task in state.order]
    for task in tasks:
        if task not in state.tasks:
            raise unknown_task(track, task, list(known))
    return Outcome(affected(state, map(TaskId, tasks)), everything=False, unkillable=left)


def _reset(track: Track, tasks: Sequence[str]) -> Outcome:
    from conductor.config import Flags
    from conductor.runtime.reset import reset as take_back
    from conductor.runtime.start import Request

    try:
        done = take_back(Request(track.dir, track.bus, Flags(), to_stop=True), tasks, f"operator:{operator()}")
    except HeldByOther as error:
        error.hint = error.hint or f"end the run first: `{track.command('stop')}`; then reset"
        raise
    return Outcome(done.tasks, done.everything, done.stopped, unkillable=done.unkillable)


def as_data(outcome: Outcome, *, dry_run: bool) -> dict[str, object]:
    """Return the object of `reset --json`."""
    return {
        "tasks": list(outcome.tasks),
        "everything": outcome.everything,
        "run_ended": outcome.ended,
        "dry_run": dry_run,
        "unkillable": list(outcome.unkillable),
    }


def as_text(track: Track, outcome: Outcome, asked: Sequence[str], *, dry_run: bool) -> str:
    """Say what was set back, and what to do next; `asked` are the tasks that were named."""
    if not outcome.tasks:
        return f"nothing to set back: {'this track was never run' if outcome.bus else track.no_bus()}"
    lines = ["the conductor had died; its run was ended first."] if outcome.ended else []
    is_or_would_be = "would be" if dry_run else "is" if len(outcome.tasks) == 1 else "are"
    what = f"all {plural(len(outcome.tasks), 'task')}" if outcome.everything else plural(len(outcome.tasks), "task")
    lines.append(f"{what} {is_or_would_be} set back to pending: {few(outcome.tasks, MOST)}.")
    lines.append("What tasks wrote stays as it is; attempts are numbered on.")
    if outcome.unkillable:
        what = f"{few(outcome.unkillable)} could not be ended, and no reset does that"
        lines.append(f"{what}: the next run looks first, and begins only once that is gone.")
    lines.append(f"Do it:    {track.command('reset', *asked)}" if dry_run else f"Run:      {track.command('run')}")
    return "\n".join(lines)
