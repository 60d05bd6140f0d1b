"""docs/protocol.md names every type of record with its fields, and every file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus import layout
from bus.schema import Result
from conductor.core.codec import EVENTS

PAGE = (Path(layout.__file__).parents[1] / "docs" / "protocol.md").read_text()
AS_HANDED_IN = {"RESULT", "REPORT"}


@pytest.mark.parametrize("type", sorted(EVENTS))
def test_every_type_is_described_with_its_fields(type: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| {type} |")]
    assert rows
    if type not in AS_HANDED_IN:
        fields = set(EVENTS[type].__dataclass_fields__) - {"TYPE", "task", "attempt", "plan"}
        assert all(f"`{name}`" in rows[-1] for name in fields)


def test_every_field_of_a_result_is_described() -> None:
    assert all(f"`{name}`" in PAGE for name in Result.model_fields)


@pytest.mark.parametrize("folder", layout.FOLDERS)
def test_every_folder_is_described(folder: str) -> None:
    assert f"`{folder}/" in PAGE
