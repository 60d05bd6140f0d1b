"""What the quick check of a result lets through, the model lets through as well."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bus.results import is_plain_result
from bus.schema import Result, fits_result
from bus.wire import ExitRecord, to_json

ROOT = Path(__file__).parents[2]

RECORD = ExitRecord(
    started=True,
    ended_by="stop",
    stop_reason="cancelled",
    why="w",
    command={"code": None, "signal": 15},
    report={"verb": "complete", "files": ["a"]},
    final_record={"text": "x"},
    verify=({"argv": ["a", "b"], "code": None, "signal": None, "error": "e"},),
    outputs=({"path": "p", "exists": True},),
    usage={"input_tokens": 3},
    leftovers={"killed": [{"pid": 1, "name": "n"}], "kept": []},
    started_at="s",
    ended_at="e",
    seconds=1.5,
    log_bytes={"stdout": 1, "stderr": 0},
    timeout=30.0,
    signals=({"name": "TERM", "after": 0.0},),
    tail="t",
)
WHOLE: dict[str, Any] = json.loads(json.dumps(to_json(RECORD)))
"""Every field, as it is read back."""

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "self", "stop", "1"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*WHOLE, "code"]), inner, max_size=2),
    max_leaves=5,
)


def places(value: Any) -> list[tuple[Any, ...]]:
    """Return the path of every value in here."""
    if isinstance(value, dict):
        return [(), *((key, *rest) for key, part in value.items() for rest in places(part))]
    if isinstance(value, list):
        return [(), *((index, *rest) for index, part in enumerate(value) for rest in places(part))]
    return [()]


def put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with another value at a place."""
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(value[place[0]], place[1:], new)
    return copy


@given(st.lists(st.tuples(st.sampled_from(places(WHOLE)[1:]), values), max_size=2), st.sets(st.sampled_from([*WHOLE])))
def test_what_the_quick_check_lets_through_fits_the_model(
    changes: list[tuple[tuple[Any, ...], Any]], gone: set[str]
) -> None:
    body = WHOLE
    for place, new in changes:
        if place in places(body):
            body = put(body, place, new)
    body = {name: value for name, value in body.items() if name not in gone}
    assert fits_result(body) or not is_plain_result(body)


def test_every_field_of_a_result_is_checked() -> None:
    assert set(Result.model_fields) == {field.name for field in fields(ExitRecord)}
    assert is_plain_result(WHOLE)
    for name in WHOLE:
        assert not is_plain_result({**WHOLE, name: object()}), name


def test_a_run_whose_workers_say_nothing_odd_loads_no_pydantic(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(
        '```yaml\ndag:\n  project: .\n  nodes:\n    - {id: "1", name: one, run: ["true"]}\n```\n'
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from conductor.cli.main import run_command_line\n"
        "assert run_command_line(['run', sys.argv[2], '--quiet']) == 0\n"
        "print('pydantic' in sys.modules)"
    )
    argv = [sys.executable, "-E", "-P", "-c", code, str(ROOT), str(tmp_path)]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout.endswith("False\n")
