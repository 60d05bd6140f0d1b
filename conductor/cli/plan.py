"""`conductor plan`: what a run would do, without doing it."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from bus.wire import TaskId
from conductor.cli.escape import one_line, shortened
from conductor.cli.options import examples, json_option, track_argument
from conductor.cli.output import is_terminal, out, paint, print_json, table, terminal_width, wants_colour
from conductor.cli.plan_graphs import Pairs, dot, mermaid
from conductor.cli.plan_limits import bounds, people, tight
from conductor.cli.track import Track, resolve
from conductor.cli.without_command import COMMAND, warnings_of
from conductor.core import conflicts, effects, graph, limits
from conductor.core.task import Limits, Plan, PlanWarning, RunOptions, TaskSpec
from conductor.core.wording import duration, few, plural
from conductor.core.worst_case import WorstCase, worst_case
from conductor.plan.warnings import brief

if TYPE_CHECKING:
    from conductor.config import Config

MAX_ROWS = 1000
"""Tasks that the page lists; `--json` lists all."""
MAX_PATH = 30
"""Tasks at either end of a critical path that the page names."""
SHOWN_WARNINGS = 5
"""Warnings of one kind that the page spells out; `--json` has more."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A plan and all that follows from it."""

    plan: Plan
    options: RunOptions
    """Of a run without flags."""
    limits: Limits
    """That hold: those of the plan, of the configuration, and built in."""
    worst: WorstCase
    waves: list[list[TaskId]]
    critical_path: list[TaskId]
    conflicts: Pairs
    all_conflicts: bool
    """Whether `conflicts` are all; False where the listing was cut short."""
    times: dict[TaskId, float]
    """Expected seconds of each task, unknown ones filled in."""

    @property
    def estimated(self) -> bool:
        """Whether any task has an estimate; without one the times say what is long in steps, not in seconds."""
        return any(task.estimate is not None for task in self.plan.tasks)

    refused: list[PlanWarning]
    """Why a run with nothing but the plan and the configuration would be refused."""


@click.command(
    epilog=examples(
        ("plan my-track", "check it, and look at it"), ("plan my-track --format mermaid", "a picture of it")
    )
)
@track_argument
@click.option(
    "--format", "shape", type=click.Choice(["table", "json", "mermaid", "dot"]), default="table", help="What to print."
)
@json_option("The same as --format json.")
def plan(track: str, shape: str, as_json: bool) -> int:
    """Check the plan of TRACK and show its waves, critical path, conflicts and warnings. Runs nothing."""
    from conductor.cli.configured import config_of
    from conductor.plan import load

    place = resolve(track)
    found = load(place.dir)
    facts = study(found, config_of(found, place.dir))
    if as_json or shape == "json":
        print_json(as_data(facts))
    elif shape == "mermaid":
        out(mermaid(facts.plan, set(facts.critical_path), facts.conflicts))
    elif shape == "dot":
        out(dot(facts.plan, set(facts.critical_path), facts.conflicts))
    else:
        out(as_text(facts, place, colour=wants_colour(sys.stdout)))
    return 0


def study(plan: Plan, config: Config) -> Facts:
    """Derive everything; raises ConductorError where `run` would refuse the plan for more than a missing command."""
    from conductor.config import Flags, resolve_limits, resolve_options, resolve_settings

    held = resolve_limits(plan, config)
    limits.enforce(replace(plan, limits=held))
    options = resolve_options(plan, Flags(), config, seed=0)
    effects.enforce(plan, options)
    found = conflicts.listing(plan, options=replace(options, parallel="any"))
    return Facts(
        plan,
        options,
        replace(held, max_workers=options.max_workers),
        worst_case(plan, options, grace=resolve_settings(config).ladder.terminate),
        graph.levels(plan),
        graph.critical_path(plan),
        found.pairs,
        found.complete,
        graph.durations(plan),
        warnings_of(plan, options),
    )


def as_data(facts: Facts) -> dict[str, Any]:
    """Return the object of `plan --json`."""
    plan = facts.plan
    return {
        "tasks": [_task_data(task, facts.times[task.id] if facts.estimated else None) for task in plan.tasks],
        "waves": facts.waves,
        "critical_path": facts.critical_path,
        "conflicts": [{"tasks": [a, b], "on": on} for a, b, on in facts.conflicts],
        "warnings": [{"code": w.code, "message": w.message, "line": w.line or None} for w in _warnings_of(facts)],
        "limits": asdict(facts.limits),
        "worst_case": {
            "attempts": facts.worst.attempts,
            "critical_path": facts.worst.chain,
            "total": facts.worst.total,
            "unbounded": facts.worst.unbounded,
            "cost_usd": facts.limits.budget_usd,
        },
        "groups": [asdict(group) for group in plan.groups],
        "durations": _durations(facts),
        "source": plan.source,
    }


def _task_data(task: TaskSpec, seconds: float | None) -> dict[str, Any]:
    data = asdict(task)
    data.pop("prose")
    return {**data, "expected_seconds": seconds}


def _durations(facts: Facts) -> dict[str, float] | None:
    """Return what the estimates add up to; None where the plan has none, so that nothing can be told."""
    if not facts.estimated:
        return None
    critical = sum(facts.times[task] for task in facts.critical_path)
    total = sum(facts.times.values())
    workers = facts.options.max_workers
    return {"critical_path": critical, "total": total, "at_least": max(critical, total / workers), "workers": workers}


def as_text(facts: Facts, track: Track, *, colour: bool) -> str:
    """Return the page that people read."""
    plan = facts.plan
    waves = {task: number for number, wave in enumerate(facts.waves, 1) for task in wave}
    critical = set(facts.critical_path)
    rows = [["WAVE", "TASK", "TYPE", "TIME", "AFTER", "NAME"]]
    rows += [
        [
            str(waves[task.id]),
            task.id + (" *" if task.id in critical else ""),
            task.type,
            duration(task.estimate) if task.estimate is not None else "?",
            few(task.depends_on) or "-",
            task.name,
        ]
        for task in plan.tasks[:MAX_ROWS]
    ]
    left_out = len(plan.tasks) - MAX_ROWS
    width = terminal_width() if is_terminal(sys.stdout) else None
    page = table(rows, styles=["bold"], width=width, colour=colour)
    if left_out > 0:
        page += f"\n… and {plural(left_out, 'more task')}; --json lists all"
    closing = [_closing(facts), *bounds(facts.limits, facts.worst), *people(plan)]
    blocks = [_headline(facts), page, "\n".join(closing)]
    blocks += [text for text in (_conflicts(facts), _warnings(facts, colour=colour)) if text]
    return "\n\n".join([*blocks, _next(facts, track)])


def _next(facts: Facts, track: Track) -> str:
    """Say how to run it; where a run would be refused, what it takes."""
    wanted = {warning.code for warning in facts.refused}
    options = ["--command", COMMAND] if "no_worker" in wanted else []
    when = "Once these tasks have a `run:`" if "agent_missing" in wanted else "Run it"
    return f"{when}: {track.command('run', options=options)}"


def _headline(facts: Facts) -> str:
    plan, waves = facts.plan, facts.waves
    widest = max((len(wave) for wave in waves), default=0)
    types = Counter(task.type for task in plan.tasks).most_common(6)
    kinds = ", ".join(f"{count} {one_line(kind)}" for kind, count in types)
    mixed = f" ({kinds})" if len(types) > 1 else ""
    return (
        f"{plural(len(plan.tasks), 'task')} in {plural(len(waves), 'wave')}, the widest of {plural(widest, 'task')}"
        f"{mixed}, from {one_line(plan.source)}"
    )


def _closing(facts: Facts) -> str:
    times = _durations(facts)
    names = [one_line(task) for task in facts.critical_path]
    if len(names) > 2 * MAX_PATH:
        names[MAX_PATH:-MAX_PATH] = [f"… {len(names) - 2 * MAX_PATH} more …"]
    path = " → ".join(names)
    if times is None:
        return f"* critical path (no estimates): {path}"
    guess = _guessed(facts)
    return (
        f"* critical path, {duration(times['critical_path'])}: {path}\n"
        f"Work in all {duration(times['total'])}; with {plural(int(times['workers']), 'worker')}"
        f" at least {duration(times['at_least'])}{guess}"
    )


def _guessed(facts: Facts) -> str:
    """Say what unknown durations were taken for."""
    unknown = [task.id for task in facts.plan.tasks if task.estimate is None]
    if not unknown:
        return ""
    number = plural(len(unknown), "task")
    return f" ({number} without an estimate taken for {duration(facts.times[unknown[0]])} each)"


def _conflicts(facts: Facts) -> str:
    if not facts.conflicts:
        return ""
    lines = [f"  {one_line(a)} and {one_line(b)} on {one_line(on)}" for a, b, on in facts.conflicts[:20]]
    if len(facts.conflicts) > 20:
        lines.append(f"  and {len(facts.conflicts) - 20} more")
    return "\n".join(["Not run side by side, because of what both use:", *lines])


def _warnings_of(facts: Facts) -> list[PlanWarning]:
    """Return what a run would be refused for, the plan's warnings, and one where the conflicts are not all listed."""
    warnings = [*facts.refused, *facts.plan.warnings, *tight(facts.limits, facts.worst)]
    if not facts.all_conflicts:
        message = (
            f"{plural(len(facts.conflicts), 'conflict')} listed, there may be more; "
            "a run keeps all tasks apart that write the same file"
        )
        warnings.append(PlanWarning("conflicts_cut_off", message))
    return warnings


def _warnings(facts: Facts, *, colour: bool) -> str:
    plan = facts.plan
    lines = []
    for warning in brief(_warnings_of(facts), each=SHOWN_WARNINGS):
        place = one_line(plan.source) + (f":{warning.line}" if warning.line else "")
        word = paint("warning:", "yellow", colour=colour)
        lines.append(f"{word} {place}: {shortened(warning.message)} [{warning.code}]")
    return "\n".join(lines)
