"""What workers ask, and nobody has answered yet."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.cli.escape import one_line, shortened
from conductor.cli.track import Track
from conductor.core.orders import answer_name
from conductor.core.state import State
from conductor.core.waits import Wait
from conductor.core.wording import plural
from conductor.errors import ConductorError

MOST = 5
"""Questions that are named one by one."""

LONGEST = 160
"""Characters that are shown of one."""


def questions_of(state: State) -> tuple[Wait, ...]:
    """Return the questions of attempts that live, the oldest first; not those that are answered already."""
    open = set(state.open_attempts())
    asked = (wait for wait in state.waits.values() if wait.kind == "question" and wait.attempt in open)
    found = (wait for wait in asked if answer_name(wait.id) not in state.tasks[wait.task].letters)
    return tuple(sorted(found, key=lambda wait: wait.since))


def find(track: Track, questions: Sequence[Wait], id: str) -> Wait:
    """Return the question with this id, or the only one of the task with this id. Raises `refused`."""
    found = [one for one in questions if one.id == id] or [one for one in questions if one.task == id]
    if len(found) == 1:
        return found[0]
    hint = f"`{track.command('status')}` shows what is asked"
    if found:
        ids = ", ".join(one.id for one in found)
        raise ConductorError(
            "refused", f"task {one_line(id)} asks {len(found)} questions", path=track.label, hint=f"name one: {ids}"
        )
    if questions:
        hint = "; ".join(f"{one.id}: {shortened(one.text, LONGEST)}" for one in questions[:MOST])
    what = f"there is no open question {one_line(id)}" if questions else "nobody asks anything now"
    raise ConductorError("refused", what, path=track.label, hint=f"open: {hint}" if questions else hint)


def lines_of(track: Track, questions: Sequence[Wait]) -> list[str]:
    """Say what is asked, and how to answer it."""
    lines = []
    for one in questions[:MOST]:
        lines.append(f"{one_line(one.task)} asks: {shortened(one.text, LONGEST)}")
        lines.append(f"  Answer it: {track.command('answer', one.id, 'TEXT')}")
    if len(questions) > MOST:
        lines.append(f"And {plural(len(questions) - MOST, 'more question')}.")
    return lines
