"""The bus for a program inside a worker: waiting without sleeping, on a clock that the test moves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bus import layout
from bus.client import TELL_PERIOD, Client
from bus.errors import (
    AttemptRevoked,
    BusError,
    LockBusy,
    MutexHeld,
    NotInWorker,
    Shortage,
    TaskNotDone,
    WaitTimedOut,
)  # fmt: skip
from bus.memory import MemoryBus, MemoryHost
from bus.wire import AttemptId, ExitRecord, Stamp, TaskId

NOW = Stamp(1.0, 2.0, "boot")
ONE = layout.attempt_id(TaskId("1"), 1, "0a1b2c3d")
TWO = layout.attempt_id(TaskId("2"), 1, "1a1b2c3d")


class Time:
    """A clock that stands still but for sleeping; while somebody sleeps, something may happen."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], object]]] = []

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        self.due.append((self.now + seconds, action))

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        ready = [one for one in self.due if one[0] <= self.now]
        self.due = [one for one in self.due if one[0] > self.now]
        for _, action in ready:
            action()
        assert self.now < 10_000, "it waits for ever"


class Stage:
    """A bus in memory with two attempts, and what their clients said."""

    def __init__(self, project: Path) -> None:
        self.bus = MemoryBus()
        self.host: MemoryHost = self.bus.host()
        self.time = Time()
        self.said: list[str] = []
        self.project = project
        for attempt in (ONE, TWO):
            os.close(self.host.create_attempt(attempt))
        self.one, self.two = self.client(ONE, "1"), self.client(TWO, "2")

    def client(self, attempt: AttemptId, task: str) -> Client:
        return Client(
            self.bus.hand(attempt), self.bus.reader, task=task, project=str(self.project), path="/bus",
            say=self.said.append, sleep=self.time.sleep, clock=lambda: self.time.now,
        )  # fmt: skip

    def messages(self) -> list[tuple[AttemptId, str, Any]]:
        """Take what was handed in, in any order."""
        scan = self.host.scan()
        self.host.discard(scan.messages)
        return [(item.message.attempt, item.message.type, item.message.payload) for item in scan.messages]

    def tell(self, type: str, payload: dict[str, Any], task: str | None = None) -> None:
        self.host.stage(type, payload, NOW, task=None if task is None else TaskId(task))
        self.host.commit()

    def start(self, *tasks: str) -> None:
        plan = {"tasks": [{"id": task} for task in tasks], "groups": [{"id": "g", "tasks": list(tasks)}]}
        self.tell("RUN_STARTED", {"plan_sha": self.host.freeze_plan(json.dumps(plan).encode())})


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_lock_is_held_until_the_block_ends(stage: Stage) -> None:
    with stage.one.lock("./a", "b/../c") as held:
        assert [grant.keys for grant in held.grants] == [("a", "c")]
        with pytest.raises(LockBusy, match=ONE):
            stage.two.lock("a", wait=False)
    assert stage.host.grants() == ()
    locked = {"filepath": "a", "filepaths": ["a", "c"]}
    assert sorted(stage.messages(), key=str) == [
        (ONE, "FILE_LOCK", {**locked, "lock_type": "exclusive", "expires_at": None, "grant": held.grants[0].id}),
        (ONE, "FILE_UNLOCK", locked),
    ]


def test_what_was_held_before_the_block_is_held_behind_it(stage: Stage) -> None:
    outer = stage.one.lock("a")
    with stage.one.lock("a") as inner:
        assert inner.grants == outer.grants
    assert stage.host.grants() == outer.grants
    with stage.client(ONE, "1").lock("a"):  # another program of the attempt
        pass
    assert stage.host.grants() == outer.grants
    for _ in range(2):
        outer.release()
        assert stage.host.grants() == ()


def test_unlock_names_what_it_released(stage: Stage) -> None:
    stage.one.lock("a", "b", "c")
    assert stage.one.unlock("./b", "x") == ("b",)
    assert stage.one.unlock() == ("a", "c")
    assert stage.one.unlock() == ()
    assert [type for _, type, _ in stage.messages()].count("FILE_UNLOCK") == 2


def test_who_waits_says_so_and_goes_on_when_it_is_released(stage: Stage) -> None:
    held = stage.one.lock("a")
    stage.time.after(3, held.release)
    waiting: list[Any] = []
    stage.time.after(1, lambda: waiting.extend(stage.host.waits()))
    with stage.two.lock("a", "b"):
        assert [grant.attempt for grant in stage.host.grants()] == [TWO]
        assert stage.host.waits() == ()
    (wait,) = waiting
    assert (wait.attempt, wait.kind, wait.what) == (TWO, "lock", ("a", "b"))
    assert (TWO, "BLOCKED", {"task_id": "2", "waiting_for": [ONE], "resource": ["a", "b"]}) in stage.messages()


def test_a_wait_for_a_lock_times_out_and_leaves_nothing(stage: Stage) -> None:
    stage.one.lock("a")
    with pytest.raises(WaitTimedOut, match=f"after 5 s: a is held, or was asked for before, by {ONE}"):
        stage.two.lock("a", timeout=5)
    assert stage.time.now == pytest.approx(105)
    assert stage.host.waits() == ()


def test_a_stopped_attempt_waits_no_longer(stage: Stage) -> None:
    stage.one.lock("a")
    stage.time.after(2, lambda: stage.host.revoke(TWO, "cancelled"))
    with pytest.raises(AttemptRevoked, match="cancelled"):
        stage.two.lock("a")
    assert stage.host.waits() == ()


def test_who_waits_long_says_for_what_each_minute_and_that_no_conductor_runs(stage: Stage) -> None:
    held = stage.one.lock("a")
    stage.time.after(1.5 * TELL_PERIOD, stage.bus.crash)
    stage.time.after(2.5 * TELL_PERIOD, held.release)
    stage.two.lock("a")
    first, second = stage.said
    assert first == f"still waiting: a is held, or was asked for before, by {ONE}"
    assert second.startswith(f"{first}; no conductor runs")


def test_who_stands_still_with_the_mutex_ends_no_wait(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    held = stage.one.lock("a")
    hand = stage.two._hand
    real, tries = hand.try_lock, [0]

    def sometimes(wanted: Any, **how: Any) -> Any:
        tries[0] += 1
        if tries[0] == 1 or 3 < tries[0] < 10:
            raise MutexHeld("somebody stands still")
        if tries[0] == 10:
            raise Shortage("too few descriptors")
        return real(wanted, **how)

    monkeypatch.setattr(hand, "try_lock", sometimes)
    stage.time.after(12, held.release)
    with stage.two.lock("a"):
        assert stage.said == ["somebody stands still"]
    for how, error in (({"wait": False}, LockBusy), ({"timeout": 2}, WaitTimedOut)):
        tries[0] = 3
        with pytest.raises(error, match="a: somebody stands still"):
            stage.two.lock("a", **how)
    tries[0] = 3
    stage.host.revoke(TWO, "cancelled")
    with pytest.raises(AttemptRevoked, match="cancelled"):
        stage.two.lock("a")


def test_unlock_is_tried_again_where_somebody_stands_still_with_the_mutex_until_the_attempt_is_over(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = stage.one._hand
    real, tries = hand.unlock, [3]

    def later(keys: Any = None, **how: Any) -> Any:
        tries[0] -= 1
        if tries[0] > 0:
            raise MutexHeld("somebody stands still")
        return real(keys, **how)

    stage.one.lock("a", "b")
    monkeypatch.setattr(hand, "unlock", later)
    assert stage.one.unlock("a") == ("a",)
    tries[0] = 1000
    with pytest.raises(MutexHeld):
        stage.one.unlock("b")
    stage.host.revoke(ONE, "cancelled")
    with pytest.raises(AttemptRevoked):
        stage.one.unlock("b")


def test_what_is_left_of_a_lock_ends_with_its_block(stage: Stage) -> None:
    with stage.one.lock("a", "b", "c"):
        assert stage.client(ONE, "1").unlock("a") == ("a",)
        with stage.one.lock("b"):
            pass
        assert [grant.keys for grant in stage.host.grants()] == [("b", "c")]
    assert stage.host.grants() == ()


def test_no_unlock_ends_what_lasts(stage: Stage) -> None:
    stage.one.lock_keys([("a", False), ("r", True)], lasting=True)
    held = stage.host.grants()
    with stage.one.lock("a"):
        pass
    stage.one.lock("a", "extra")
    assert sorted(stage.one.unlock()) == ["a", "extra"]
    assert stage.one.unlock("a") == ()
    assert stage.one.lasts("a")
    assert stage.one.lasts("r")
    assert not stage.one.lasts("extra")
    assert stage.host.grants() == held
    stage.host.close_attempt(ONE)
    assert stage.host.grants() == ()


def test_a_program_whose_attempt_has_its_result_gets_and_waits_for_nothing_more(stage: Stage) -> None:
    stage.start("1", "2")
    stage.two.lock("b")
    stage.one._hand.finish(ExitRecord(True, "self"))
    for call in (
        lambda: stage.one.lock("a"),
        lambda: stage.one.lock("b"),
        lambda: stage.one.wait("2"),
        lambda: stage.one.ask("Which?"),
    ):
        with pytest.raises(AttemptRevoked, match="is over"):
            call()
    assert stage.one.over() == "ended"
    assert stage.one.revoked() is None
    assert [grant.attempt for grant in stage.host.grants()] == [TWO]
    assert stage.host.waits() == ()


def test_a_task_that_is_done_is_not_waited_for(stage: Stage) -> None:
    stage.start("1", "2")
    stage.tell("TASK_COMPLETE", {"task_id": "1"}, "1")
    stage.two.wait("1")
    assert stage.messages() == []


@pytest.mark.parametrize(("awaited", "needs"), [("3", {"3": ["2"]}), ("4", {"3": ["1", "2"], "4": ["3"]})])
def test_a_wait_for_a_task_that_needs_this_one_ends_at_once_and_is_told(
    stage: Stage, awaited: str, needs: dict[str, list[str]]
) -> None:
    plan = {"tasks": [{"id": task, "depends_on": needs.get(task, [])} for task in "1234"]}
    stage.tell("RUN_STARTED", {"plan_sha": stage.host.freeze_plan(json.dumps(plan).encode())})
    with pytest.raises(TaskNotDone, match=f"{awaited} cannot be done while this one waits for it: {awaited} needs 2"):
        stage.two.wait("1", awaited)
    told = {"text": f"`bus wait {awaited}` can never end well: {awaited} needs 2"}
    assert stage.messages() == [(TWO, "NOTE", told)]
    assert stage.host.waits() == ()
    stage.tell("TASK_COMPLETE", {"task_id": awaited}, awaited)  # in a round before
    stage.two.wait(awaited)


def test_a_wait_for_tasks_ends_when_all_are_done(stage: Stage) -> None:
    stage.start("1", "2", "3")
    stage.tell("TASK_FAILED", {"task_id": "1", "error": "x"}, "1")
    stage.start("1", "2", "3")  # the next round
    stage.time.after(1, lambda: stage.tell("TASK_COMPLETE", {"task_id": "3"}, "3"))
    seen: list[Any] = []
    stage.time.after(2, lambda: seen.extend(stage.host.waits()))
    stage.time.after(3, lambda: stage.tell("TASK_COMPLETE", {"task_id": "1"}, "1"))
    stage.two.wait("1", "3")
    assert [(wait.kind, wait.what) for wait in seen] == [("task", ("1", "3"))]
    assert stage.host.waits() == ()
    assert stage.messages() == [(TWO, "BLOCKED", {"task_id": "2", "waiting_for": ["1", "3"], "resource": ["1", "3"]})]


@pytest.mark.parametrize(
    ("type", "payload", "word"),
    [
        ("TASK_FAILED", {"error": "exit 3"}, "failed: exit 3"),
        ("TASK_BLOCKED", {"reason": "task 0 failed"}, "blocked: task 0 failed"),
        ("TASK_SKIPPED", {"reason": "fail_fast"}, "skipped: fail_fast"),
        ("TASK_CANCELLED", {}, "cancelled"),
    ],
)
def test_requirement_12_a_wait_ends_at_once_with_the_news_that_the_task_will_not_be_done(
    stage: Stage, type: str, payload: dict[str, Any], word: str
) -> None:
    stage.start("1", "2")
    stage.time.after(1, lambda: stage.tell(type, payload, "1"))
    with pytest.raises(TaskNotDone) as caught:
        stage.two.wait("1")
    assert caught.value.message == f"task 1 is {word}"
    assert stage.host.waits() == ()


def test_a_task_that_was_set_back_is_waited_for(stage: Stage) -> None:
    stage.start("1", "2")
    for _ in range(2):
        stage.tell("TASK_FAILED", {"error": "x"}, "1")
        stage.tell("CONTROL", {"verb": "retry", "who": "me", "target": "1", "tasks": ["1"]})
    stage.tell("TASK_COMPLETE", {}, "1")
    stage.tell("CONTROL", {"verb": "reset", "who": "me", "target": None})
    stage.tell("CONTROL", {"verb": "retry", "who": "me", "target": "1", "tasks": [], "refused": "already"})
    with pytest.raises(WaitTimedOut, match="not done yet: 1"):
        stage.two.wait("1", timeout=5)


def test_a_task_that_the_plan_does_not_have_is_not_waited_for(stage: Stage) -> None:
    stage.start("1", "2")
    with pytest.raises(BusError, match="no task '3'") as caught:
        stage.two.wait("1", "3")
    assert caught.value.code == "unknown_task"
    with pytest.raises(BusError, match="no task 'g'") as caught:
        stage.two.wait("g")
    assert caught.value.hint == "it is a group; wait for its tasks: 1, 2"
    for tasks in ((), ("2",)):
        with pytest.raises(ValueError, match="wait"):
            stage.two.wait(*tasks)


def test_a_question_waits_for_its_answer(stage: Stage) -> None:
    def reply() -> None:
        (wait,) = stage.host.waits()
        assert (wait.kind, wait.text) == ("question", "Which one?")
        stage.host.deliver(TWO, layout.answer_name(wait.id), b"the blue one\n")

    stage.time.after(500, reply)
    assert stage.two.ask("Which one?") == "the blue one\n"
    assert stage.host.waits() == ()
    ((attempt, type, payload),) = stage.messages()
    assert (attempt, type, payload["text"]) == (TWO, "QUESTION", "Which one?")


def test_who_was_ended_while_asking_gets_the_answer_by_asking_the_same_again(stage: Stage) -> None:
    with pytest.raises(WaitTimedOut, match="no answer yet"):
        stage.two.ask("Which one?", timeout=5)
    ((_, _, payload),) = stage.messages()
    stage.host.deliver(TWO, layout.answer_name(payload["id"]), b"blue")
    assert stage.client(TWO, "2").ask("Which one?", timeout=5) == "blue"
    assert stage.messages() == []
    with pytest.raises(WaitTimedOut):
        stage.two.ask("Which one?", timeout=5)


def test_two_programs_that_ask_the_same_ask_twice(stage: Stage) -> None:
    other = stage.bus.hand(TWO)

    def again() -> None:
        with pytest.raises(WaitTimedOut):
            Client(
                other, stage.bus.reader, task="2", project="/", sleep=stage.time.sleep, clock=lambda: stage.time.now
            ).ask("Which one?", timeout=1)

    stage.time.after(1, again)
    with pytest.raises(WaitTimedOut):
        stage.two.ask("Which one?", timeout=5)
    assert len({payload["id"] for _, _, payload in stage.messages()}) == 2


@pytest.mark.parametrize("question", ["", " \n", "x" * 100_000])
def test_a_question_has_words(stage: Stage, question: str) -> None:
    with pytest.raises(ValueError, match="question"):
        stage.two.ask(question)


def test_reports_and_texts(stage: Stage) -> None:
    stage.one.progress(40, "half way")
    stage.one.complete(commit="abc", files=["a"])
    stage.one.fail("limit", error_class="quota", retry_after=90)
    stage.one.usage(cost_usd=0.5, input_tokens=7)
    stage.one.post("MINE", {"a": 1})
    stage.host.deliver(ONE, layout.steer_name(1), b"faster")
    assert stage.one.texts() == (("00000001-steer.md", "faster"),)
    assert sorted(((type, payload) for _, type, payload in stage.messages()), key=str) == [
        ("MINE", {"a": 1}),
        ("PROGRESS", {"pct": 40, "text": "half way"}),
        ("REPORT", {"verb": "complete", "commit": "abc", "files": ["a"]}),
        ("REPORT", {"verb": "fail", "message": "limit", "class": "quota", "retry_after": 90}),
        ("USAGE", {"cost_usd": 0.5, "input_tokens": 7}),
    ]
    assert stage.bus.reader().read_worker_status(ONE)["progress_pct"] == 40  # type: ignore[index]
    assert stage.one.revoked() is None
    with pytest.raises(ValueError, match="cannot be handed in"):
        stage.one.post("MINE", {"a": float("nan")})
    for refused in (
        lambda: stage.one.progress(101),
        lambda: stage.one.fail("x", error_class="mine"),
        lambda: stage.one.fail("x", error_class="quota", retry_after=-1),
        lambda: stage.one.usage(cost_usd=-0.5),
    ):
        with pytest.raises(ValueError, match="no"):
            refused()
    assert stage.messages() == []


@pytest.mark.parametrize(
    "environ", [{}, {"CONDUCTOR_BUS_DIR": "/x"}, {"CONDUCTOR_BUS_DIR": "/x", "CONDUCTOR_ATTEMPT": "../x"}]
)
def test_outside_of_a_worker_there_is_no_client(environ: dict[str, str]) -> None:
    with pytest.raises(NotInWorker, match="CONDUCTOR_ATTEMPT"):
        Client.from_environment(environ)


def test_a_system_that_refuses_is_an_error_of_the_bus(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stage.one._hand, "try_lock", full)
    with pytest.raises(BusError, match="it cannot be locked: No space left") as caught:
        stage.one.lock("a")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("CONTROL", {"verb": "drain", "who": "signal:INT"}),
        ("CONTROL", {"verb": "stop", "who": "operator:me"}),
        ("RUN_GAVE_UP", {"reason": "fail_fast"}),
    ],
)
def test_a_wait_ends_at_once_where_the_run_does_not_start_the_task_any_more(
    stage: Stage, type: str, payload: dict[str, Any]
) -> None:
    stage.start("1", "2", "3")
    stage.tell("WORKER_DISPATCHED", {}, "3")
    stage.time.after(1, lambda: stage.tell(type, payload))
    with pytest.raises(TaskNotDone) as caught:
        stage.two.wait("1", "3")
    assert caught.value.message == "task 1 will not be started: the run is ending"
    assert stage.host.waits() == ()
    stage.time.after(1, lambda: stage.tell("RETRY_SCHEDULED", {"number": 2}, "3"))
    with pytest.raises(TaskNotDone, match="task 3 will not be started"):  # it ran, and is not tried again
        stage.two.wait("3")
    stage.tell("RUN_RESUMED", {})
    with pytest.raises(WaitTimedOut):  # another conductor starts it
        stage.two.wait("1", timeout=5)


def test_what_runs_while_the_run_is_ending_is_waited_for(stage: Stage) -> None:
    stage.start("1", "2", "3")
    stage.tell("WORKER_DISPATCHED", {}, "1")
    stage.tell("MANUAL_OPENED", {}, "3")
    stage.tell("CONTROL", {"verb": "drain", "who": "signal:INT"})
    stage.time.after(1, lambda: stage.tell("TASK_COMPLETE", {}, "1"))
    stage.time.after(2, lambda: stage.tell("TASK_COMPLETE", {}, "3"))
    stage.two.wait("1", "3")


def test_who_hoped_again_behind_a_retry_waits_on(stage: Stage) -> None:
    stage.start("1", "2")
    stage.tell("RUN_GAVE_UP", {"reason": "fail_fast"})
    stage.tell("CONTROL", {"verb": "retry", "who": "me", "target": "3", "tasks": ["3"]})
    with pytest.raises(WaitTimedOut):
        stage.two.wait("1", timeout=5)
    stage.tell("RUN_GAVE_UP", {"reason": "fail_fast"})
    with pytest.raises(TaskNotDone, match="task 1 will not be started"):
        stage.two.wait("1")
