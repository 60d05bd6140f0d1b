"""The loop with a bus in memory, a clock that stands still, and workers that do what the test says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bus.hand import result_message
from bus.wire import AttemptId, ExitRecord, Message, ProcRecord, WorkerSpec, to_json
from conductor.core import orders, policy
from conductor.core.events import ControlReceived, PlanEdited
from conductor.core.task import Done, Failed, Outcome, Skipped
from conductor.runtime import driver as driver_module
from conductor.runtime import messages as messages_module
from conductor.runtime.hooks import HookPlaces, Hooks
from conductor.runtime.replay import Replayed, replay
from conductor.runtime.signals import LeaveAtOnce
from conductor.testing import ending, plan_of, task_of
from tests.unit.runtime.stage import Stage, Workers, fail, go_on, succeed, vanish, write_and_linger


def test_a_plan_runs_to_its_end(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1", "3 < 1 2")
    one.run()
    assert [type(one.status(task)) for task in "123"] == [Done, Done, Done]
    assert {name for name in one.bus.events if "COMPLETE" in name} == {f"TASK_COMPLETE_{n}.event" for n in "123"}
    assert one.types("3") == ["WORKER_DISPATCHED", "RESULT", "ATTEMPT_ENDED", "TASK_COMPLETE"]
    assert [record.type for record in one.watcher.records] == one.types()


def test_a_failure_is_tried_again_after_its_delay_and_then_final(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1")
    one.workers.behaviour["1"] = fail
    one.run()
    assert one.types("1").count("WORKER_DISPATCHED") == 2
    assert isinstance(one.status("1"), Failed)
    assert one.types("2") == ["TASK_BLOCKED"]


def test_requirement_14_a_claim_that_is_refused_is_recorded_once(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(orders._OF_TASK, "complete", lambda *_: "not now")  # type: ignore[attr-defined]
    one = stage(task_of("m", manual=True))
    claimed = lambda: one.bus.events.update({"TASK_COMPLETE_m.event": b"done"})  # noqa: E731
    one.watcher.asleep = [claimed, *[lambda: None] * 5, one.press(signal.SIGTERM)]
    one.run()
    assert one.types().count("CONTROL") == 2, "the claim, and the end"
    [record] = [record for record in one.bus.reader().records() if record.type == "QUARANTINED"]
    assert record.payload["reason"] == "a hand-made claim: not now"
    assert not one.bus.events.keys() & {"TASK_COMPLETE_m.event"}


def test_requirement_14_a_claim_that_leads_to_a_gate_is_used_up(stage: Callable[..., Stage]) -> None:
    """Otherwise it would speak for the work that somebody does anew, once this was rejected."""
    one = stage(task_of("m", manual=True, approve="after"), "z")
    one.workers.behaviour["z"] = go_on
    one.watcher.asleep = [
        lambda: one.bus.events.update({"TASK_COMPLETE_m.event": b"done"}),
        *[lambda: None] * 3,
        one.press(signal.SIGTERM),
    ]
    one.run()
    assert "APPROVAL_ASKED" in one.types("m")
    assert not one.bus.events.keys() & {"TASK_COMPLETE_m.event"}


def test_a_worker_that_vanishes_is_lost_only_after_its_tree_is_proved_empty(stage: Callable[..., Stage]) -> None:
    one = stage("1", retries=0)
    one.workers.behaviour["1"] = vanish
    one.workers.empty = False
    one.watcher.asleep = [lambda: None, lambda: setattr(one.workers, "empty", True)]
    one.run()
    assert one.types("1") == ["WORKER_DISPATCHED", "WORKER_GONE", "ATTEMPT_ENDED", *one.types("1")[3:]]
    assert len(one.workers.killed) >= 3


def test_a_result_without_a_message_is_read_from_its_file(stage: Callable[..., Stage]) -> None:
    def write_only(spec: WorkerSpec, workers: Workers) -> None:
        workers.end(spec.attempt, ending("ok"))
        workers.bus.inbox.clear()

    one = stage("1")
    one.workers.behaviour["1"] = write_only
    one.run()
    assert isinstance(one.status("1"), Done)


def test_a_result_whose_tree_is_not_empty_waits_until_it_is(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.workers.behaviour["1"] = lambda spec, workers: workers.end(spec.attempt, ending("ok", tree_empty=False))
    one.workers.empty = False

    def end_it() -> None:
        assert one.types("1") == ["WORKER_DISPATCHED"], "nothing counts before the tree is gone"
        one.workers.empty = True

    one.watcher.asleep = [lambda: None, end_it]
    one.run()
    assert isinstance(one.status("1"), Done)


def test_a_result_that_the_command_forged_counts_for_nothing(stage: Callable[..., Stage]) -> None:
    def forge(spec: WorkerSpec, workers: Workers) -> None:
        hand = workers.bus.hand(spec.attempt)
        hand.publish(result_message(spec.attempt, to_json(ending("ok"))))

    one = stage("1", retries=0)
    one.workers.behaviour["1"] = forge
    one.watcher.asleep = [
        lambda: None,
        lambda: None,
        lambda: one.workers.end(next(iter(one.workers.orders)), ending("fails")),
    ]
    one.run()
    assert isinstance(one.status("1"), Failed)
    assert any("without exit.json" in reason for reason in one.bus.quarantine.values())


def test_never_two_live_attempts_a_result_counts_once_its_worker_is_gone(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1")

    def look() -> None:
        assert one.types("1")[:1] == ["WORKER_DISPATCHED"]
        assert set(one.types("1")[1:]) <= {"ATTEMPT_LIFE"}

    one.workers.behaviour["1"] = write_and_linger
    one.watcher.asleep = [look] * 4
    one.run()
    assert isinstance(one.status("2"), Done)
    assert next(iter(one.workers.orders)) in one.workers.killed, "a worker that lingers is ended after a grace"


def test_an_attempt_whose_folder_was_deleted_counts_as_started(stage: Callable[..., Stage]) -> None:
    def delete(spec: WorkerSpec, workers: Workers) -> None:
        del workers.bus._attempts[spec.attempt]
        workers.lives[spec.attempt] = "ended"

    one = stage("1", retries=0)
    one.workers.behaviour["1"] = delete
    one.run()
    assert one.types("1").count("WORKER_DISPATCHED") == 1
    assert isinstance(one.status("1"), Failed)


def test_a_launch_that_fails_uses_no_retry(stage: Callable[..., Stage]) -> None:
    one = stage("1", retries=0)
    one.workers.failing = "no processes left"
    one.watcher.asleep = [lambda: setattr(one.workers, "failing", None)]
    one.run()
    assert "LAUNCH_FAILED" in one.types("1")
    assert isinstance(one.status("1"), Done)


def test_a_launcher_that_raises_is_a_failed_attempt_and_never_silence(stage: Callable[..., Stage]) -> None:
    def broken(spec: WorkerSpec, workers: Workers) -> None:
        workers.behaviour.clear()
        raise ZeroDivisionError("in the launcher")

    one = stage("1", "2", retries=0)
    one.workers.behaviour["1"] = broken
    one.run()
    [failed] = [record for record in one.bus.reader().records() if record.type == "LAUNCH_FAILED"]
    assert failed.payload["error"] == "ZeroDivisionError: in the launcher"
    assert [type(one.status(task)) for task in "12"] == [Done, Done]


def test_a_launch_that_is_accepted_and_fails_later_uses_no_retry_and_says_why(stage: Callable[..., Stage]) -> None:
    def cannot_fork(spec: WorkerSpec, workers: Workers) -> None:
        workers.behaviour.clear()
        workers.lives[spec.attempt] = "ended"
        workers.failures[spec.attempt] = "fork: out of memory"

    one = stage("1", retries=0)
    one.workers.behaviour["1"] = cannot_fork
    one.run()
    [failed] = [record for record in one.bus.reader().records() if record.type == "LAUNCH_FAILED"]
    assert failed.payload["error"] == "fork: out of memory"
    assert isinstance(one.status("1"), Done)


def test_requirement_32_nothing_is_launched_while_the_journal_cannot_be_written(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "BLOCKED_RETRY", 0.0)
    one = stage("1")
    one.bus.blocked = True

    def heard(text: str) -> None:
        assert not one.workers.orders
        one.bus.blocked = False
        one.watcher.troubles.append(text)

    one.watcher.trouble = heard  # type: ignore[method-assign]
    one.run()
    assert [text.split(":")[0] for text in one.watcher.troubles] == ["paused", "resumed"]
    assert isinstance(one.status("1"), Done)


def test_requirement_32_who_looks_on_is_told_that_the_journal_cannot_be_written(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files is seen by nobody but who meets it: the disk itself has room."""
    monkeypatch.setattr(driver_module, "BLOCKED_RETRY", 0.0)
    one = stage("1")
    one.bus.blocked = True
    told: list[str | None] = []

    def heard(text: str) -> None:
        told.append(one.bus.paused)
        one.bus.blocked = False

    one.watcher.trouble = heard  # type: ignore[method-assign]
    one.run()
    assert told == ["the journal cannot be written", None]


def message(spec: WorkerSpec, type: str, **payload: object) -> Message:
    return Message(os.urandom(16).hex(), type, spec.attempt, "2026-01-01T00:00:00.000Z", payload)


def test_requirement_32_launches_wait_for_a_full_disk_and_go_on_by_themselves(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2", retries=0)
    one.bus.full = True
    one.watcher.asleep = [lambda: None] * 20 + [lambda: setattr(one.bus, "full", False)]
    one.run()
    assert [text.split(":")[0] for text in one.watcher.troubles] == ["paused", "resumed"]
    assert next(iter(one.workers.orders)).startswith("1~1-")
    assert one.types("1") == ["WORKER_DISPATCHED", "RESULT", "ATTEMPT_ENDED", "TASK_COMPLETE"]


def test_a_launch_that_waits_for_the_disk_is_given_up_at_a_stop(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.bus.full = True
    one.watcher.asleep = [lambda: None, one.press(signal.SIGTERM)]
    one.run()
    assert not one.workers.orders
    assert [text.split(":")[0] for text in one.watcher.troubles] == ["paused", "the pause is over"]
    assert one.types()[-1] == "RUN_ENDED"


def test_term_leaves_at_once_while_nothing_can_be_recorded(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "BLOCKED_RETRY", 0.0)
    one = stage("1")
    one.bus.blocked = True
    one.watcher.trouble = lambda text: os.kill(os.getpid(), signal.SIGTERM)  # type: ignore[method-assign]
    with pytest.raises(LeaveAtOnce) as caught:
        one.run()
    assert caught.value.terminated


def test_a_launch_that_failed_is_told_once(stage: Callable[..., Stage]) -> None:
    one = stage("1", retries=0)
    one.workers.failing = "no processes left"
    one.watcher.asleep = [lambda: setattr(one.workers, "failing", None)]
    one.run()
    assert one.types("1").count("LAUNCH_FAILED") == 1
    assert "WORKER_GONE" not in one.types("1")


def test_messages_are_recorded_also_those_that_the_machine_does_not_know(stage: Callable[..., Stage]) -> None:
    def talk(spec: WorkerSpec, workers: Workers) -> None:
        hand = workers.bus.hand(spec.attempt)
        hand.publish(message(spec, "PROGRESS", pct=40, text="half way"))
        hand.publish(message(spec, "REVIEW_ASKED", who="anybody"))
        workers.end(spec.attempt, ending("ok"))

    one = stage("1")
    one.workers.behaviour["1"] = talk
    one.run()
    assert {"PROGRESS", "REVIEW_ASKED"} <= set(one.types("1"))


def test_a_message_of_an_attempt_that_is_over_is_refused_and_kept(stage: Callable[..., Stage]) -> None:
    def speak_late(spec: WorkerSpec, workers: Workers) -> None:
        workers.behaviour.clear()
        workers.end(spec.attempt, ending("fails"))
        late = message(spec, "PROGRESS", pct=1, text="late")
        one.watcher.asleep = [lambda: None, lambda: workers.bus.hand(spec.attempt).publish(late)]

    one = stage("1", retries=1, retry_delay=100.0)
    one.workers.behaviour["1"] = speak_late
    one.run()
    assert "PROGRESS" not in one.types()
    assert any("not open" in reason for reason in one.bus.quarantine.values())


def test_requirement_4_a_message_seen_again_after_a_crash_is_not_recorded_twice(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2")
    again: dict[str, Message] = {}

    def talk_and_go_on(spec: WorkerSpec, workers: Workers) -> None:
        sent = message(spec, "PROGRESS", pct=10, text="x")
        workers.bus.hand(spec.attempt).publish(sent)
        again.update(workers.bus.inbox)

    def crash() -> None:
        one.bus.inbox.update(again)
        one.bus.crash()
        raise RuntimeError("killed")

    one.workers.behaviour["1"] = talk_and_go_on
    one.watcher.asleep = [lambda: None, crash]
    with pytest.raises(RuntimeError, match="killed"):
        one.run()
    one.workers.lives = dict.fromkeys(one.workers.orders, "ended")
    one.workers.behaviour.clear()
    one.run()
    assert one.types().count("PROGRESS") == 1


def crash_while(one: Stage, task: str, behaviour: Callable[[WorkerSpec, Workers], None]) -> AttemptId:
    """Kill the conductor while `task` behaves so; return its attempt."""

    def crash() -> None:
        one.bus.crash()
        raise RuntimeError("killed")

    one.workers.behaviour[task] = behaviour
    one.watcher.asleep = [crash]
    with pytest.raises(RuntimeError, match="killed"):
        one.run()
    return list(one.workers.orders)[-1]


def test_requirement_14_a_living_attempt_is_adopted_and_not_started_again(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    attempt = crash_while(one, "1", go_on)
    one.watcher.asleep = [lambda: one.workers.end(attempt, ending("ok"))]
    one.run()
    assert one.types("1") == ["WORKER_DISPATCHED", "ATTEMPT_ADOPTED", "RESULT", "ATTEMPT_ENDED", "TASK_COMPLETE"]


def test_requirement_14_a_result_written_while_no_conductor_lived_is_accepted(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    attempt = crash_while(one, "1", go_on)
    one.workers.end(attempt, ending("ok"))
    one.run()
    assert one.types("1") == ["WORKER_DISPATCHED", "RESULT", "ATTEMPT_ENDED", "TASK_COMPLETE"]


def test_requirement_14_an_attempt_that_was_never_launched_costs_no_retry(stage: Callable[..., Stage]) -> None:
    one = stage("1", retries=0)
    attempt = crash_while(one, "1", go_on)
    del one.workers.lives[attempt]
    one.workers.release(attempt)
    one.workers.behaviour.clear()
    one.run()
    assert isinstance(one.status("1"), Done)
    assert one.types("1").count("WORKER_DISPATCHED") == 2


def test_requirement_14_a_dead_worker_of_an_earlier_conductor_is_lost(stage: Callable[..., Stage]) -> None:
    one = stage("1", retries=0)

    def claim(spec: WorkerSpec, workers: Workers) -> None:
        workers.bus.hand(spec.attempt).claim(ProcRecord("boot-1", 4242, 1, 1))
        workers.bus.hand(spec.attempt).started(4243, 1, 4243)

    attempt = crash_while(one, "1", claim)
    one.workers.lives[attempt] = "ended"
    one.workers.behaviour.clear()
    one.run()
    status = one.status("1")
    assert isinstance(status, Failed)
    assert status.error_class == "lost"


def test_taking_a_run_over_to_stop_it_starts_nothing(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1")

    def killed(spec: WorkerSpec, workers: Workers) -> None:
        one.bus.crash()
        raise KeyboardInterrupt

    one.workers.behaviour["2"] = killed
    with pytest.raises(KeyboardInterrupt):
        one.run()
    one.workers.behaviour.clear()
    del one.bus.lines[-1:]  # the conductor died one line earlier: 2 is ready, and nothing runs
    assert one.types()[-1] == "TASK_COMPLETE"
    one.run(ControlReceived("stop", "operator:me"))
    assert one.types("2") == []
    assert one.types()[-1] == "RUN_ENDED"


def test_ctrl_c_once_drains(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1")

    def finish() -> None:
        one.workers.end(next(iter(one.workers.orders)), ending("ok"))

    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [one.press(signal.SIGINT), lambda: None, finish]
    one.run()
    assert isinstance(one.status("1"), Done)
    assert one.types("2") == []
    assert one.types()[-1] == "RUN_ENDED"
    assert not one.workers.terminated


def test_ctrl_c_twice_stops_and_a_worker_that_does_not_is_ended(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [one.press(signal.SIGINT), one.press(signal.SIGINT)]
    one.run()
    [attempt] = one.workers.orders
    assert one.workers.terminated == [attempt]
    assert one.bus.hand(attempt).revoked() == "stopped"
    assert attempt in one.workers.killed, "after the grace the loop ends the tree itself"
    assert one.types("1")[:2] == ["WORKER_DISPATCHED", "STOP"]


def test_ctrl_c_stops_a_run_that_an_operator_drains(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [
        lambda: one.bus.drop("drain", who="me", epoch=one.bus.epoch) and None,
        lambda: None,
        one.press(signal.SIGINT),
    ]
    one.run()
    assert one.types("1")[:2] == ["WORKER_DISPATCHED", "STOP"]
    controls = [record.payload["verb"] for record in one.bus.reader().records() if record.type == "CONTROL"]
    assert controls == ["drain", "stop"]


def test_term_stops_and_is_remembered(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [
        one.press(signal.SIGTERM),
        lambda: None,
        lambda: one.workers.end(next(iter(one.workers.orders)), ending("stopped", stop_reason="stopped")),
    ]
    one.run()
    assert one.signals.terminated
    assert "STOP" in one.types("1")


def test_the_third_ctrl_c_leaves_at_once_and_records_nothing_more(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [one.press(signal.SIGINT)] * 3
    with pytest.raises(LeaveAtOnce):
        one.run()
    assert "RUN_ENDED" not in one.types()


def test_controls_act_once_and_only_on_the_conductor_they_were_meant_for(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1")
    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [
        lambda: one.bus.drop("stop", who="me", epoch=99) and None,
        lambda: one.bus.drop("whatever", who="me") and None,
        lambda: one.bus.drop("drain", who="me", epoch=one.bus.epoch) and None,
        lambda: None,
        lambda: one.workers.end(next(iter(one.workers.orders)), ending("ok")),
    ]
    one.run()
    controls = [record for record in one.bus.reader().records() if record.type == "CONTROL"]
    assert [record.payload["verb"] for record in controls] == ["whatever", "drain"]
    assert controls[1].source == "operator:me"
    assert not one.workers.terminated
    assert any("earlier conductor" in reason for reason in one.bus.quarantine.values())


def test_the_views_tell_who_runs_and_how_workers_ended(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2", retries=0)
    seen: list[dict[str, str]] = []

    def view() -> dict[str, str]:
        return {entry["task_id"]: entry["status"] for entry in one.bus.views["worker-status.json"].values()}

    def look() -> None:
        seen.append(view())
        one.workers.end(next(iter(one.workers.orders)), ending("fails"))

    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [lambda: None, lambda: None, look]
    one.run()
    assert seen == [{"1": "RUNNING", "2": "COMPLETE"}]
    assert view() == {"1": "FAILED", "2": "COMPLETE"}


def test_the_lock_view_tells_which_files_running_tasks_have(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    one.plan = plan_of(task_of("1", run=("work",), files=("src/a.py", "docs/*")))
    seen: list[object] = []

    def look() -> None:
        seen.append({path: lock["worker_id"] for path, lock in one.bus.views["locks.json"].items()})
        one.workers.end(next(iter(one.workers.orders)), ending("ok"))

    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [lambda: None, lambda: None, look]
    one.run()
    [attempt] = one.workers.orders
    assert seen == [{"src/a.py": attempt, "docs/*": attempt}]
    assert one.bus.views["locks.json"] == {}


def test_fail_fast_skips_what_was_not_started(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2", retries=0, fail_fast=True, max_workers=1)
    one.workers.behaviour["1"] = fail
    one.run()
    assert isinstance(one.status("2"), Skipped)


def test_a_snapshot_is_kept_when_one_is_due_and_a_start_reads_only_what_is_behind_it(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stage("1", "2 < 1", "3 < 2", "4 < 3")
    one.bus.snapshot_every = 4
    one.run()
    assert one.bus.snapshots
    taken: list[int] = []
    take = Replayed.take
    monkeypatch.setattr(
        Replayed, "take", lambda self, record, load: taken.append(record.seq) or take(self, record, load)
    )
    replay(one.bus.reader())
    assert taken == list(range(one.bus.snapshots[-1].seq + 1, len(one.bus.lines) + 1))


def test_a_run_that_goes_on_shows_its_first_record_before_it_keeps_a_snapshot(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2 < 1")
    crash_while(one, "1", go_on)
    one.workers.behaviour.clear()
    one.watcher.records.clear()
    one.bus.snapshot_every = 1
    kept: list[tuple[str, int]] = []
    one.watcher.asleep = [lambda: kept.append((one.watcher.records[-1].type, len(one.bus.snapshots)))] * 2
    one.run()
    assert kept[0] == ("RUN_RESUMED", 0)
    assert kept[1][1] == 1


@pytest.mark.parametrize(("worth", "kept"), [(1, 1), (1000, 0)])
def test_the_end_of_a_round_is_worth_a_snapshot_if_enough_was_journaled(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, worth: int, kept: int
) -> None:
    monkeypatch.setattr(driver_module, "SNAPSHOT_AT_END", worth)
    one = stage("1")
    one.run()
    assert len(one.bus.snapshots) == kept
    assert kept == 0 or one.bus.snapshots[-1].seq == len(one.bus.lines)


def test_messages_of_a_long_run_do_not_pile_up(stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_module, "KEPT", 3)
    one = stage(*map(str, range(12)))
    one.run()
    assert one.replayed is not None
    assert len(one.replayed.messages) == 3
    assert one.types().count("RESULT") == 12


def test_requirement_33_an_edit_of_the_plan_is_recorded_once_and_shown(stage: Callable[..., Stage]) -> None:
    one = stage("1")
    edit = PlanEdited("plan.md", "0" * 64, ("changed in plan.md: 1",))
    one.edits = [edit]
    one.workers.behaviour["1"] = go_on
    one.watcher.asleep = [lambda: None] * 3 + [lambda: one.workers.end(next(iter(one.workers.orders)), ending("ok"))]
    one.run()
    assert one.types().count("PLAN_EDITED") == 1
    assert [record.payload["changes"] for record in one.watcher.records if record.type == "PLAN_EDITED"] == [
        ["changed in plan.md: 1"]
    ]
    assert isinstance(one.status("1"), Done)
    assert one.replayed is not None
    assert one.replayed.run is not None
    assert one.replayed.run.edited == ("changed in plan.md: 1",)


YEARS = 10 * 365 * 86400.0


@pytest.mark.parametrize("step", [YEARS, -YEARS, 3600.0])
def test_requirement_21_steps_of_the_wall_clock_change_no_decision(stage: Callable[..., Stage], step: float) -> None:
    """The same run, its conductor killed once during a back-off: under a clock that goes as it should, and under one
    that is set again and again."""

    def journal(step: float) -> list[tuple[object, ...]]:
        one = stage("1", "2 < 1", "3", seed=3, retry_delay=300.0, retry_delay_max=300.0, restart_intensity=2)
        one.workers.behaviour["1"] = fail
        one.workers.behaviour["3"] = vanish
        set_it = [lambda: setattr(one.clock, "wall", one.clock.wall + step)]
        one.watcher.asleep = [*set_it * 8, die]
        with pytest.raises(KeyboardInterrupt):
            one.run()
        one.bus.crash()
        one.watcher.asleep = set_it * 400
        one.run()
        return [(r.type, r.task, r.attempt, r.t.mono, r.payload) for r in one.bus.reader().records()]

    assert journal(step) == journal(0.0)


def test_a_back_off_ends_though_the_plan_was_edited_while_no_conductor_lived(stage: Callable[..., Stage]) -> None:
    """The edit is recorded together with RUN_RESUMED."""
    one = stage("1", retries=1, seed=3, retry_delay=300.0, retry_delay_max=300.0)
    one.workers.behaviour["1"] = fail
    one.watcher.asleep = [lambda: None] * 8 + [die]
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert one.types()[-1] == "RETRY_SCHEDULED"
    one.bus.crash()
    one.workers.behaviour["1"] = succeed
    one.run(PlanEdited("plan.md", "0" * 64, ("changed in plan.md: 1",)))
    assert isinstance(one.status("1"), Done)


def die() -> None:
    raise KeyboardInterrupt


def test_requirement_21_a_back_off_keeps_its_rest_over_a_reboot(stage: Callable[..., Stage]) -> None:
    """The clock of the new boot begins at zero: neither is the delay over at once, nor does it begin anew."""
    one = stage("1", retries=1, seed=3, retry_delay=300.0, retry_delay_max=300.0)
    one.workers.behaviour["1"] = fail

    one.watcher.asleep = [lambda: None] * 8 + [die]
    with pytest.raises(KeyboardInterrupt):
        one.run()
    (scheduled,) = [record for record in one.bus.reader().records() if record.type == "RETRY_SCHEDULED"]
    assert scheduled.payload["delay"] > 10
    before = one.clock.mono
    one.bus.crash()
    one.clock.reboot("boot-2")
    one.workers.behaviour["1"] = succeed
    one.run()
    records = list(one.bus.reader().records())
    resumed = next(record for record in records if record.type == "RUN_RESUMED")
    fired = next(record for record in records if record.type == "TIMER_FIRED")
    last = max(record.t.mono for record in records if record.t.boot == "boot-1")
    assert before >= last
    rest = scheduled.payload["delay"] - (last - scheduled.t.mono)
    assert rest <= fired.t.mono - resumed.t.mono <= rest + 2


def test_commands_hear_of_what_is_recorded_and_never_of_more(stage: Callable[..., Stage], tmp_path: Path) -> None:
    one = stage("1", retries=0)
    one.workers.behaviour["1"] = fail
    events = ["task_started", "task_failed", "run_finished"]
    told = {event: ("sh", "-c", f"echo {event} >>told; exit 1") for event in events}
    one.hooks = Hooks(told, places=HookPlaces(project=str(tmp_path)), say=one.watcher.trouble)
    one.run()
    assert (tmp_path / "told").read_text(encoding="ascii").split() == events
    assert len(one.watcher.troubles) == 3, "each failure is said, and the run ends as it would"


def test_what_breaks_the_machine_is_set_aside_and_not_met_again(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = policy.judge

    def breaks(outcome: Outcome, stopping: str | None, **more: Any) -> policy.Verdict:
        if isinstance(outcome, ExitRecord) and outcome.tail == "odd":
            raise OverflowError("int too large to convert to float")
        return judge(outcome, stopping, **more)

    monkeypatch.setattr(policy, "judge", breaks)
    one = stage("1", "2", retries=0)
    one.workers.behaviour["1"] = lambda spec, workers: workers.end(spec.attempt, ending("ok", tail="odd"))
    with pytest.raises(OverflowError):
        one.run()
    assert "RESULT" not in one.types("1")
    one.bus.crash()
    one.workers.behaviour.clear()
    one.run()
    assert [type(one.status(task)) for task in "12"] == [Done, Done]
    assert {"WORKER_GONE", "LAUNCH_FAILED"} & set(one.types("1")), "as if it had written no result"
    assert len([name for name in one.bus.quarantine if name.endswith(("exit.json", ".msg"))]) == 2
    assert "cannot be judged: OverflowError" in next(iter(one.bus.quarantine.values()))
