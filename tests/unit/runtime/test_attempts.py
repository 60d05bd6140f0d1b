"""Open attempts: when a conductor may end them, and when it cannot tell yet. With a bus in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from bus.memory import MemoryBus
from bus.process import LACKING, WAITS_FOR_DISK, WAITS_TO_LOOK
from bus.wire import LOCKS, AttemptId, ExitRecord, ProcRecord, TaskId
from conductor.core.events import AttemptAdopted, Fact, ResultReceived, WorkerGone
from conductor.runtime.attempts import CLAIM_GRACE, LATE, LINGER, OUT_OF_SIGHT, UNKILLABLE_AFTER, Attempts
from conductor.runtime.launch.base import ITS_WORKER, Elsewhere, Trace
from conductor.testing import FakeLauncher

TASK, ATTEMPT = TaskId("a"), AttemptId("a~1-0a1b2c3d")
GRACE = 15.0
EXIT = ExitRecord(started=True, ended_by="self", command={"code": 0, "signal": None})


class Launcher(FakeLauncher):
    """Remembers what it was told of an attempt's processes; killing frees the lock of a worker within reach."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Trace] = []
        self.live = -1
        self.reachable = True
        self.has_met = False

    def kill_tree(self, attempt: AttemptId, trace: Trace) -> bool:
        self.traces.append(trace)
        if self.reachable:
            self.free()
        return super().kill_tree(attempt, trace)

    def met(self, attempt: AttemptId) -> bool:
        return self.has_met

    def free(self) -> None:
        """The worker is dead."""
        if self.live >= 0:
            os.close(self.live)
            self.live = -1


class Scene:
    """One attempt that is at work, its lock held, claimed as its worker says."""

    def __init__(self, *, claimed: bool = True, **claim: object) -> None:
        self.bus = MemoryBus()
        self.host = self.bus.host()
        self.launcher = Launcher()
        self.launcher.live = self.host.create_attempt(ATTEMPT)
        self.launcher.lives[ATTEMPT] = "running"
        self.hand = self.bus.hand(ATTEMPT)
        if claimed:
            self.hand.claim(ProcRecord("boot", 7, 8, 1, **claim))  # type: ignore[arg-type]
            self.hand.started(9, 10, 7)
        self.now = 1000.0
        self.said: list[str] = []
        self.attempts = Attempts(self.host, self.launcher, self.said.append)
        self.attempts.opened(TASK, ATTEMPT)
        self.attempts.suspects(self.now)

    def verdict(self) -> Fact | None:
        """What becomes of the attempt by the next look, which reads the inbox again."""
        assert self.attempts.settle(ATTEMPT) is None, "who is found gone in this look may have handed something in"
        assert self.attempts.unsettled
        self.pass_by(0.25)
        return self.attempts.settle(ATTEMPT)

    def pass_by(self, seconds: float, step: float = 5.0) -> list[AttemptId]:
        """Let time pass in steps no longer than the loop's sleep; return who is suspect in the end."""
        until = self.now + seconds
        suspects: list[AttemptId] = []
        while self.now < until:
            self.now = min(self.now + step, until)
            suspects = self.attempts.suspects(self.now)
        return suspects


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.launcher.free()


def test_a_stop_is_carried_out_from_here_after_its_grace(scene: Scene) -> None:
    scene.attempts.stopping(ATTEMPT, "stopped", GRACE)
    assert scene.attempts.next_deadline(scene.now) == scene.now + GRACE
    assert scene.pass_by(GRACE - 1) == []
    assert scene.pass_by(1) == [ATTEMPT]
    fact = scene.verdict()
    assert isinstance(fact, WorkerGone)
    assert fact.detail == "ended by the conductor (stopped): the worker did not do it in time"


def test_who_stops_again_and_again_wins_no_time(scene: Scene) -> None:
    scene.attempts.stopping(ATTEMPT, "stopped", GRACE)
    scene.pass_by(GRACE - 1)
    scene.attempts.stopping(ATTEMPT, "stopped", GRACE)
    assert scene.pass_by(1) == [ATTEMPT]


def test_requirement_21_a_gap_of_the_loop_counts_against_nobody(scene: Scene) -> None:
    """A machine that slept for a day, a conductor that was suspended: whoever it watches may have been as well."""
    scene.attempts.stopping(ATTEMPT, "stopped", GRACE)
    assert scene.pass_by(86400.0, step=86400.0) == []
    assert scene.attempts.next_deadline(scene.now) == scene.now + GRACE - LATE
    assert scene.pass_by(GRACE - LATE) == [ATTEMPT]


def test_requirement_32_a_pause_gives_workers_time_to_write(scene: Scene) -> None:
    scene.attempts.stopping(ATTEMPT, "stopped", GRACE)
    scene.attempts.postpone(60.0)
    assert scene.pass_by(GRACE + 59.0) == []
    assert scene.pass_by(1.0) == [ATTEMPT]


def test_requirement_32_a_worker_that_waits_for_the_disk_is_not_ended(scene: Scene) -> None:
    """Its command has ended, its tree is empty, and its result is all that there is of the work."""
    scene.launcher.waiting = {7: WAITS_FOR_DISK}
    scene.attempts.stopping(ATTEMPT, "stopped", GRACE)
    assert scene.pass_by(3600.0) == [ATTEMPT]
    assert scene.attempts.settle(ATTEMPT) is None
    assert scene.attempts.unsettled
    assert scene.attempts.settle(ATTEMPT) is None
    assert scene.said == ["a: its result cannot be written yet, as the disk is full; its worker tries again"]
    scene.hand.finish(EXIT)
    scene.launcher.free()
    assert isinstance(scene.verdict(), ResultReceived)
    assert scene.launcher.killed == []


def test_requirement_32_people_are_told_once_of_a_worker_that_waits(scene: Scene) -> None:
    scene.launcher.waiting = {7: WAITS_TO_LOOK}
    scene.pass_by(60.0)
    assert scene.said == [f"a: its worker waits, as {LACKING[WAITS_TO_LOOK]}; it goes on by itself"]


@pytest.mark.parametrize("waits", [False, True])
def test_requirement_32_a_worker_that_lingers_is_ended_unless_it_waits_for_the_disk(scene: Scene, waits: bool) -> None:
    scene.hand.finish(EXIT)
    scene.launcher.waiting = {7: WAITS_FOR_DISK} if waits else {}
    assert not scene.attempts.is_over(ATTEMPT, EXIT)
    scene.pass_by(LINGER)
    assert not scene.attempts.is_over(ATTEMPT, EXIT)
    assert scene.launcher.traces == ([] if waits else [ITS_WORKER]), "what it left on purpose is settled"


def test_what_cannot_be_read_now_is_not_gone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptors(attempt: AttemptId) -> ExitRecord | None:
        raise OSError(errno.EMFILE, "Too many open files")

    scene.launcher.lives[ATTEMPT] = "ended"
    scene.launcher.free()
    scene.pass_by(1)
    with monkeypatch.context() as patch:
        patch.setattr(scene.host, "read_exit", no_descriptors)
        assert scene.attempts.settle(ATTEMPT) is None
        assert scene.attempts.unsettled
        patch.setattr(scene.host, "read_proc", no_descriptors)
        assert not scene.attempts.is_over(ATTEMPT, ExitRecord(started=True, ended_by="self", tree_empty=False))
        assert scene.pass_by(CLAIM_GRACE) == [ATTEMPT]
        assert Attempts(scene.host, scene.launcher, scene.said.append).reconcile([(TASK, ATTEMPT)]) == []
    assert isinstance(scene.attempts.settle(ATTEMPT), WorkerGone)


def test_requirement_14_a_lock_that_is_held_is_never_lost(scene: Scene) -> None:
    """Also where everything that can be seen from here was ended: the worker may be in another container."""
    scene.launcher.reachable = False
    scene.launcher.lives[ATTEMPT] = "lost"
    scene.attempts.stopping(ATTEMPT, "stopped", GRACE)
    assert scene.pass_by(GRACE) == [ATTEMPT]
    assert scene.attempts.settle(ATTEMPT) is None
    assert scene.said == []
    scene.pass_by(UNKILLABLE_AFTER)
    assert scene.attempts.settle(ATTEMPT) is None
    assert scene.said == [
        f"a: what is left of it cannot be ended from here ({OUT_OF_SIGHT}); it keeps its slot until it is gone"
    ]
    assert scene.attempts.standing(ATTEMPT).left == OUT_OF_SIGHT
    assert scene.launcher.killed == [ATTEMPT] * 2
    scene.launcher.free()
    assert isinstance(scene.verdict(), WorkerGone)


@pytest.mark.parametrize("away", ["boot", "namespace", None])
def test_requirement_23_a_worker_from_elsewhere_is_no_loss_once_its_lock_is_free(
    scene: Scene, away: Elsewhere | None
) -> None:
    scene.launcher.away = away
    scene.launcher.lives[ATTEMPT] = "lost"
    scene.pass_by(1)
    assert scene.attempts.settle(ATTEMPT) is None
    assert scene.launcher.killed == []
    scene.launcher.free()
    fact = scene.verdict()
    assert isinstance(fact, WorkerGone)
    assert (fact.started, fact.reboot) == (True, away is not None)
    assert (
        scene.launcher.traces
        == {
            "boot": [],
            "namespace": [Trace()],
            None: [Trace({"pid": 9, "start_ticks": 10, "session": 7})],
        }[away]
    )


def test_requirement_23_whose_lock_is_held_is_adopted_wherever_it_is(scene: Scene) -> None:
    scene.launcher.away = "boot"
    scene.launcher.lives[ATTEMPT] = "lost"
    again = Attempts(scene.host, scene.launcher, scene.said.append)
    assert again.reconcile([(TASK, ATTEMPT)]) == [AttemptAdopted(TASK, ATTEMPT)]
    scene.launcher.free()
    assert Attempts(scene.host, scene.launcher, scene.said.append).reconcile([(TASK, ATTEMPT)]) == []


@pytest.mark.parametrize(("leftovers", "stopped", "keeps"), [("keep", False, True), ("keep", True, False),
                                                             ("kill", False, False)])  # fmt: skip
def test_what_a_task_may_leave_behind_is_spared_unless_it_was_stopped(
    leftovers: str, stopped: bool, keeps: bool
) -> None:
    scene = Scene(leftovers=leftovers, never_kill=("ssh-agent",))
    scene.launcher.lives[ATTEMPT] = "ended"
    scene.launcher.free()
    if stopped:
        scene.attempts.stopping(ATTEMPT, "stopped", GRACE)
    scene.pass_by(1)
    assert isinstance(scene.attempts.settle(ATTEMPT), WorkerGone)
    command = {"pid": 9, "start_ticks": 10, "session": 7}
    assert scene.launcher.traces == [Trace(command, frozenset({"ssh-agent"}), keeps)]


@pytest.mark.parametrize("claimed", [False, True])
def test_a_worker_that_never_claims_its_attempt_is_ended(claimed: bool) -> None:
    """It holds the lock and does nothing: suspended at its birth, or stuck in a file system that does not answer."""
    scene = Scene(claimed=claimed)
    assert scene.pass_by(CLAIM_GRACE - 1) == []
    assert scene.pass_by(1) == ([] if claimed else [ATTEMPT])
    if not claimed:
        fact = scene.verdict()
        assert isinstance(fact, WorkerGone)
        assert (fact.started, fact.detail) == (False, "ended by the conductor: the worker did not begin within 60 s")
    assert bool(scene.launcher.killed) == (not claimed)
    scene.launcher.free()


@pytest.mark.parametrize("seen", ["nothing", "a beat that waits for locks", "a beat", "a process", "a command"])
def test_requirement_16_a_worker_that_died_before_its_command_costs_no_retry(seen: str) -> None:
    scene = Scene(claimed=False)
    scene.hand.claim(ProcRecord("boot", 7, 8, 1))
    if seen == "a command":
        scene.hand.started(9, 10, 7)
    if seen.startswith("a beat"):
        scene.hand.beat({"phase": LOCKS if "locks" in seen else "command"})
    scene.launcher.has_met = seen == "a process"
    scene.launcher.lives[ATTEMPT] = "ended"
    scene.launcher.free()
    scene.pass_by(1)
    fact = scene.attempts.settle(ATTEMPT)
    assert isinstance(fact, WorkerGone)
    never = seen in ("nothing", "a beat that waits for locks")
    assert fact.started is not never
    assert ("before it started its command" in fact.detail) is never


def test_who_is_found_gone_after_the_inbox_was_read_is_judged_at_the_next_look(scene: Scene) -> None:
    """It may have handed in a note and its result since; a verdict now would close the attempt before they are read."""
    again = Attempts(scene.host, scene.launcher, scene.said.append)
    scene.launcher.lives[ATTEMPT] = "lost"
    again.reconcile([(TASK, ATTEMPT)])
    assert again.suspects(scene.now) == [ATTEMPT]
    scene.hand.finish(EXIT)
    scene.launcher.free()
    assert not again.is_over(ATTEMPT, EXIT)
    assert again.settle(ATTEMPT) is None
    assert scene.launcher.killed == [], "what a result may say is left on purpose"
    again.suspects(scene.now)
    assert isinstance(again.settle(ATTEMPT), ResultReceived)


def test_nothing_is_ended_before_the_result_was_looked_for_again(scene: Scene) -> None:
    scene.launcher.lives[ATTEMPT] = "lost"
    scene.pass_by(1)
    scene.launcher.free()
    assert scene.attempts.settle(ATTEMPT) is None
    assert scene.launcher.killed == []
    scene.pass_by(1)
    assert isinstance(scene.attempts.settle(ATTEMPT), WorkerGone)
    assert scene.launcher.killed == [ATTEMPT]


def test_who_was_gone_before_the_first_look_is_judged_in_it(scene: Scene) -> None:
    scene.hand.finish(EXIT)
    scene.launcher.free()
    scene.launcher.lives[ATTEMPT] = "lost"
    again = Attempts(scene.host, scene.launcher, scene.said.append)
    assert again.reconcile([(TASK, ATTEMPT)]) == []
    again.suspects(scene.now)
    assert again.is_over(ATTEMPT, EXIT)
