"""The last words of a run: what was done, what failed and why, what is blocked by what, and what to type next."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bus import layout
from bus.contract import Reader
from bus.wire import TaskId
from conductor.cli.escape import one_line, shortened
from conductor.cli.load import tail_of
from conductor.cli.output import STATUS_GLYPH, STATUS_STYLE, counts_line, paint
from conductor.cli.rows import skipped_text
from conductor.cli.supervised import gates
from conductor.cli.track import Track
from conductor.core.rounds import RESTART_INTENSITY
from conductor.core.view import RunView, TaskView
from conductor.core.why import OPEN, SINCE, error_text, gave_up_text, state_text
from conductor.core.wording import duration, few, left_behind, person, sentence

MOST = 10
"""Tasks of one kind that are told of one by one."""

UNDONE = ("failed", "blocked", "skipped", "cancelled", "pending", "ready", "waiting", "running")


def summary(view: RunView, track: Track, reader: Reader | None, *, colour: bool, brief: bool = False) -> str:
    """Return the summary as text for people. `reader` finds the end of what failed commands printed.

    `brief` says no more than that it went well, where it did.
    """
    failed = [task for task in view.tasks if task.status == "failed"]
    blocks = [_headline(view, colour=colour), *_gave_up(view)]
    blocks += [_failure(task, track, reader, colour=colour) for task in failed[:MOST]]
    if len(failed) > MOST:
        blocks.append(f"… and {len(failed) - MOST} more failed")
    blocks += [text for text in (_blocked(view, colour=colour), _rest(view, colour=colour), _left(view)) if text]
    blocks += [] if brief else _left_behind(view)
    if not any(view.counts.get(word) for word in UNDONE):
        return "\n".join(blocks if brief else [*blocks, "", *_look_back(view, track)])
    culprits = failed or [task for task in view.tasks if task.status == "skipped" and task.last_error]
    return "\n".join([*blocks, "", *gates(track, view), *_next(culprits, track)])


def nothing_to_do(view: RunView, tasks: Sequence[TaskId], track: Track, *, colour: bool, brief: bool = False) -> str:
    """Say that `tasks` are done, since when, and how to run them again."""
    wanted = set(tasks)
    ended = [task.ended_at for task in view.tasks if task.id in wanted and task.ended_at is not None]
    since = f" since {time.strftime('%Y-%m-%d %H:%M', time.localtime(max(ended)))}" if ended else ""
    what = f"all {len(tasks)} tasks are" if len(tasks) > 1 else f"task {one_line(tasks[0])} is"
    head = paint(f"{STATUS_GLYPH['done']} Nothing to do: {what} done{since}.", "green", colour=colour)
    if brief:
        return head
    again = f"Again:    {track.command('reset')} && {track.command('run')}"
    return "\n".join([head, "", *_look_back(view, track), again])


def _headline(view: RunView, *, colour: bool) -> str:
    took = ""
    if view.started_at is not None and view.ended_at is not None:
        took = duration(view.ended_at - view.started_at)
        took = f", {took}{SINCE}" if view.resumed else f" in {took}"
    counts = view.counts
    if view.tasks and counts.get("done", 0) == len(view.tasks):
        what = "The task is done" if len(view.tasks) == 1 else f"All {len(view.tasks)} tasks are done"
        return paint(f"{STATUS_GLYPH['done']} {what}{took}.", "green", colour=colour)
    return f"{paint(_ended(view), 'bold', colour=colour)}{took}: {counts_line(counts, colour=colour)}."


def _ended(view: RunView) -> str:
    """Say in words what the run came to; why one gave up has lines of its own."""
    if view.state == "escalated":
        return state_text(view.state)
    reason = gave_up_text(view.reason or "")
    return f"{view.state} ({shortened(reason)})" if reason and reason != view.state else view.state


def _gave_up(view: RunView) -> list[str]:
    """Say in plain words why a run ended that could have gone on."""
    if view.state != "escalated":
        return []
    said = sentence(gave_up_text(view.reason or "", view.options))
    if view.reason != RESTART_INTENSITY:
        return [f"{said}."]
    errors = dict.fromkeys(error_text(task.last_error) for task in view.tasks if task.last_error)
    return [
        f"{said}: something may be wrong with all of them.",
        *(f"    {shortened(error, 160)}" for error in list(errors)[:3]),
    ]


def _failure(task: TaskView, track: Track, reader: Reader | None, *, colour: bool) -> str:
    head = paint(f"{STATUS_GLYPH['failed']} {one_line(task.id)}", "red", colour=colour)
    tries = f" (attempt {task.number})" if task.number > 1 else ""
    why = error_text(task.error) if task.error else ""
    name = f" {shortened(task.name, 60)}" if task.name != task.id else ""
    lines = [f"{head}{name}: {shortened(why, 200)}{tries}"]
    if task.ran and task.attempt is not None:
        if (tail := _last_line(task, reader)) and tail.strip() not in why:
            lines.append(f"    it printed last: {shortened(tail, 160)}")
        lines.append(f"    files: {track.bus / layout.attempt_dir(task.attempt)}/")
    return "\n".join(lines)


def _last_line(task: TaskView, reader: Reader | None) -> str:
    """The last line that the command printed on stderr (on stdout, where stderr is empty)."""
    lines = [line for line in tail_of(reader, task).splitlines() if line.strip()] if reader else []
    return lines[-1] if lines else ""


def _blocked(view: RunView, *, colour: bool) -> str:
    """One line for all tasks that are blocked by the same ones."""
    groups: dict[Sequence[str], list[str]] = {}
    for task in view.tasks:
        if task.status == "blocked":
            groups.setdefault(task.blocked_by, []).append(task.id)
    glyph = paint(STATUS_GLYPH["blocked"], STATUS_STYLE["blocked"], colour=colour)
    lines = [
        f"{glyph} blocked by {one_line(few(causes))}: {one_line(few(tasks, MOST))}"
        for causes, tasks in list(groups.items())[:MOST]
    ]
    return "\n".join(lines)


def _rest(view: RunView, *, colour: bool) -> str:
    """Skipped and cancelled tasks, by reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for task in view.tasks:
        if task.status in ("skipped", "cancelled"):
            by = f"by {person(task.reason)}" if task.reason else ""
            reason = skipped_text(task) if task.status == "skipped" else by
            groups.setdefault((task.status, reason), []).append(task.id)
    return "\n".join(
        f"{paint(STATUS_GLYPH[status], STATUS_STYLE[status], colour=colour)} {status}"
        f"{f' ({shortened(reason)})' if reason else ''}: {one_line(few(tasks, MOST))}"
        for (status, reason), tasks in groups.items()
    )


def _left(view: RunView) -> str:
    """What a run that was stopped leaves open."""
    left = [task.id for task in view.tasks if task.status in OPEN] if view.state == "stopped" else []
    if not left:
        return ""
    return f"Not done yet: {one_line(few(left, MOST))}. Nothing that is done is lost."


def _left_behind(view: RunView) -> list[str]:
    """Which tasks that are done left processes behind, that were ended for them."""
    done = [task for task in view.tasks if task.status == "done"]
    found = [(task.id, left_behind((task.evidence or {}).get("leftovers") or ())) for task in done]
    lines = [shortened(f"{id}: {left}") for id, left in found if left]
    return (
        lines if len(lines) <= MOST else [*lines[:MOST], f"… and {len(lines) - MOST} more tasks left processes behind"]
    )


def _next(failed: Sequence[TaskView], track: Track) -> list[str]:
    lines = []
    if failed:
        first = one_line(failed[0].id)
        lines.append(f"Why:      {track.command('why', first)}")
        if failed[0].ran:
            lines.append(f"Output:   {track.command('logs', first)}")
    lines.append(f"Go on:    {track.command('run')}")
    return lines


def _look_back(view: RunView, track: Track) -> list[str]:
    """The ways to look at a run that went well; the task that ended last is in most plans the one that sums up."""
    lines = [f"Look:     {track.command('status')}"]
    ran = [task for task in view.tasks if task.ran]
    if ran:
        last = max(ran, key=lambda task: task.ended_at or 0.0)
        lines.append(f"Output:   {track.command('logs', one_line(last.id))}")
    return lines
