"""Finding the one DAG of a track, and reading it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from conductor.core.task import Plan
from conductor.errors import PlanError
from conductor.plan.collector import without_collector
from conductor.plan.files import decode, read_bytes, refuse_other_than_directory
from conductor.plan.locate import LANGUAGES, Block, find_blocks, is_dag, split_lines
from conductor.plan.no_dag import no_dag
from conductor.plan.source import FILES
from conductor.plan.validate import Document, build_plan
from conductor.plan.warnings import Warnings
from conductor.plan.yaml_text import Map, Text, read_yaml

PLAN = "plan.md"
DAG_FILES = tuple(name for name in FILES if name != PLAN)
_METADATA_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _Found:
    """One DAG: where it stands and its text."""

    source: str
    line: int
    """Lines before the text; of a block, that is also the line of its fence, from 1."""
    text: str
    column_offset: int
    block: Block | None


def read_track(track_dir: Path, *, max_bytes: int) -> Plan:
    """Read the plan of a track directory; raises PlanError whose path is the file's name in the track."""
    refuse_other_than_directory(track_dir)
    warnings = Warnings()
    body = read_bytes(track_dir / PLAN, max_bytes)
    files = {name: text for name in DAG_FILES if (text := _dag_file(track_dir / name, max_bytes)) is not None}
    if body is None and not files:
        raise PlanError(
            "plan_missing",
            "the track has neither a plan.md nor a dag.yaml or dag.json",
            path=str(track_dir),
            hint="`conductor init TRACK` writes a plan to start from.",
        )
    if body is None:
        warnings.add("plan_md_missing", "there is no plan.md beside the DAG; workers get no prose about their task")
    _check_metadata(track_dir / "metadata.json", warnings)
    plan = _read(decode(body, PLAN) if body is not None else None, files, warnings)
    size = max(len(body or b""), *(len(text.encode()) for text in files.values()), 0)
    if plan.limits.max_plan_bytes is not None and size > plan.limits.max_plan_bytes:
        raise PlanError(
            "plan_bytes_exceeded",
            f"the plan has {size:,} bytes; its own limit max_plan_bytes is {plan.limits.max_plan_bytes:,}",
            path=plan.source,
            hint="Raise max_plan_bytes under limits, or split the plan.",
        )
    return plan


def read_text(text: str, *, source: str) -> Plan:
    """Read the plan out of one text; raises PlanError."""
    _refuse_half_characters(text, source)
    if source.endswith((".yaml", ".yml", ".json")):
        return _read(None, {source: text}, Warnings())
    return _read(text, {}, Warnings(), source)


def _refuse_half_characters(text: str, source: str) -> None:
    """Refuse what no file in UTF-8 can hold, and what could therefore not be frozen."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        hint = "Save the file as UTF-8."
        raise PlanError("plan_yaml", f"half a character on line {line}", path=source, line=line, hint=hint) from None


def _read(markdown: str | None, files: dict[str, str], warnings: Warnings, name: str = PLAN) -> Plan:
    lines = split_lines(markdown) if markdown is not None else []
    blocks = find_blocks(lines) if lines else []
    found = [_in_block(block, lines, name) for block in blocks if block.language in LANGUAGES and is_dag(block, lines)]
    found += [_Found(file, 0, text, 0, None) for file, text in files.items()]
    if not found:
        raise no_dag(lines, blocks, name)
    if len(found) > 1:
        raise _two_dags(found[0], found[1])
    dag = found[0]
    try:
        with without_collector():
            return build_plan(_root(dag), Document(lines, blocks, dag.block), dag.source, warnings)
    except PlanError as error:
        error.path = error.path or dag.source
        raise


def _in_block(block: Block, lines: list[str], name: str) -> _Found:
    text = block.text(lines)
    return _Found(name, block.body[0], text, block.indent, block)


def _root(dag: _Found) -> Map:
    text = "\n".join(split_lines(dag.text))
    root = read_yaml(text, line_offset=dag.line, column_offset=dag.column_offset)
    if isinstance(root, Map) and (Text("dag") in root or dag.block is None):
        return root
    raise PlanError(
        "plan_no_dag",
        "no DAG: there is no mapping with the key dag at the top",
        path=dag.source,
        line=dag.line + 1,
        hint="Write dag: and below it, indented, nodes: with a list of tasks.",
    )


def _dag_file(path: Path, max_bytes: int) -> str | None:
    body = read_bytes(path, max_bytes)
    return None if body is None else decode(body, path.name)


def _check_metadata(path: Path, warnings: Warnings) -> None:
    try:
        body = read_bytes(path, _METADATA_BYTES)
        if body is not None and not isinstance(json.loads(body), dict):
            raise ValueError("not an object")
    except (PlanError, ValueError, RecursionError) as error:
        reason = error.message if isinstance(error, PlanError) else "not a JSON object"
        warnings.add("metadata_invalid", f"metadata.json is left alone: {reason}")


def _two_dags(first: _Found, second: _Found) -> PlanError:
    line = second.line or 1
    return PlanError(
        "plan_two_dags",
        f"two DAGs: {first.source} line {first.line or 1} and {second.source} line {line}",
        path=second.source,
        line=line,
        hint="Keep one of them; take the key dag out of the other.",
    )
