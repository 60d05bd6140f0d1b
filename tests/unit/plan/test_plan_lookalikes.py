"""Generated plans in the style of real tracks: long prose around one block, boxes with comments, groups as hints."""

from __future__ import annotations

import random

import pytest

from conductor.plan import loads
from conductor.plan.frozen import dump, parse

TYPES = ["infrastructure", "feature", "code", "integration", "test", "verification", "research", "documentation"]
WORDS = ["harden", "route", "client", "service", "cache", "export", "verify", "sync", "layer", "device", "session"]


def lookalike(seed: int) -> tuple[str, dict[str, list[str]]]:
    """Return a plan and the dependencies that it declares."""
    rng = random.Random(seed)
    quote = rng.choice(["'", '"', ""])
    block_lists, with_files, boxes = rng.random() < 0.5, rng.random() < 0.7, rng.random() < 0.8
    mark = rng.choice(["x", " ", "X", "~"])
    wanted: dict[str, list[str]] = {}
    nodes, prose = [], []
    for phase in range(1, rng.randint(2, 5)):
        prose.append(f"\n## Phase {phase}: {rng.choice(WORDS).title()}\n\n### Tasks\n")
        for number in range(1, rng.randint(2, 13)):
            task, name = f"{phase}.{number}", " ".join(rng.sample(WORDS, 4)).capitalize()
            wanted[task] = rng.sample(sorted(wanted), min(len(wanted), rng.randint(0, 3)))
            nodes.append(f"    - id: {quote}{task}{quote}\n      name: '{name} → it''s done'")
            if with_files:
                nodes.append(
                    "      files:\n" + "\n".join(f"        - 'src/{w}/**/*{w}*'" for w in rng.sample(WORDS, 2))
                )
            nodes.append("      depends_on:" + _list([f"{quote}{other}{quote}" for other in wanted[task]], block_lists))
            if with_files:
                nodes.append(f"      type: {rng.choice(TYPES)}\n      estimated_duration: '45m'\n      phase: {phase}")
            box = f"- [{mark}] Task" if boxes else "####  Task"
            deps = ", ".join(wanted[task]) or "none"
            prose.append(f"{box} {task}: {name} <!-- deps: {deps}, parallel: pg-{phase} -->")
            prose.append(f"  - **Acceptance**: `{name}` works; see Task {task}0 and `/{phase}/:id`\n")
    group = _list(rng.sample(sorted(wanted), min(3, len(wanted))), block_lists).replace("\n  ", "\n    ")
    groups = f"  parallel_groups:\n    - id: 'pg-1'\n      tasks:{group}\n      conflict_free: true\n"
    return (
        "# Track — Execution Plan\n\n## Context\n\n- **Spec**: `x` → y\n- [ ] not a task\n\n## Dependency Graph\n\n"
        "```yaml\ndag:\n  nodes:\n" + "\n".join(nodes) + "\n\n" + groups + "```\n" + "\n".join(prose) + "\n"
        "## Plan Evaluation\n\n- **Verdict**: `PASS`\n\n```sh\nnpm run build && npm test\n```\n\n"
        "```yaml\nresult: [1.1]\n```\n"
    ), wanted


def _list(items: list[str], block: bool) -> str:
    if block and items:
        return "".join(f"\n        - {item}" for item in items)
    return f" [{', '.join(items)}]"


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lookalikes_of_real_tracks_load(seed: int, line_end: str) -> None:
    text, wanted = lookalike(seed)
    plan = loads(text.replace("\n", line_end))
    assert {str(task.id): list(task.depends_on) for task in plan.tasks} == wanted
    for task in plan.tasks:
        assert f"Task {task.id}: " in task.prose.splitlines()[0]
        assert task.prose.count("**Acceptance**") == 1
    assert parse(dump(plan)) == plan
