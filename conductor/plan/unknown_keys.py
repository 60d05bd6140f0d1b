"""Keys that nothing acts on: kept, unless leaving them unheeded would change what the user gets.

What only describes a task is expected to do nothing; of other keys it is said that they have no effect. Some belong to
features of later versions. They are read and checked, so that a plan need not change when the feature comes; that
nothing acts on them is said, once for each key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from bus.wire import TaskId
from conductor.core.wording import few, plural
from conductor.plan.errors import shown
from conductor.plan.fields import field_error, is_null
from conductor.plan.near import is_misspelt, meant_key
from conductor.plan.warnings import Warnings
from conductor.plan.yaml_text import Map, Node, Seq, Text

TASK_KEYS: tuple[str, ...] = (
    "id", "name", "type", "files", "depends_on", "estimated_duration", "phase", "reads", "resources", "effect", "agent",
    "run", "verify", "outputs", "changes", "acceptance", "instructions", "timeout", "stale_after", "retries",
    "retry_from", "leftovers", "merge", "fallback", "env", "approve", "isolation",
)  # fmt: skip
"""All keys of a task."""

_ORDERING_FOR_SURE = frozenset(
    ("depend", "depends", "dependson", "dependon", "deps", "dep", "dependency", "dependencies", "needs", "need")
)
"""With other keys near to `depends_on` (`requires`, `after`, …) it depends on whether they name tasks."""

_GUARDS = frozenset(
    ("timeout", "verify", "retries", "files", "run", "reads", "resources", "outputs", "approve", "isolation")
)
"""Keys without which a task runs without its limit, its check, its order against others, or not at all."""

_DESCRIPTIVE = frozenset(
    ("description", "desc", "summary", "title", "note", "notes", "details", "rationale", "reason", "comment",
     "comments", "owner", "assignee", "author", "status", "tags", "labels", "category", "links", "refs")
)  # fmt: skip
"""Keys that people write for people."""

_REVERSED = frozenset(("blocks", "unblocks", "required_by", "before"))
_NO_TASKS = frozenset(("none", "-", "n/a"))
_NOT_YET: dict[str, tuple[tuple[str, ...], str]] = {
    "changes": (("optional",), "a task that changes nothing counts as done; a verify command can look"),
    "retry_from": (("fresh",), "an attempt finds the files as the one before left them"),
    "merge": ((), "all tasks work in the project itself, so that nothing is merged"),
    "fallback": ((), "a retry runs the same command"),
}
"""Keys of features that this version does not have: the values that ask for nothing, and what happens instead."""


def not_supported(key: str, value: Node, warnings: Warnings) -> bool:
    """Whether the key belongs to a feature that this version lacks; warns, or raises where the run would be wrong."""
    if key == "isolation":
        if isinstance(value, Text) and (value.is_null or value == "none"):
            return True
        raise field_error(key, "this version runs all tasks in the project itself", value, "Remove the key.")
    if key not in _NOT_YET:
        return False
    harmless, instead = _NOT_YET[key]
    if value and not is_null(value) and value not in harmless:
        warn_no_effect(key, instead, value.line, warnings)
    return True


def warn_no_effect(what: str, instead: str, line: int, warnings: Warnings) -> None:
    """Say that nothing acts on what the plan asks for, and what happens instead."""
    warnings.add("not_supported_yet", f"{what} has no effect in this version: {instead}", line)


class UnknownTaskKeys:
    """Judges the keys of tasks that are none of ours, and counts those that have no effect."""

    def __init__(self, known: Container[TaskId], warnings: Warnings) -> None:
        self._known = known
        self._warnings = warnings
        self._unheeded: Counter[str] = Counter()
        self._first_line = 0

    def judge(self, key: Text, value: Node, node: Map) -> None:
        """Judge one key of the task `node`.

        A misspelt dependency whose loss would lose an ordering, or a misspelt safeguard, is an error; whatever else is
        close to a known key is a warning; the rest is counted.
        """
        if key in _REVERSED and any(TaskId(task) in self._known for task in _named(value)):
            message = f"{key} orders nothing; write depends_on in the tasks that come later"
            self._warnings.add("reverse_dependency", message, key.line)
            return
        meant = meant_key(key, TASK_KEYS)
        if meant is not None and not (key in _DESCRIPTIVE and Text(meant) in node):
            self._near(key, value, node, meant)
        elif key not in _DESCRIPTIVE and key not in _REVERSED and _asks(value):
            self._first_line = self._first_line or key.line
            self._unheeded[str(key)] += 1

    def report(self) -> None:
        """Warn of the keys that have no effect, in one line for all tasks."""
        if not self._unheeded:
            return
        keys = [f"{shown(key)[1:-1]} ({plural(count, 'task')})" for key, count in self._unheeded.most_common()]
        self._warnings.add("key_without_effect", f"these keys have no effect: {few(keys, 10)}", self._first_line)

    def _near(self, key: Text, value: Node, node: Map, meant: str) -> None:
        hint = f'Did you mean "{meant}"?'
        if meant == "depends_on" and _loses_ordering(key, value, node, self._known):
            raise field_error(key, "not a key of a task, and without it the order of tasks would be lost", key, hint)
        if meant in _GUARDS and is_misspelt(key, meant) and Text(meant) not in node and _asks(value):
            raise field_error(key, "not a key of a task, and the task would run without it", key, hint)
        self._warnings.add("did_you_mean", f"{shown(key)} is not a key of a task and has no effect. {hint}", key.line)


def _asks(value: Node) -> bool:
    """Whether the value asks for anything."""
    return bool(value) and not is_null(value) and value != "none"


def _loses_ordering(key: str, value: Node, node: Map, known: Container[TaskId]) -> bool:
    named = _named(value)
    declared = node.get(Text("depends_on"))
    missing = named - (_named(declared) if declared is not None else set())
    if "".join(c for c in key.lower() if c.isalnum()) in _ORDERING_FOR_SURE:
        return bool(missing)
    return any(TaskId(task) in known for task in missing)


def _named(value: Node) -> set[str]:
    """Return the texts that stand in the value, anywhere a list of tasks could be."""
    if isinstance(value, Text):
        items = [] if value.is_null or value.lower() in _NO_TASKS else value.split(",")
        return {item.strip() for item in items if item.strip()}
    if isinstance(value, Seq):
        return {str(item) if isinstance(item, Text) else "…" for item in value}
    return set(value)
