"""`conductor run --dry-run`: every check of a run, and what it would do. Takes no lock, writes nothing."""

from __future__ import annotations

import shlex

from bus._fs import FileSystem
from bus.reader import open_reader
from bus.setup import foretell
from conductor.cli.escape import one_line, shortened
from conductor.cli.output import out, print_json
from conductor.cli.programs import missing_programs
from conductor.core.task import TaskSpec
from conductor.core.wording import plural
from conductor.runtime.command import template_of
from conductor.runtime.replay import Replayed, replay
from conductor.runtime.start import Request, Start, begin, would_run


def show(request: Request, *, as_json: bool) -> int:
    """Print the tasks that a run would work on, in plan order."""
    is_bus = foretell(FileSystem(), str(request.bus), unsafe=request.unsafe_fs)
    replayed = replay(open_reader(request.bus)) if is_bus else Replayed()
    start = begin(request, replayed)
    tasks = would_run(start, replayed) if start.first else []
    notes = [*start.notes, *missing_programs([(task, _command(start, task)) for task in tasks], start.places)]
    if as_json:
        data = [_data(start, task) for task in tasks]
        print_json({"begins_with": start.first and start.first.TYPE, "tasks": data, "notes": notes})
        return 0
    for note in notes:
        out(f"note: {shortened(note)}")
    out(f"would run {plural(len(tasks), 'task')}, up to {start.options.max_workers} at once, in {start.places.project}")
    for task in tasks:
        does = "(a person)" if task.manual else shortened(shlex.join(_command(start, task)))
        out(f"  {one_line(task.id)}  {shortened(task.name)}: {does}")
    return 0


def _command(start: Start, task: TaskSpec) -> tuple[str, ...]:
    found = None if task.manual else template_of(task, start.options)
    return found[0] if found else ()


def _data(start: Start, task: TaskSpec) -> dict[str, object]:
    return {"id": task.id, "name": task.name, "depends_on": task.depends_on, "command": _command(start, task)}
