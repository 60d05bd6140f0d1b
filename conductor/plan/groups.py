"""Parallel groups: caps and hints. What is odd about them is said, and stops nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bus.wire import TaskId
from conductor.core.conflicts import MAX_COMPARED, listing
from conductor.core.graph import levels
from conductor.core.task import Group, Plan, TaskSpec
from conductor.errors import PlanError
from conductor.plan import fields
from conductor.plan.errors import shown
from conductor.plan.file_patterns import normalise
from conductor.plan.near import did_you_mean, meant_key
from conductor.plan.sharing import FILE_LOCK
from conductor.plan.unknown_keys import warn_no_effect
from conductor.plan.warnings import Warnings
from conductor.plan.yaml_text import Map, Node, Text, as_json

GROUP_KEYS = (
    "id", "tasks", "max_workers", "timeout", "conflict_free", "shared_resources", "coordination_strategy", "note",
)  # fmt: skip


_STRATEGIES = (None, "none", FILE_LOCK)
"""Ways of sharing that there are, or that ask for nothing."""


_SHOWN_PAIRS = 10
"""Pairs of a group that are named; the others are counted."""

_MAX_PAIRS = 1000
"""Pairs looked for in each group."""


_MAX_MEMBERS = 10_000
"""Members of a group that are compared: for the warning only; the run itself compares all."""


class GroupReader:
    """Reads the groups of a plan whose tasks are known."""

    def __init__(self, tasks: Sequence[TaskSpec], warnings: Warnings) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._levels: dict[TaskId, int] = {}
        self._warnings = warnings
        self._may_compare = MAX_COMPARED
        """Patterns that all groups together may still compare."""
        self._ids: set[str] = set()
        self._member_of: dict[TaskId, str] = {}

    def read(self, node: Node) -> tuple[Group, ...]:
        """Return the groups; raises PlanError `plan_field` for what is no group at all, or a cap that is no number."""
        if fields.is_null(node):
            return ()
        waves = levels(Plan(tuple(self._tasks.values())))
        self._levels = {task: level for level, wave in enumerate(waves) for task in wave}
        hint = "Write a list of groups, each with id and tasks."
        groups = tuple(
            self._group(fields.mapping("parallel_groups", item), number)
            for number, item in enumerate(fields.sequence("parallel_groups", node, hint), start=1)
        )
        self._check_waits(groups, node.line)
        return groups

    def _group(self, node: Map, number: int) -> Group:
        values = {str(key): value for key, value in node.items() if not fields.is_null(value)}
        name = fields.loose_text(values["id"]) if "id" in values else f"group-{number}"
        if name in self._ids:
            self._warnings.add("group_duplicate_id", f"two groups have the id {shown(name)}", node.line)
        self._ids.add(name)
        self._unknown_keys(name, node)
        members = self._members(name, node, values.get("tasks"))
        group = Group(
            id=name,
            tasks=tuple(members),
            max_workers=fields.integer("max_workers", values["max_workers"], least=1)
            if "max_workers" in values
            else None,
            timeout=fields.duration("timeout", values["timeout"]) if "timeout" in values else None,
            conflict_free=self._conflict_free(name, values.get("conflict_free")),
            shared_resources=tuple(normalise(name) for name in _texts("shared_resources", values)),
            coordination_strategy=_optional_text(values.get("coordination_strategy")),
            note=_optional_text(values.get("note")),
            extra={str(key): as_json(value) for key, value in node.items() if key not in GROUP_KEYS},
        )
        self._check(group, node.line)
        self._check_unheeded(group, node.line)
        return group

    def _unknown_keys(self, name: str, node: Map) -> None:
        for key in node:
            meant = None if key in GROUP_KEYS else meant_key(key, GROUP_KEYS)
            if meant is None and meant_key(key, ("depends_on",)) is not None:
                message = f"group {name}: {shown(key)} orders nothing; write depends_on in the tasks"
                self._warnings.add("group_order", message, key.line)
            elif meant is not None:
                hint = f'Did you mean "{meant}"?'
                self._warnings.add("did_you_mean", f"group {name}: {shown(key)} has no effect. {hint}", key.line)

    def _members(self, name: str, node: Map, listed: Node | None) -> list[TaskId]:
        members: list[TaskId] = []
        items = fields.texts("tasks", listed) if listed is not None else []
        if not items:
            self._warnings.add("group_empty", f"group {name} has no tasks", node.line)
        for item in items:
            task = TaskId(str(item))
            other = self._member_of.get(task)
            if task not in self._tasks:
                self._unknown_member(name, item)
            elif other is not None:
                where = "twice in its list" if other == name else f"in two groups, {other} and {name}; the first counts"
                self._warnings.add("group_duplicate_task", f"task {task} stands {where}", item.line)
            else:
                self._member_of[task] = name
                members.append(task)
        return members

    def _unknown_member(self, name: str, item: Text) -> None:
        if self._warnings.full("group_unknown_task"):
            self._warnings.add("group_unknown_task", "")  # counted only
            return
        hint = did_you_mean(item, self._tasks)
        message = f"group {name} names {shown(item)}, and there is no such task" + (f". {hint}" if hint else "")
        self._warnings.add("group_unknown_task", message, item.line)

    def _conflict_free(self, name: str, node: Node | None) -> bool | None:
        if node is None:
            return None
        try:
            return fields.boolean("conflict_free", node)
        except PlanError as error:
            self._warnings.add("group_field", f"group {name}: {error.message}", node.line)
            return None

    def _check(self, group: Group, line: int) -> None:
        inside = set(group.tasks)
        chained = next(
            ((task, wanted) for task in group.tasks for wanted in self._tasks[task].depends_on if wanted in inside),
            None,
        )
        level = {self._levels[task] for task in group.tasks}
        if chained is not None:
            message = f"group {group.id}: {chained[0]} depends on {chained[1]}; they run one after the other"
            self._warnings.add("group_chain", message, line)
        elif len(level) > 1:
            message = f"group {group.id} has tasks on levels {min(level) + 1} to {max(level) + 1}; dependencies decide"
            self._warnings.add("group_levels", message, line)
        if group.conflict_free:
            self._shared_files(group, line)

    def _check_unheeded(self, group: Group, line: int) -> None:
        """Say what of the group nothing acts on."""
        if group.coordination_strategy not in _STRATEGIES:
            what = f"coordination_strategy {shown(group.coordination_strategy or '')}"
            warn_no_effect(what, "tasks that write the same file run one after the other", line, self._warnings)

    def _check_waits(self, groups: Sequence[Group], line: int) -> None:
        waiting = [
            (group.id, task, wanted)
            for group in groups
            for task in group.tasks
            for wanted in self._tasks[task].depends_on
            if wanted not in self._member_of
        ]
        if waiting:
            name, task, wanted = waiting[0]
            message = f"group {name}: {task} waits for {wanted}, which stands in no group; dependencies decide"
            self._warnings.add("group_waits", message, line)

    def _shared_files(self, group: Group, line: int) -> None:
        members = [self._tasks[task] for task in group.tasks]
        claiming = [task for task in members if task.files or task.reads or task.resources]
        if len(claiming) < 2:
            return
        most = 1 if self._warnings.full("group_shared_files") else _MAX_PAIRS  # one is enough to count the group
        compared = members if len(members) <= _MAX_MEMBERS else claiming[:_MAX_MEMBERS]
        found = listing(Plan(tuple(compared)), most, self._may_compare)
        self._may_compare -= found.compared
        complete = found.complete and len(claiming) <= _MAX_MEMBERS
        for one, other, pattern in found.pairs[:_SHOWN_PAIRS]:
            message = f"group {group.id} says conflict_free, but {one} and {other} share {pattern}"
            self._warnings.add("group_shared_files", message, line)
        more = len(found.pairs) - _SHOWN_PAIRS
        if more > 0:
            least = "" if complete else "at least "
            message = f"group {group.id} says conflict_free, but {least}{more:,} more pairs share a file"
            self._warnings.add("group_shared_files", message, line)
        if not found.pairs and not complete:
            message = "conflict_free is believed: there is too much to compare; a run keeps tasks apart all the same"
            self._warnings.add("group_not_compared", message, line)


def _texts(key: str, values: Mapping[str, Node]) -> list[Text]:
    return fields.texts(key, values[key]) if key in values else []


def _optional_text(node: Node | None) -> str | None:
    return None if node is None else fields.loose_text(node)
