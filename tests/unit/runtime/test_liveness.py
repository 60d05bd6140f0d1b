"""Evidence of running attempts, gathered over a bus in memory: what becomes a fact, and when nothing does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bus.memory import MemoryBus
from bus.process import WAITS_TO_LOOK
from bus.wire import LOCKS, AttemptId, ExitRecord, ProcRecord, TaskId
from conductor.core.state import Run, State, Task
from conductor.core.task import Running, RunOptions, TaskSpec
from conductor.core.wait_events import AttemptLife
from conductor.core.waits import Life, Wait
from conductor.runtime.attempts import LATE, UNKILLABLE_AFTER, Attempts
from conductor.runtime.liveness import BACKSTOP, Liveness
from conductor.testing import FakeLauncher

TASK, ATTEMPT = TaskId("a"), AttemptId("a~1-0a1b2c3d")
GRACE, HEARTBEAT, STALE = 15.0, 2.0, 20.0


class Scene:
    """One running attempt whose worker has begun, as the conductor sees it."""

    def __init__(self, *, begun: bool = True, **spec: Any) -> None:
        self.bus = MemoryBus()
        self.host = self.bus.host()
        self.launcher = FakeLauncher()
        self.live = self.host.create_attempt(ATTEMPT)
        self.launcher.lives[ATTEMPT] = "running"
        self.hand = self.bus.hand(ATTEMPT)
        if begun:
            self.hand.claim(ProcRecord("boot", 7, 8, 1))
            self.hand.started(9, 10, 7)
        self.now = 1000.0
        self.said: list[str] = []
        self.state = State(run=Run("r", "sha", "/p", RunOptions(stale_after=STALE, timeout=100.0), 0.0))
        task = Task(TaskSpec(TASK, "A", 0, **spec), 0, Running(ATTEMPT, 1), ATTEMPT)
        self.state.tasks[TASK] = task
        self.task = task
        self.attempts = Attempts(self.host, self.launcher, self.said.append)
        self.liveness = Liveness(self.host, self.attempts, heartbeat=HEARTBEAT, stop_grace=GRACE)
        self.attempts.suspects(self.now)
        self.attempts.opened(TASK, ATTEMPT)

    @property
    def life(self) -> Life:
        """What the attempt was found to be."""
        assert self.task.life is not None
        return self.task.life

    def free(self) -> None:
        """The worker is gone, if it was not before."""
        if self.live >= 0:
            os.close(self.live)
            self.live = -1

    def beat(self, idle: float, **more: Any) -> None:
        """The worker says that its command did nothing for so long."""
        ages = {"output": {"bytes": 0, "age": idle}, "cpu": {"seconds": 1.0, "age": idle}}
        self.hand.beat({"phase": "command", **ages, "left": 50.0, **more})

    def look(self) -> list[AttemptLife]:
        """One pass of the loop; what it finds is applied, as the machine would."""
        self.attempts.suspects(self.now)
        facts = self.liveness.look(self.state)
        for fact in facts:
            self.task.life = Life(fact.life, fact.detail, fact.evidence, 0.0)
        return facts

    def pass_by(self, seconds: float, each: Callable[[], object] = lambda: None, step: float = 1.0) -> list[str]:
        """Let time pass; return which lives were found, in order."""
        found = []
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + step, until)
            each()
            found += [fact.life for fact in self.look()]
        return found


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.free()


def test_requirement_22_an_attempt_that_works_costs_no_record(scene: Scene) -> None:
    assert scene.pass_by(300.0, lambda: scene.beat(1.0)) == []
    assert scene.liveness.next_look(scene.now) == pytest.approx(scene.now + HEARTBEAT, abs=HEARTBEAT)


def test_requirement_22_an_attempt_without_any_sign_is_quiet_and_works_again_with_one(scene: Scene) -> None:
    began = scene.now
    assert scene.pass_by(STALE - 1, lambda: scene.beat(scene.now - began)) == []
    assert scene.pass_by(5.0, lambda: scene.beat(scene.now - began)) == ["quiet"]
    scene.liveness.heard([ATTEMPT, None])
    assert scene.pass_by(5.0, lambda: scene.beat(scene.now - began)) == ["working"]


def test_requirement_22_who_waits_for_something_named_is_not_quiet_also_right_after(scene: Scene) -> None:
    wait = Wait("w", TASK, ATTEMPT, "lock", ("f",), False, 1, "", 0.0)
    began = scene.now
    scene.state.waits["a.w"] = wait
    assert scene.pass_by(10 * STALE, lambda: scene.beat(scene.now - began)) == []
    scene.state.waits.clear()
    assert scene.pass_by(STALE - 2, lambda: scene.beat(scene.now - began)) == []
    assert scene.pass_by(4.0, lambda: scene.beat(scene.now - began)) == ["quiet"]


def test_a_task_may_say_that_it_is_never_stale() -> None:
    scene = Scene(stale_after=0.0)
    assert scene.pass_by(10 * STALE, lambda: scene.beat(10 * STALE)) == []
    scene.free()


def test_a_worker_without_beats_is_stuck_and_ended_only_beyond_its_limit_and_ladder(scene: Scene) -> None:
    scene.beat(0.0)  # 50 s of its limit are left
    assert scene.pass_by(20.0) == ["stuck"]
    assert "overdue" not in scene.life.evidence
    assert scene.pass_by(50.0 + GRACE + BACKSTOP - 21.0) == []
    assert scene.pass_by(6.0) == ["stuck"]
    assert scene.life.evidence["overdue"] is True
    assert scene.pass_by(600.0) == [], "it is said once"


def test_a_worker_that_never_beat_has_the_whole_limit() -> None:
    scene = Scene(verify=(("v",),))
    assert scene.pass_by(20.0) == ["stuck"]
    assert scene.pass_by(200.0 + GRACE + BACKSTOP - 21.0) == []
    assert scene.pass_by(6.0) == ["stuck"]
    scene.free()


@pytest.mark.parametrize("left", [None, "soon"])
def test_without_a_limit_nobody_is_overdue(scene: Scene, left: object) -> None:
    scene.beat(0.0, left=left)
    assert scene.pass_by(3600.0) == ["stuck"]


def test_requirement_21_no_limit_of_a_worker_is_over_while_it_asks_a_person(scene: Scene) -> None:
    scene.beat(0.0, stands=True)
    assert scene.pass_by(3600.0) == ["stuck"]


def test_requirement_21_a_look_that_came_late_holds_nothing_against_anybody(scene: Scene) -> None:
    scene.beat(0.0)
    assert scene.pass_by(8 * LATE, step=LATE + 1) == []


def test_requirement_32_a_worker_that_says_what_it_waits_for_is_not_stuck(scene: Scene) -> None:
    scene.launcher.waiting = {7: WAITS_TO_LOOK}
    assert scene.pass_by(100.0) == []


def test_a_command_that_does_not_begin_is_starting() -> None:
    scene = Scene(begun=False)
    assert scene.pass_by(7.0) == ["starting"]
    scene.hand.claim(ProcRecord("boot", 7, 8, 1))
    scene.hand.beat({"phase": LOCKS})
    assert scene.pass_by(3.0) == []
    scene.hand.started(9, 10, 7)
    assert scene.pass_by(3.0, lambda: scene.beat(0.0)) == ["working"]
    scene.free()


def test_a_worker_that_published_its_result_and_lives_on_is_named_finished(scene: Scene) -> None:
    done = ExitRecord(started=True, ended_by="self", command={"code": 0, "signal": None})
    scene.hand.finish(done)
    found = scene.pass_by(3.0, lambda: scene.attempts.is_over(ATTEMPT, done), step=0.25)
    assert found == ["finished"]


def test_requirement_18_what_withstands_kill_is_named_unkillable(scene: Scene) -> None:
    scene.launcher.lives[ATTEMPT] = "ended"
    scene.free()
    scene.launcher.empty = False
    found = scene.pass_by(UNKILLABLE_AFTER + 3.0, lambda: scene.attempts.settle(ATTEMPT))
    assert found == ["unkillable"]
    assert "cannot be ended" in scene.life.detail


def test_who_is_being_stopped_is_not_called_quiet_or_stuck(scene: Scene) -> None:
    scene.attempts.stopping(ATTEMPT, "stopped", 3600.0)
    assert scene.pass_by(600.0) == []


def test_what_is_over_or_not_the_newest_attempt_is_not_judged(scene: Scene) -> None:
    scene.now += 5.0
    scene.attempts.suspects(scene.now)
    assert scene.liveness.look(scene.state, {ATTEMPT}) == []
    scene.task.attempt = AttemptId("a~2-0a1b2c3d")
    assert scene.pass_by(600.0) == []
    scene.attempts.closed(ATTEMPT)
    assert scene.liveness.next_look(scene.now) is None
    assert scene.look() == []
