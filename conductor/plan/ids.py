"""Task ids: what may be one, and which two are one."""

from __future__ import annotations

import unicodedata

from bus.layout import collision_key
from bus.wire import TaskId
from conductor.plan.errors import plan_error, shown
from conductor.plan.fields import field_error, kind
from conductor.plan.yaml_text import Map, Seq, Text

MAX_ID = 200
"""Longest id in characters."""

_REFUSED_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_JOINERS = "\u200c\u200d"  # parts of words and emoji in some scripts


def read_ids(nodes: Seq) -> dict[TaskId, Map]:
    """Return the tasks' nodes by id, in plan order.

    Raises PlanError `plan_bad_id`, `plan_duplicate_id`, `plan_id_collision`, and `plan_field` where a node is no
    mapping.
    """
    found: dict[TaskId, Map] = {}
    folded: dict[str, Text] = {}
    for node in nodes:
        if not isinstance(node, Map):
            raise field_error("nodes", f"expected a mapping with an id, found {kind(node)}", node, 'Write - id: "1.1".')
        written = _written_id(node)
        task = TaskId(str(written))
        if task in found:
            first = found[task].get(Text("id"))
            assert isinstance(first, Text)
            raise plan_error(
                "plan_duplicate_id",
                f"two tasks have the id {shown(task)}, first on line {first.line}",
                written,
                hint="Give each task its own id.",
            )
        key = task.lower() if task.isascii() else collision_key(task)
        other = folded.setdefault(key, written)
        if other is not written:
            raise plan_error(
                "plan_id_collision",
                f"the ids {shown(other)} (line {other.line}) and {shown(task)} differ only in case or in how their "
                "characters are composed",
                written,
                hint="Rename one: on some file systems they would be one file.",
            )
        found[task] = node
    return found


def _written_id(node: Map) -> Text:
    written = node.get(Text("id"))
    if written is None:
        raise plan_error("plan_bad_id", "the task has no id", node, hint='Write id: "1.1".')
    if not isinstance(written, Text):
        raise plan_error("plan_bad_id", f"an id is text, found {kind(written)}", written, hint='Write id: "1.1".')
    reason = reason_against(written)
    if reason is not None:
        raise plan_error("plan_bad_id", f"the id {shown(written)} {reason}", written, hint="Choose a short plain id.")
    return written


def reason_against(text: str) -> str | None:
    """Return why a text cannot be an id, as the end of a sentence; None where it can."""
    if not text:
        return "is empty"
    if len(text) > MAX_ID:
        return f"has {len(text)} characters; {MAX_ID} are allowed"
    if text.isascii():
        if not text.isprintable():
            return "contains a control character"
    elif any(unicodedata.category(c) in _REFUSED_CATEGORIES and c not in _JOINERS for c in text):
        return "contains a control or an invisible character"
    if text != text.strip():
        return "begins or ends with a space"
    return None
