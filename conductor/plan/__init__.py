"""Readers of plan formats: text in, a validated `Plan` or a `PlanError` with code, line and hint out.

Warnings carry one of the codes listed in `conductor.plan.warnings`. YAML is imported only when a plan is read from
text: the verbs that look at a run parse the frozen copy and never pay for it.
"""

from __future__ import annotations

from pathlib import Path

from conductor.core.task import Plan

MAX_PLAN_BYTES = 64 << 20
"""Largest plan file in bytes, unless the caller says otherwise."""


def load(track_dir: Path, *, max_bytes: int = MAX_PLAN_BYTES) -> Plan:
    """Read and validate the plan of a track; raises PlanError."""
    from conductor.plan.reader import read_track

    return read_track(track_dir, max_bytes=max_bytes)


def loads(text: str, *, source: str = "plan.md") -> Plan:
    """Validate the text of a plan file; raises PlanError. A `source` in .yaml, .yml or .json is a bare DAG."""
    from conductor.plan.reader import read_text

    return read_text(text, source=source)
