"""What to say where a Markdown file has no DAG: what was seen instead, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from conductor.core.wording import few, plural
from conductor.errors import PlanError
from conductor.plan.errors import shown
from conductor.plan.locate import LANGUAGES, Block, TopKey, is_dag, top_keys
from conductor.plan.near import meant_key
from conductor.plan.prose import find_items
from conductor.plan.skeleton import tasks_in

_WANTED = "a fenced ```yaml block with the top-level key dag, such front matter, or dag.yaml or dag.json beside it"
_WRITE_ONE = "Add such a block; `conductor init NEW_FOLDER` writes a plan to look at."
_SHOWN = 3
"""Blocks that the message tells of, and keys of each."""


def no_dag(lines: list[str], blocks: Sequence[Block], name: str) -> PlanError:
    """Make the error for a file whose blocks are known, none of which is a DAG."""
    line, hint = _slip(lines, blocks)
    seen = "the file is empty"
    if any(text.strip() for text in lines):
        tasks = len(tasks_in("\n".join(lines)))
        boxes = sum(item.mark is not None for item in find_items(lines, blocks))
        seen = _blocks_seen(lines, [block for block in blocks if block.language in LANGUAGES])
        seen += _tasks_seen(boxes, tasks)
        if tasks and hint is None:
            hint = "`conductor init TRACK` prints a DAG made of these tasks, to be looked through and added."
    message = f"no DAG: {seen}; looked for {_WANTED}"
    return PlanError("plan_no_dag", message, path=name, line=line, hint=hint or _WRITE_ONE)


def _slip(lines: list[str], blocks: Sequence[Block]) -> tuple[int | None, str | None]:
    """Return the line, from 1, and the hint where a block seems to be meant as the DAG."""
    for block in blocks:
        if block.language not in LANGUAGES:
            if is_dag(block, lines):
                return block.first + 1, f"The block on line {block.first + 1} begins with dag; mark its fence ```yaml."
            continue
        keys = top_keys(block, lines)
        for key in keys:
            if get_close_matches(key.name.lower()[:64], ["dag"], cutoff=0.6):
                return key.line, 'Did you mean "dag"?'
        for key in keys:
            if meant_key(key.name, ("nodes",)) is not None:
                return key.line, f"Write dag: above {shown(key.name)}, and indent what is below it."
    return None, None


def _blocks_seen(lines: list[str], blocks: Sequence[Block]) -> str:
    if not blocks:
        return "no YAML block"
    found = [f"line {block.first + 1} ({_names(top_keys(block, lines))})" for block in blocks]
    return f"{plural(len(found), 'YAML block')} without the key dag at the top: {few(found, _SHOWN)}"


def _names(keys: Sequence[TopKey]) -> str:
    return few([shown(key.name)[1:-1] for key in keys], _SHOWN) or "no keys"


def _tasks_seen(boxes: int, tasks: int) -> str:
    """Name what looks like tasks: check boxes, or else headings."""
    count = boxes or tasks
    if not count:
        return ""
    if boxes:
        what = "check box" if boxes == 1 else "check boxes"
    else:
        what = "heading that looks like a task" if tasks == 1 else "headings that look like tasks"
    return f", and {count} {what}, which {'does' if count == 1 else 'do'} not say what depends on what"
