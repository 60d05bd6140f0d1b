"""A machine that lacks what a worker needs: launches wait with their attempt, one tries, and no task pays for it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from bus.wire import AttemptId, WorkerSpec
from conductor.core.task import Done
from conductor.runtime.shortage import FIRST, LONGEST, STEADY, Shortage
from conductor.testing import ending
from tests.unit.runtime.stage import Stage, Workers, go_on

NO_PROCESSES = "fork: Resource temporarily unavailable"
PROBE = AttemptId("1~1-0a1b2c3d")
ONCE = ["WORKER_DISPATCHED", "RESULT", "ATTEMPT_ENDED", "TASK_COMPLETE"]


def no_worker(spec: WorkerSpec, workers: Workers) -> None:
    """The order is taken, and the fork fails."""
    workers.lives[spec.attempt] = "ended"
    workers.failures[spec.attempt] = NO_PROCESSES
    workers.short_of.add(spec.attempt)


def no_command(spec: WorkerSpec, workers: Workers) -> None:
    """There is a worker, and it cannot start the command."""
    why = "shortage: /bin/work: Resource temporarily unavailable"
    workers.end(spec.attempt, replace(ending("ok"), started=False, command=None, why=why))


def mended(one: Stage, after: int) -> None:
    """Let the machine have what it lacks after so many rounds of the loop."""

    def mend() -> None:
        one.workers.behaviour.clear()
        one.workers.failures.clear()
        one.workers.short_of.clear()
        one.workers.short = one.bus.short = None

    one.watcher.asleep = [lambda: None] * after + [mend]


def said(one: Stage) -> list[str]:
    return [text.split(":")[0] for text in one.watcher.troubles]


@pytest.mark.parametrize("of", ["bus", "launcher"])
def test_requirement_32_a_launch_waits_for_what_the_machine_lacks_and_keeps_its_attempt(
    stage: Callable[..., Stage], of: str
) -> None:
    one = stage("1", "2", retries=0, restart_intensity=0)
    (one.bus if of == "bus" else one.workers).short = "Too many open files"
    mended(one, 100)
    one.run()
    assert said(one) == ["paused", "resumed"]
    assert "no worker can be started (Too many open files)" in one.watcher.troubles[0]
    assert one.types("1") == one.types("2") == ONCE
    assert one.bus.paused is None


def test_requirement_32_an_attempt_without_a_worker_is_launched_again_and_keeps_its_name(
    stage: Callable[..., Stage],
) -> None:
    one = stage("1", "2", "3 < 1 2", retries=0, restart_intensity=0)
    one.workers.behaviour |= {"1": no_worker, "2": no_worker}
    mended(one, 100)
    one.run()
    assert said(one) == ["paused", "resumed"]
    assert one.types("1") == one.types("2") == one.types("3") == ONCE
    assert [attempt.partition("-")[0] for attempt in one.workers.orders] == ["1~1", "2~1", "3~1"]


def test_requirement_32_a_command_that_found_no_room_costs_no_attempt_however_often(
    stage: Callable[..., Stage],
) -> None:
    one = stage("1", retries=0, restart_intensity=0)
    one.workers.behaviour["1"] = no_command
    mended(one, 300)
    one.run()
    assert said(one) == ["paused", "resumed"]
    assert isinstance(one.status("1"), Done)
    assert "RETRY_SCHEDULED" not in one.types()
    tries = one.types("1").count("WORKER_DISPATCHED")
    assert 6 < tries < 6 + 300 / LONGEST, "further and further apart"
    [*short, last] = [record.payload for record in one.bus.reader().records() if record.type == "ATTEMPT_ENDED"]
    assert {(one["error_class"], one["counted"], one["started"]) for one in short} == {("shortage", False, False)}
    assert short[0]["message"] == "never started: /bin/work: Resource temporarily unavailable"
    assert last["error_class"] is None


def test_while_something_is_lacking_one_worker_tells_and_the_others_wait(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2", "3", retries=0)
    one.workers.short = NO_PROCESSES
    alive: list[int] = []

    def probe() -> None:
        alive.append(sum(life == "running" for life in one.workers.lives.values()))

    def runs() -> None:
        [attempt] = one.workers.orders
        one.bus.hand(attempt).started(1, 1, 1)

    one.workers.behaviour |= {"1": go_on, "2": go_on, "3": go_on}
    one.watcher.asleep = [lambda: None, lambda: setattr(one.workers, "short", None), *[probe] * 10, runs, probe, probe]
    one.watcher.asleep += [lambda: [one.workers.end(a, ending("ok")) for a in list(one.workers.orders)] and None]
    one.run()
    assert set(alive[1:-2]) == {1}
    assert alive[-1] == 2, "one more at a time"
    assert said(one) == ["paused", "resumed"]


def test_a_launch_that_waits_for_the_machine_is_given_up_at_a_stop(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2")
    one.workers.behaviour |= {"1": no_worker, "2": no_worker}
    one.watcher.asleep = [lambda: None] * 3 + [one.press(signal.SIGTERM)]
    one.run()
    assert said(one) == ["paused"]
    assert one.types("1") == ["WORKER_DISPATCHED", "STOP", "LAUNCH_FAILED", "ATTEMPT_ENDED"]
    assert one.types()[-1] == "RUN_ENDED"


def test_an_attempt_that_is_to_be_stopped_is_not_launched_again(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    ordered: list[AttemptId] = []

    def later(spec: WorkerSpec, workers: Workers) -> None:
        ordered.append(spec.attempt)
        one.watcher.asleep = [one.press(signal.SIGTERM), lambda: None, lambda: no_worker(spec, workers)]

    one.workers.behaviour["1"] = later
    one.run()
    assert len(ordered) == 1
    assert one.types("1")[-2:] == ["LAUNCH_FAILED", "ATTEMPT_ENDED"]
    assert said(one) == []


def test_tries_are_further_and_further_apart() -> None:
    texts: list[str] = []
    shortage = Shortage(texts.append)
    assert shortage.may_try(0.0, 0)
    now, pauses = 0.0, []
    for _ in range(8):
        shortage.met("fork", now, 0)
        shortage.met("fork", now, 0)  # of another worker that was started with it
        assert not shortage.may_try(now, 0)
        again = shortage.next_try()
        assert again is not None
        pauses.append(again - now)
        now = again
        assert shortage.may_try(now, 0)
        shortage.tried(PROBE, 0)
        assert shortage.next_try() is None
        assert not shortage.may_try(now + LONGEST, 1)
    assert pauses == [FIRST, 2.0, 4.0, 8.0, 16.0, LONGEST, LONGEST, LONGEST]
    shortage.found_room(1)
    assert shortage.may_try(now, 1)
    assert [text.split(":")[0] for text in texts] == ["paused", "resumed"]
    shortage.met("fork", now + 1.0, 1)
    assert shortage.next_try() == now + 1.0 + LONGEST, "not forgotten at the first command that runs"
    lasts = []
    for moment in (2.0, 1.0 + LONGEST):
        shortage.end(now + moment)
        lasts.append(shortage.lasts)
    assert lasts == [True, False], "not while a try failed a moment ago"
    shortage.met("fork", now, 0)
    assert shortage.next_try() == now + FIRST
    assert [text.split(":")[0] for text in texts] == ["paused", "resumed", "paused"]


def test_requirement_32_after_a_shortage_one_worker_more_at_a_time_is_started() -> None:
    """Room for four: the fifth finds none, and one more is tried only when a command has run for some time."""
    texts: list[str] = []
    shortage = Shortage(texts.append)
    shortage.met("fork", 0.0, 4)
    assert shortage.may_try(0.0, 3), "as many as found room together"
    assert not shortage.may_try(0.0, 4)
    now = FIRST
    for working in range(4, 7):
        assert shortage.may_try(now, working)
        shortage.tried(PROBE, working)
        shortage.runs(now, working + 1)
        assert not shortage.may_try(now, working + 1), "its command has just begun"
        shortage.runs(now + STEADY, working + 1)
        now += STEADY
    shortage.tried(PROBE, 7)
    shortage.proved_nothing(now)
    assert shortage.may_try(now, 6)
    assert not shortage.may_try(now, 7)
    assert shortage.may_try(now + FIRST, 7)
    assert [text.split(":")[0] for text in texts] == ["paused", "resumed"]


def test_requirement_32_a_run_at_the_limit_says_once_that_it_waits_and_keeps_to_what_finds_room(
    stage: Callable[..., Stage],
) -> None:
    """Six tasks, room for two workers at a time: no try costs an attempt, and people read two lines."""
    one = stage(*"123456", retries=0, restart_intensity=0)
    most = 0
    ends: dict[AttemptId, int] = {}

    def one_of_two(spec: WorkerSpec, workers: Workers) -> None:
        nonlocal most
        alive = sum(life == "running" for life in workers.lives.values())
        if alive > 2:
            no_command(spec, workers)
            return
        most = max(most, alive)
        one.bus.hand(spec.attempt).started(1, 1, 1)
        ends[spec.attempt] = one.watcher.sleeps + 4

    def later() -> None:
        for attempt in [attempt for attempt, at in ends.items() if at <= one.watcher.sleeps]:
            del ends[attempt]
            one.workers.end(attempt, ending("ok"))

    one.workers.behaviour |= dict.fromkeys("123456", one_of_two)
    one.watcher.asleep = [later] * 400
    one.run()
    assert all(isinstance(one.status(task), Done) for task in "123456")
    assert most == 2
    assert said(one) == ["paused", "resumed"]
    ended = [record.payload for record in one.bus.reader().records() if record.type == "ATTEMPT_ENDED"]
    assert len(ended) - 6 < 10, "the tries are few"
