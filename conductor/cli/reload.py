"""`conductor reload`: let a run follow its plan as it is on disk now."""

from __future__ import annotations

from collections.abc import Sequence

import click

from bus.wire import Record
from conductor.cli.options import bus_dir_option, examples, json_option, track_argument
from conductor.cli.ordering import Order
from conductor.cli.steering import Result, Steered, begin, steer
from conductor.core import limits
from conductor.core.wording import few
from conductor.errors import PlanError
from conductor.plan import load


@click.command(epilog=examples(("reload my-track", "let the run follow it"), ("plan my-track", "check it before")))
@track_argument
@json_option("One JSON object.")
@bus_dir_option
def reload(track: str, as_json: bool, bus_dir: str | None) -> int:
    """Let the run of TRACK follow its plan as it is on disk now, where the two differ.

    What is done stays done, and what runs goes on as it was begun. A plan that cannot be run changes nothing.
    """
    steered = begin(track, bus_dir)
    try:
        limits.enforce(load(steered.track.dir))
    except PlanError as error:
        error.track = steered.track.label
        raise
    return steer(steered, [Order("reload")], _say, as_json=as_json)


def _say(steered: Steered, result: Result) -> str:
    if not result.live:
        return "recorded: the run goes on with the plan as it is now."
    changes = _changes(list(steered.reader.records(result.seq)))
    if changes is None:
        return "the plan is being read again."
    lines = ["the run follows the plan as it is now.", *(f"  {change}" for change in changes)]
    running = [task.id for task in steered.view.tasks if task.worker is not None]
    failed = [task.id for task in steered.view.tasks if task.status == "failed"]
    if changes and running:
        lines.append(f"What runs goes on as it was started: {few(running)}.")
    if changes and failed:
        lines.append(f"What failed is tried again only by `{steered.track.command('retry', failed[0])}`.")
    return "\n".join(lines)


def _changes(records: Sequence[Record]) -> Sequence[str] | None:
    """Return what became different; None where that is not recorded yet."""
    found = (record.payload.get("changes") for record in records if record.type == "PLAN_RELOADED")
    return next(found, None)
