"""The edited plan of a round under way: what is taken in, what is refused with its reason (requirement 33)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.memory import MemoryBus
from conductor.core.supervision import PlanReloaded
from conductor.plan import frozen, load
from conductor.runtime.command import Places
from conductor.runtime.reloading import Reloading
from conductor.testing import Play


class Track:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write()
        self.play = Play().start(load(folder), max_workers=2)
        self.bus = MemoryBus()
        places = Places(str(folder), str(folder), "/bus", "/bin")
        self.reloading = Reloading(self.bus.host(), folder, places, {"HOME": str(folder)})

    def write(self, *more: dict[str, Any], b: dict[str, Any] | None = None, **keys: Any) -> None:
        """Write a plan: a runs, b waits for it, `more`."""
        nodes = [
            {"id": "a", "name": "a", "run": ["true"]},
            {"id": "b", "name": "b", "run": ["true"], "depends_on": ["a"], **(b or {})},
            *more,
        ]
        lines = ["```yaml", "dag:", f"  nodes: {json.dumps(nodes)}"]
        lines += [f"  {key}: {json.dumps(value)}" for key, value in keys.items()]
        (self.folder / "plan.md").write_text("\n".join([*lines, "```", ""]))

    def read(self) -> PlanReloaded | str:
        return self.reloading.read(self.play.machine.state)

    def refusal(self) -> str:
        found = self.read()
        assert isinstance(found, str)
        assert self.bus.plans == {}, "nothing is kept of what is refused"
        return found


@pytest.fixture
def track(tmp_path: Path) -> Track:
    return Track(tmp_path)


def test_an_edited_plan_is_kept_and_told_with_what_changed(track: Track) -> None:
    track.write({"id": "c", "name": "c", "run": ["true"]}, b={"depends_on": []})
    found = track.read()
    assert isinstance(found, PlanReloaded)
    assert found.changes == ("new in plan.md: c", "changed in plan.md: b")
    assert frozen.parse(track.bus.plans[f"{found.plan_sha}.json"]).tasks == found.plan.tasks
    track.play.fact(found)
    assert list(track.play.machine.state.tasks) == ["a", "b", "c"]
    assert track.play.machine.state.running == {"a": None, "b": None}, "b may start beside a now"
    assert (track.read(), track.play.machine.state.run and track.play.machine.state.run.edited) == (
        "already so: plan.md says what the run goes by",
        (),
    )


def test_what_only_a_new_round_goes_by_is_said(track: Track) -> None:
    track.write({"id": "c", "name": "c", "run": ["true"]}, limits={"max_workers": 9}, defaults={"retries": 7})
    found = track.read()
    assert isinstance(found, PlanReloaded)
    assert "only the next round goes by the limits of plan.md" in found.changes
    assert "only the next round goes by the defaults of plan.md" in found.changes


def test_a_plan_that_is_the_same_is_no_news(track: Track) -> None:
    assert track.refusal() == "already so: plan.md says what the run goes by"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"id": "c", "name": "c", "run": ["true"], "depends_on": ["nowhere"]}, "plan.md: "),
        ({"id": "c", "name": "c"}, "has no command"),
        ({"id": "c", "name": "c", "agent": "claude"}, "agent"),
    ],
)
def test_a_plan_with_an_error_is_refused_as_at_a_start(track: Track, more: dict[str, Any], text: str) -> None:
    track.write(more)
    refused = track.refusal()
    assert refused.startswith("the plan cannot be taken in: ")
    assert text in refused


def test_limits_hold_for_what_is_read_again(track: Track) -> None:
    track.write({"id": "c", "name": "c", "run": ["true"]}, limits={"max_tasks": 2})
    assert "2" in track.refusal()


def test_a_plan_without_a_task_that_runs_is_refused(track: Track) -> None:
    (track.folder / "plan.md").write_text('```yaml\ndag:\n  nodes: [{"id": "x", "name": "x", "run": ["true"]}]\n```\n')
    assert "leaves out what is running: a" in track.refusal()


def test_a_plan_that_is_gone_is_refused(track: Track) -> None:
    (track.folder / "plan.md").unlink()
    assert "the plan cannot be taken in" in track.refusal()
