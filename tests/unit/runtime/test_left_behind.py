"""What an earlier run could not end keeps its task from being started beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from bus.contract import Host
from bus.memory import MemoryBus
from bus.wire import AttemptId, ProcRecord, TaskId
from conductor.core.state import State
from conductor.errors import ConductorError
from conductor.runtime import left_behind
from conductor.runtime.left_behind import refuse_left_behind
from conductor.testing import FakeLauncher

TASK, ATTEMPT = TaskId("a"), AttemptId("a~1-0a1b2c3d")


@dataclass
class Scene:
    """A task whose only attempt was given up as unkillable."""

    host: Host
    launcher: FakeLauncher
    state: State


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(left_behind, "PAUSE", 0.0)
    bus = MemoryBus()
    host = bus.host()
    os.close(host.create_attempt(ATTEMPT))
    bus.hand(ATTEMPT).claim(ProcRecord("boot", 7, 8, 1))
    bus.hand(ATTEMPT).try_lock([("page", False)])
    return Scene(host, FakeLauncher(), State(unkillable={ATTEMPT: TASK}))


def test_requirement_18_no_attempt_begins_beside_what_could_not_be_ended(scene: Scene) -> None:
    scene.launcher.empty = False
    with pytest.raises(ConductorError, match="task a that could not be ended still lives") as refused:
        refuse_left_behind(scene.host, scene.launcher, scene.state)
    assert refused.value.code == "held_by_other"
    assert [grant.keys for grant in scene.host.grants()] == [("page",)], "it keeps what it holds"


def test_what_is_gone_meanwhile_lets_go_of_what_it_held(scene: Scene) -> None:
    refuse_left_behind(scene.host, scene.launcher, scene.state)
    assert scene.launcher.killed == [ATTEMPT]
    assert not scene.host.grants()


def test_nothing_is_looked_for_where_everything_was_ended(scene: Scene) -> None:
    scene.state.unkillable.clear()
    refuse_left_behind(scene.host, scene.launcher, scene.state)
    assert scene.launcher.killed == []
