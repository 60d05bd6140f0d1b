"""One node of the DAG as a `TaskSpec`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bus.wire import TaskId
from conductor.core.effects import written_by_reader
from conductor.core.task import TaskSpec
from conductor.core.wording import few
from conductor.errors import PlanError
from conductor.plan import fields
from conductor.plan.commands import CommandError, as_list, shell_hint, split_command, unread_variable
from conductor.plan.durations import parse_estimate
from conductor.plan.errors import plan_error, shown
from conductor.plan.fields import field_error
from conductor.plan.file_patterns import leaves_project, split_list, split_note
from conductor.plan.manual import MANUAL, as_manual
from conductor.plan.near import did_you_mean
from conductor.plan.unknown_keys import UnknownTaskKeys, not_supported
from conductor.plan.warnings import Warnings
from conductor.plan.yaml_text import Map, Node, Seq, Text, as_json

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_NAME = Text("name")
_COMMAND_HINT = 'Write an argument list, such as ["make", "test"].'


class TaskReader:
    """Reads the nodes of a plan, one after the other, in plan order."""

    def __init__(self, known: Collection[TaskId], warnings: Warnings, defaults: Mapping[str, Any]) -> None:
        self._known = known
        self._warnings = warnings
        self._defaults = defaults
        self._unknown = UnknownTaskKeys(known, warnings)
        self._task = ""

    def read(self, task: TaskId, node: Map, index: int, prose: str, ticked: bool) -> TaskSpec:
        """Return the task; raises PlanError for a value that cannot be used.

        Dependencies are taken as they stand; whether they exist is checked here, cycles are not.
        """
        self._task = task
        values: dict[str, Any] = dict(self._defaults)
        extra: dict[str, Any] = {}
        for key, value in node.items():
            known = _READERS.get(key)
            if known is not None:
                is_null = isinstance(value, Text) and value.plain and value.is_null
                if not is_null or self._names_null(key, value):
                    values[known[0]] = known[1](self, key, value)
                    if key in _READ_ONLY:
                        not_supported(key, value, self._warnings)
            elif key not in _NAMES:
                extra[str(key)] = as_json(value)
                if not not_supported(key, value, self._warnings):
                    self._unknown.judge(key, value, node)
        if values.get("agent", _NOBODY)["name"] == MANUAL:
            values, unheeded = as_manual(values, node)
            if unheeded:
                message = f"{few(unheeded)}: without effect, as a person does this task"
                self._warn("manual_without_worker", message, node)
        name = node.get(_NAME)
        spec = TaskSpec(
            id=task,
            name=fields.loose_text(name) if name else str(task),
            index=index,
            prose=prose,
            ticked=ticked,
            line=node.line,
            extra=extra,
            **values,
        )
        if written := written_by_reader(spec):
            self._warn("pure_read_writes", f"effect is pure_read, and it writes {few(written)}", node)
        return spec

    def finish(self) -> None:
        """Warn of what concerns all tasks that were read."""
        self._unknown.report()

    def _warn(self, code: str, message: str, at: Node) -> None:
        if self._warnings.full(code):
            self._warnings.add(code, "")  # counted only
        else:
            self._warnings.add(code, f"task {self._task}: {message}", at.line)

    def _names_null(self, key: Text, value: Node) -> bool:
        """Whether a null is meant as the id of a task that is called so."""
        return key == "depends_on" and TaskId(str(value)) in self._known

    def _depends_on(self, key: Text, node: Node) -> tuple[TaskId, ...]:
        wanted: dict[TaskId, None] = {}
        for item in self._dependency_items(key, node):
            task = TaskId(str(item))
            if task not in self._known:
                raise self._unknown_dependency(task, item)
            if task in wanted:
                self._warn("duplicate_dependency", f"depends twice on {task}", item)
            wanted[task] = None
        return tuple(wanted)

    def _dependency_items(self, key: Text, node: Node) -> list[Text]:
        items = fields.texts(key, node)
        if isinstance(node, Text) and TaskId(str(node)) not in self._known and "," in node:
            return [node.part(part) for part in node.split(",") if part.strip()]
        return [item for item in items if not item.is_null or TaskId(str(item)) in self._known]

    def _unknown_dependency(self, wanted: TaskId, at: Text) -> PlanError:
        hint = did_you_mean(wanted, self._known)
        if hint is None and wanted.lower() in ("none", "-", "n/a"):
            hint = "Write [] where there are no dependencies."
        return plan_error(
            "plan_unknown_dependency",
            f"task {shown(self._task)} depends on {shown(wanted)}, and there is no such task",
            at,
            hint=hint or "Add the task, or remove the dependency.",
        )

    def _patterns(self, key: Text, node: Node) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for item in fields.texts(key, node):
            for part in split_list(item):
                pattern, note = split_note(part)
                if pattern is None:
                    self._warn("file_not_a_path", f"{key}: {shown(part)} is not a path and is left out", item)
                    continue
                if note is not None:
                    self._warn("file_note", f"{key}: {shown(part)} is read as {shown(pattern)}", item)
                if leaves_project(pattern):
                    self._warn("file_outside_project", f"{key}: {shown(pattern)} is not named from the project", item)
                found[pattern] = None
        return tuple(found)

    def _texts(self, key: Text, node: Node) -> tuple[str, ...]:
        return tuple(str(item) for item in fields.texts(key, node))

    def _estimate(self, key: Text, node: Node) -> float | None:
        seconds = parse_estimate(node) if isinstance(node, Text) else None
        if seconds is None:
            self._warn("estimate_unknown", f"{key} {fields.described(node)} is taken as unknown", node)
        return seconds

    def _command(self, key: Text, node: Node) -> tuple[str, ...]:
        if isinstance(node, Text):
            try:
                arguments = split_command(node)
            except CommandError as error:
                hint = shell_hint(key, node) if error.needs_shell else error.hint
                raise field_error(key, str(error), node, hint) from None
            if unread_variable(arguments):
                self._warn("shell_variable", f"{key}: $… is given to the command as it stands; no shell reads it", node)
            return arguments
        arguments = tuple(fields.text(key, item) for item in fields.sequence(key, node, _COMMAND_HINT))
        if not arguments or not arguments[0].strip():
            raise field_error(key, "the command is empty", node, _COMMAND_HINT)
        if len(arguments) == 1 and " " in arguments[0]:
            self._warn("command_not_split", f"{key}: {shown(arguments[0])} is the name of one program", node)
        return arguments

    def _verify(self, key: Text, node: Node) -> tuple[tuple[str, ...], ...]:
        if not isinstance(node, Seq):
            return (self._command(key, node),)
        flat = [str(item) for item in node if isinstance(item, Text)]
        as_one = f"{key}: [{as_list(flat)}]"
        if len(flat) == len(node) and any(word.startswith("-") for word in flat):
            message = "each entry is a command of its own, and this looks like one command in pieces"
            raise field_error(key, message, node, f"For one command, write {as_one}.")
        commands = tuple(self._command(key, item) for item in node)
        if len(flat) == len(node) > 1 and not any(" " in word for word in flat):
            message = f"{key}: each of the {len(node)} words is a command of its own; if they are one, write {as_one}"
            self._warn("verify_looks_like_one", message, node)
        return commands

    def _agent(self, key: Text, node: Node) -> dict[str, Any]:
        return read_agent(key, node)

    def _env(self, key: Text, node: Node) -> dict[str, str]:
        return {**self._defaults.get("env", {}), **read_env(key, node)}


def read_agent(key: str, node: Node) -> dict[str, Any]:
    """Return `{"name": …}` with what else the plan says of the agent."""
    if isinstance(node, Text):
        return {"name": str(node)}
    agent: dict[str, Any] = {}
    for name, value in fields.mapping(key, node).items():
        agent[str(name)] = list(map(str, fields.texts(name, value))) if name == "args" else as_json(value)
    if not isinstance(agent.get("name"), str):
        raise field_error(key, "an agent needs a name", node, "Write agent: {name: claude, …}.")
    return agent


def read_env(key: str, node: Node) -> dict[str, str]:
    """Return environment variables; null is the empty text."""
    env: dict[str, str] = {}
    for name, value in fields.mapping(key, node).items():
        if not _ENV_NAME.fullmatch(name) or name.startswith("CONDUCTOR_"):
            raise field_error(key, f"{shown(name)} cannot be set", name, "Choose another name.")
        env[str(name)] = "" if fields.is_null(value) else fields.text(name, value)
    return env


def _choice(*words: str) -> _Reader:
    return lambda _, key, node: fields.choice(key, node, words)


def _duration(_: TaskReader, key: Text, node: Node) -> float:
    return fields.duration(key, node)


def _loose_text(_: TaskReader, key: Text, node: Node) -> str:
    return fields.loose_text(node)


def _lines(_: TaskReader, key: Text, node: Node) -> str:
    return fields.lines(node)


def _integer(_: TaskReader, key: Text, node: Node) -> int:
    return fields.integer(key, node, most=1000)


_Reader = Callable[[TaskReader, Text, Node], Any]
_NAMES = frozenset(("id", "name"))
_NOBODY: Mapping[str, Any] = {"name": None}
_READ_ONLY = frozenset(("changes",))
"""Keys that are read, and that nothing acts on yet."""
_READERS: dict[str, tuple[str, _Reader]] = {
    "type": ("type", _loose_text),
    "files": ("files", TaskReader._patterns),
    "depends_on": ("depends_on", TaskReader._depends_on),
    "estimated_duration": ("estimate", TaskReader._estimate),
    "phase": ("phase", _loose_text),
    "reads": ("reads", TaskReader._patterns),
    "resources": ("resources", TaskReader._texts),
    "effect": ("effect", _choice("write", "pure_read", "external")),
    "agent": ("agent", TaskReader._agent),
    "run": ("run", TaskReader._command),
    "verify": ("verify", TaskReader._verify),
    "outputs": ("outputs", TaskReader._patterns),
    "changes": ("changes", _choice("required", "optional")),
    "acceptance": ("acceptance", _lines),
    "instructions": ("instructions", _lines),
    "timeout": ("timeout", _duration),
    "stale_after": ("stale_after", _duration),
    "retries": ("retries", _integer),
    "leftovers": ("leftovers", _choice("kill", "keep", "fail")),
    "env": ("env", TaskReader._env),
    "approve": ("approve", _choice("before", "after")),
}
