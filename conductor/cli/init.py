"""`conductor init`: a track to begin with. Never overwrites anything."""

from __future__ import annotations

from pathlib import Path

import click

from conductor.cli.options import examples
from conductor.cli.output import err, out
from conductor.cli.track import BUS_NAME, Track, absolute
from conductor.errors import PlanError

PLAN_FILE = "plan.md"


@click.command(epilog=examples(("init my-track", "a new one")))
@click.argument("track", metavar="TRACK")
def init(track: str) -> int:
    """Make the folder TRACK with a plan.md that runs as it is, to be changed into your own.

    Where there is a plan.md without a DAG, a DAG made of its check boxes is printed on stdout, to be looked through and
    added. What is there is never changed.
    """
    from conductor.plan import load
    from conductor.plan.skeleton import plan_text

    folder = absolute(track, "TRACK")
    place = Track(track, folder, folder / BUS_NAME)
    folder.mkdir(parents=True, exist_ok=True)
    plan_file = folder / PLAN_FILE
    if not plan_file.exists():
        try:
            load(folder)
        except PlanError:
            with plan_file.open("x", encoding="utf-8") as file:
                file.write(plan_text(folder.name))
            out(f"made {plan_file}: a plan that runs as it is\n{_next(place)}")
            return 0
    return _existing(place, plan_file)


def _existing(place: Track, plan_file: Path) -> int:
    from conductor.plan import load
    from conductor.plan.skeleton import dag_block, tasks_in

    try:
        load(place.dir)
    except PlanError as error:
        if error.code != "plan_no_dag" or not plan_file.exists():
            raise
        tasks = tasks_in(plan_file.read_text(encoding="utf-8", errors="replace"))
        if not tasks:
            raise
        out(dag_block(tasks))
        err(f"{plan_file} has no DAG yet; above is one made of its tasks. Look it through and add it, for example:")
        err(f"  {place.command('init')} >> {plan_file}")
        return 0
    out(f"there is a plan already; nothing was changed\n{_next(place)}")
    return 0


def _next(place: Track) -> str:
    return f"Look at it:  {place.command('plan')}\nRun it:      {place.command('run')}"
