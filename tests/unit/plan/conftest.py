"""Short ways to a plan from the text of its nodes."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent

import pytest

from conductor.core.task import Plan
from conductor.errors import PlanError
from conductor.plan import loads

LoadNodes = Callable[..., Plan]
Refused = Callable[..., PlanError]


def _document(nodes: str, rest: str, prose: str) -> str:
    dag = "dag:\n  nodes:\n" + indent(dedent(nodes), "    ") + "\n" + indent(dedent(rest), "  ")
    return f"# Plan\n\n```yaml\n{dag}\n```\n\n{dedent(prose)}"


@pytest.fixture
def load_nodes() -> LoadNodes:
    """Load a plan of the given nodes, other keys of the DAG, and prose."""

    def load(nodes: str, rest: str = "", prose: str = "") -> Plan:
        return loads(_document(nodes, rest, prose))

    return load


@pytest.fixture
def refused() -> Refused:
    """Return the error that such a plan is refused with."""

    def refuse(nodes: str, rest: str = "", prose: str = "") -> PlanError:
        with pytest.raises(PlanError) as caught:
            loads(_document(nodes, rest, prose))
        assert caught.value.hint, "every error says what to do"
        return caught.value

    return refuse


@pytest.fixture
def codes() -> Callable[[Plan], list[str]]:
    """Return the codes of a plan's warnings, in order."""
    return lambda plan: [warning.code for warning in plan.warnings]
