"""From the DAG as text, lists and mappings to a `Plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bus.wire import TaskId
from conductor.core.task import Plan, TaskSpec
from conductor.plan import fields
from conductor.plan.cycles import refuse_cycle
from conductor.plan.fields import field_error
from conductor.plan.groups import GroupReader
from conductor.plan.ids import read_ids
from conductor.plan.locate import Block
from conductor.plan.near import meant_key
from conductor.plan.prose import TaskProse, find_prose
from conductor.plan.settings import DEFAULTS, LIMITS, TASK_DEFAULTS, read_defaults, read_limits
from conductor.plan.sharing import shared_among
from conductor.plan.tasks import TaskReader
from conductor.plan.warnings import Warnings
from conductor.plan.yaml_text import Map, Node, Seq, Text, as_json

DAG_KEYS = ("nodes", "parallel_groups", "project", "defaults", "limits")

_NODES_HINT = 'Write nodes: and below it a list of tasks, each with an id: - id: "1.1".'
_NULL = Text("")
_NULL.line, _NULL.column, _NULL.plain = 0, 0, True


@dataclass(frozen=True, slots=True)
class Document:
    """The Markdown in which prose about the tasks is looked for."""

    lines: Sequence[str] = ()
    blocks: Sequence[Block] = ()
    dag: Block | None = None
    """The block of the DAG, where it stands in this document."""


def build_plan(root: Map, document: Document, source: str, warnings: Warnings) -> Plan:
    """Validate everything; raises PlanError. `root` has the key `dag`, or is the DAG itself."""
    dag = _dag_of(root, warnings)
    ids = read_ids(_nodes_of(dag))
    prose = find_prose(document.lines, document.blocks, document.dag, ids.keys())
    limits = read_limits(_value(dag, "limits"))
    defaults = read_defaults(_value(dag, "defaults"), warnings)
    tasks = _tasks(ids, prose, {key: defaults[key] for key in TASK_DEFAULTS if key in defaults}, warnings)
    refuse_cycle(tasks)
    groups = GroupReader(tasks, warnings).read(_value(dag, "parallel_groups"))
    tasks = shared_among(tasks, groups)
    project_node = _value(dag, "project")
    project = None if fields.is_null(project_node) else fields.text("project", project_node)
    _warn_of_misplaced(dag, warnings)
    return Plan(
        tasks=tasks,
        groups=groups,
        limits=limits,
        defaults=defaults,
        project=project,
        project_line=project_node.line if project is not None else 0,
        source=source,
        warnings=warnings.all(),
        extra={str(key): as_json(value) for key, value in dag.items() if key not in DAG_KEYS},
    )


def _dag_of(root: Map, warnings: Warnings) -> Map:
    dag = root.get(Text("dag"))
    if dag is None:
        return root
    if isinstance(dag, Seq):
        raise field_error("dag", "expected a mapping, found a list", dag, "Put the list under dag: nodes:.")
    for key in root:
        if key in ("project", "defaults", "limits"):
            raise field_error(
                key, "stands beside dag, not in it, and would have no effect", key, "Indent it under dag."
            )
        if key in DAG_KEYS:
            warnings.add("did_you_mean", f"{key} stands beside dag and has no effect; indent it under dag", key.line)
    if not isinstance(dag, Map):
        raise field_error("dag", f"expected a mapping, found {fields.kind(dag)}", dag, _NODES_HINT)
    return dag


def _nodes_of(dag: Map) -> Seq:
    for key in dag:
        meant = None if key in DAG_KEYS else meant_key(key, DAG_KEYS)
        if meant is not None:
            raise field_error(key, "not a key of the DAG", key, f'Did you mean "{meant}"?')
    nodes = dag.get(Text("nodes"))
    if nodes is None or fields.is_null(nodes):
        raise field_error("nodes", "the DAG has no tasks", dag, _NODES_HINT)
    found = fields.sequence("nodes", nodes, _NODES_HINT)
    if not found:
        raise field_error("nodes", "the DAG has no tasks", found, _NODES_HINT)
    return found


def _warn_of_misplaced(dag: Map, warnings: Warnings) -> None:
    """Say so where a setting stands in the DAG itself instead of under `limits` or `defaults`."""
    for key in dag:
        place = "limits" if key in LIMITS else "defaults" if key in DEFAULTS else None
        if place is not None:
            warnings.add("did_you_mean", f"{key} has no effect here; put it under {place}", key.line)


def _value(dag: Map, key: str) -> Node:
    return dag.get(Text(key), _NULL)


def _tasks(
    ids: Mapping[TaskId, Map], prose: Mapping[TaskId, TaskProse], defaults: Mapping[str, object], warnings: Warnings
) -> tuple[TaskSpec, ...]:
    reader = TaskReader(ids.keys(), warnings, defaults)
    nothing = TaskProse("", False)
    tasks = []
    for index, (task, node) in enumerate(ids.items()):
        said = prose.get(task, nothing)
        tasks.append(reader.read(task, node, index, said.text, said.ticked))
    reader.finish()
    ticked = sum(task.ticked for task in tasks)
    if ticked:
        message = (
            f"{ticked} of {len(tasks)} tasks are ticked already; they run all the same unless --skip-ticked is given"
        )
        warnings.add("tasks_ticked", message)
    return tuple(tasks)
