"""The frozen plan."""

from __future__ import annotations

import json

import pytest

from bus.wire import TaskId
from conductor.core.task import Plan, TaskSpec
from conductor.errors import PlanError
from conductor.plan import loads
from conductor.plan.frozen import dump, parse

TEXT = """```yaml
dag:
  nodes:
    - {id: "1.1", name: Ä, files: [a (new)], run: make x, verify: [[a, b], c d], env: {A: b}}
    - {id: b, depends_on: ["1.1"], timeout: 0, retries: 0, effect: external, agent: {name: x, args: [1]},
       owner: [me, {a: null}]}
  parallel_groups: [{id: g, tasks: ["1.1", b], conflict_free: false, max_workers: 2, colour: red}]
  defaults: {timeout: 1h, agent: {name: x, args: [a]}}
  limits: {budget_usd: 1.5}
  project: .
  critical_path: 1.1 → b
```
- [x] Task 1.1: Ä
"""


def test_it_round_trips() -> None:
    plan = loads(TEXT)
    body = dump(plan)
    assert parse(body) == plan
    assert dump(parse(body)) == body


def test_it_is_canonical_json() -> None:
    body = dump(loads(TEXT))
    assert body.endswith(b"}\n")
    assert body.count(b"\n") == 1
    canonical = json.dumps(json.loads(body), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert body.decode() == canonical + "\n"


def test_defaults_are_left_out() -> None:
    assert dump(Plan(tasks=(TaskSpec(TaskId("a"), "a", 0),))) == (
        b'{"format":1,"groups":[],"limits":{},"tasks":[{"id":"a","index":0,"name":"a"}],"warnings":[]}\n'
    )


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"\xff", b'{"format":2}', b'{"format":1}', b"[" * 100_000,
     b'{"format":1,"groups":[],"limits":{},"tasks":[{"id":"a"}],"warnings":[]}',
     b'{"format":1,"groups":[],"limits":{"x":1},"tasks":[],"warnings":[]}',
     b'{"format":1,"groups":[],"limits":{},"tasks":[],"warnings":[],"x":1}'],
)  # fmt: skip
def test_what_is_no_frozen_plan(body: bytes) -> None:
    with pytest.raises(PlanError) as caught:
        parse(body)
    assert caught.value.code == "plan_field"
