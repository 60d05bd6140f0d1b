"""`conductor run`: validate, then run or go on until nothing more can be done."""

from __future__ import annotations

import sys
from typing import Any

import click

from bus.wire import Record
from conductor.cli.exit_codes import Exit
from conductor.cli.guard import refuse_from_worker
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.output import err
from conductor.cli.screen import RunScreen, choose
from conductor.cli.terminal import orderly
from conductor.cli.track import resolve, taking
from conductor.config import Flags
from conductor.core.giving_up import PROVIDER_LIMIT
from conductor.core.view import RunView, run_view
from conductor.core.why import OPEN
from conductor.core.wording import plural
from conductor.runtime.session import Session
from conductor.runtime.signals import LeaveAtOnce
from conductor.runtime.start import Request

positive = click.IntRange(min=1)


@click.command(
    epilog=examples(
        ("run my-track", "run it, or go on"),
        ("run my-track --dry-run", "only say what would run"),
        ("run my-track --only 1.1 1.2", "two tasks of it"),
        ("run my-track --command './do {task_id}'", "where none is given"),
    )
)
@track_argument
@click.argument("more_tasks", nargs=-1, metavar="")
@click.option("--command", metavar="TEMPLATE", help="Command for tasks without `run:`, with {task_id} and the like.")
@click.option("--agent", metavar="NAME", hidden=True, help="Agent for tasks without `run:`.")
@click.option("--max-workers", type=positive, metavar="N", help="Workers side by side (default 5).")
@click.option(
    "--retries", type=click.IntRange(min=0), metavar="N", help="Further attempts after a failure (default 2)."
)
@click.option("--timeout", metavar="D", help="Time limit of an attempt: 90, 30m, 2h, none (default 30m).")
@click.option(
    "--restart-intensity",
    metavar="N/D",
    help="Give up at more than N failed attempts within D without a success, or none (default 20/5m).",
)
@click.option("--only", multiple=True, metavar="TASK", help="Run these tasks only: --only 1.1 1.2.")
@click.option("--skip-ticked", is_flag=True, help="Take tasks with a ticked box as done.")
@click.option("--fail-fast", is_flag=True, help="Start nothing more once a task has failed.")
@click.option("--run-timeout", metavar="D", help="Start nothing more once the run has taken so long.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Start nothing more once the tasks have reported so much of cost.",
)
@click.option(
    "--wait/--no-wait",
    default=None,
    help="Wait for people where they are asked (default), or give up once only they could move the run on.",
)
@click.option(
    "--schedule",
    type=click.Choice(["ready", "groups"]),
    help="Start whatever is ready (default), or one parallel group after the other.",
)
@click.option(
    "--parallel",
    type=click.Choice(["any", "pure-read"]),
    help="Which tasks run side by side: any (default), or only those with `effect: pure_read`.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(["serialize", "lock", "allow"]),
    help="Two tasks that write the same file: one after the other (default), at once with file locks, or just at once.",
)
@click.option(
    "--deadlock-victim",
    type=click.Choice(["youngest", "oldest", "fewest-locks"]),
    help="Which worker of a deadlock is stopped and tried again later (default: the youngest).",
)
@click.option(
    "--durability",
    type=click.Choice(["power", "process"]),
    help="What a recorded result survives: a power cut (default), or only the death of conductor.",
)
@click.option(
    "--project", metavar="DIR", help="Where the tasks work (default: what the plan says, else the repository)."
)
@bus_dir_option
@click.option("--no-watch", is_flag=True, help="Find news by looking again and again, not by file events.")
@click.option("--unsafe-fs", is_flag=True, help="Use a bus where file locks fail or others can write.")
@click.option("--dry-run", is_flag=True, help="Check everything, say what would run, and run nothing.")
@click.option("--nested", is_flag=True, help="Allow it inside a worker of the same track.")
@click.option("--quiet", is_flag=True, help="Say nothing but the summary.")
@json_option("One JSON object a line: the records of this run, RUN_RESULT last.")
def run(
    track: str,
    more_tasks: tuple[str, ...],
    only: tuple[str, ...],
    bus_dir: str | None,
    project: str | None,
    no_watch: bool,
    unsafe_fs: bool,
    dry_run: bool,
    nested: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run the plan of TRACK, or go on with it, until nothing more can be done.

    Ctrl-C once lets the running tasks end, twice stops them, three times leaves at once: what was told to stop then
    ends by itself. Running it again goes on. To leave the tasks running, close the terminal.
    """
    place = resolve(track, bus_dir)
    if project == "":
        raise click.UsageError("--project is empty; `.` is the folder that you are in")
    refuse_from_worker(place, nested=nested)
    if more_tasks and not only:
        raise click.UsageError(f"one track at a time: what is {more_tasks[0]!r}?")
    request = Request(place.dir, place.bus, Flags(**flags, only=(*only, *more_tasks)), project, unsafe_fs)
    if dry_run:
        from conductor.cli.dry_run import show

        return show(request, as_json=as_json)
    left = []
    try:
        with orderly(), taking(place), Session(request) as session:
            screen = choose(json=as_json, quiet=quiet, stdout=sys.stdout, track=place, reader=session.host)
            with screen:
                shown = Shown(session, screen)
                try:
                    return _run(session, shown, screen, watch=not no_watch)
                except LeaveAtOnce:
                    left = shown.left_alone()
                    raise
    except LeaveAtOnce as leave:
        err("; ".join(["left at once", *left, f"`{place.command('run')}` takes it up from there"]))
        return Exit.TERMINATED if leave.terminated else Exit.INTERRUPTED


def _run(session: Session, shown: Shown, screen: RunScreen, *, watch: bool) -> int:
    if session.start.first is None:
        start = session.start
        screen.idle(shown.look(), start.options.only or [task.id for task in start.plan.tasks])
        return Exit.OK
    session.run(shown, watch=watch)
    view = shown.look()
    code = exit_code(view, terminated=session.terminated)
    screen.close(view, code)
    return code


def exit_code(view: RunView, *, terminated: bool) -> Exit:
    """Return what a run ends with: see the table in `exit_codes`. With `--only`, the named tasks count."""
    only = view.options.only if view.options else None
    statuses = [task.status for task in view.tasks if only is None or task.id in only]
    if view.state == "stopped" and any(status in OPEN for status in statuses):
        return Exit.TERMINATED if terminated else Exit.INTERRUPTED
    if view.state == "escalated":
        return Exit.PROVIDER if view.reason == PROVIDER_LIMIT else Exit.GAVE_UP
    return Exit.OK if all(status == "done" for status in statuses) else Exit.FAILED


class Shown:
    """The driver's observer: feeds a screen with records and pictures."""

    def __init__(self, session: Session, screen: RunScreen) -> None:
        self._session = session
        self._screen = screen
        self._fresh: list[Record] = []
        self._told_to_stop = set(session.machine.state.stopping_attempts())
        screen.start(session.clock.stamp().mono)
        for note in session.notes:
            screen.note(note)

    def look(self) -> RunView:
        """Return the picture of now."""
        return run_view(self._session.machine.state)

    def recorded(self, records: list[Record]) -> None:
        """Keep what is on disk for the next look."""
        self._fresh += records
        self._told_to_stop |= {record.attempt for record in records if record.type == "STOP" and record.attempt}

    def left_alone(self) -> list[str]:
        """Say what becomes of the workers once this process has left.

        Asked of the records, not of the machine: what could not be recorded was told to nobody.
        """
        workers = [task.worker for task in self.look().tasks if task.worker is not None]
        stopping = sum(worker in self._told_to_stop for worker in workers)
        working = len(workers) - stopping
        said = []
        if stopping:
            end = "ends by itself" if stopping == 1 else "end by themselves"
            said.append(f"{plural(stopping, 'worker')} told to stop {end}")
        if working:
            said.append(f"{plural(working, 'worker')} {'works' if working == 1 else 'work'} on")
        return said

    def tick(self) -> float | None:
        """Show what is new."""
        fresh, self._fresh = self._fresh, []
        return self._screen.update(self.look, fresh, self._session.clock.stamp().mono)

    def trouble(self, text: str) -> None:
        """Say what is no record."""
        self._screen.note(text)
