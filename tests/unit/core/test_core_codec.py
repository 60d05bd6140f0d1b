"""Every event survives the journal; what is wrong is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from bus.strict import WireError
from bus.wire import AttemptId, Record, Stamp, TaskId, decode_record, encode_record
from conductor.core import codec, events, supervision, wait_events
from conductor.core.events import Event
from conductor.core.task import RunOptions
from conductor.testing import ending, plan_of

A, ONE = TaskId("ä/1"), AttemptId("a~1-00000000")
PLAN = plan_of("a")
OPTIONS = RunOptions(
    group_workers=3, timeout=None, command=("make", "x"), only=(A,), ticked_done=(TaskId("b"),), fail_fast=True, seed=5
)

SAMPLES: tuple[Event, ...] = (
    events.RunStarted("r", "sha", "/p", OPTIONS, PLAN),
    events.RunStarted("r", "sha", "/p", RunOptions(), PLAN),
    events.RunResumed("r", OPTIONS, 12),
    events.ResultReceived(
        A, ONE, ending("fails", verify=[{"argv": ["x"], "code": 0, "signal": None}], outputs=[], signals=[])
    ),
    events.ReportReceived(A, ONE, {"verb": "complete", "commit": "abc", "files": ["x"]}),
    events.ProgressReceived(A, ONE, 12.5, "so far"),
    events.ProgressReceived(A, ONE, None, ""),
    events.WorkerGone(A, ONE, True, "why"),
    events.WorkerGone(A, ONE, True, "why", reboot=True),
    events.LaunchFailed(A, ONE, "why"),
    events.AttemptAdopted(A, ONE),
    events.TimerFired("retry:a"),
    events.ControlReceived("stop", "signal:INT"),
    events.ControlReceived("cancel", "operator:me", "1.2", "text"),
    events.ControlReceived("reset", "operator:me", "a", None, (A, TaskId("b"))),
    events.PlanEdited("plan.md", "0" * 64, ("changed in plan.md: a",)),
    events.WorkerDispatched(A, ONE, 1, "00000000"),
    events.StopDecided(A, ONE, "stopped"),
    events.AttemptEnded(A, ONE, 1, "exit", "exit 1", True, True, {"code": 1, "signal": None}, {"report": None}, 2.5),
    events.AttemptEnded(A, ONE, 1, None, "", True, False, None, {}),
    events.RetryScheduled(A, 2, 0.75, "exit"),
    events.TaskCompleted(A, ONE, A, "abc", ("x", "y"), (TaskId("b"),)),
    events.TaskCompleted(A, None, A, None, (), ()),
    events.TaskFailed(A, ONE, A, "exit 1", "exit"),
    events.TaskBlocked(A, A, (TaskId("b"), TaskId("c")), "needs"),
    events.TaskSkipped(A, A, "fail_fast"),
    events.RunEnded("done", None, {"done": 1}),
    events.ControlReceived("cancel", "operator:me", "a", None, (A,), refused="task a is done"),
    events.ControlReceived("pause", "operator:me", ahead=True),
    supervision.UsageReported(A, ONE, {"input_tokens": 10, "cost_usd": 0.25}),
    supervision.PlanReloaded("sha", PLAN, "1" * 64, ("new in plan.md: c",)),
    supervision.TaskCancelled(A, A, "operator:me"),
    supervision.ApprovalAsked(A, "after", ONE),
    supervision.ApprovalAsked(A, "before", None),
    supervision.ManualOpened(A),
    supervision.ProviderPaused("claude", "quota", 3600.0),
    supervision.ProviderPaused("command:x", "auth", None),
    supervision.ProviderResumed("claude", "its time is up"),
    supervision.RunGaveUp("waits_for_people"),
    wait_events.GrantSeen(A, ONE, "g1", ("src/ä.py", "docs/"), True, 12),
    wait_events.GrantGone(A, ONE, "g1", "released"),
    wait_events.WaitBegan(A, ONE, "w1", "lock", ("src/ä.py",), False, 3),
    wait_events.WaitBegan(A, ONE, "w2", "question", (), text="May I?"),
    wait_events.WaitEnded(A, ONE, "w1", "granted"),
    wait_events.AttemptLife(A, ONE, "quiet", "no output for 10m", {"output": {"bytes": 3, "age": 600.0}}),
    wait_events.DeadlockDetected(
        A,
        ONE,
        "d1",
        ONE,
        ({"task": A, "attempt": ONE, "waits_for": [{"kind": "lock", "what": "x", "holder": ONE}]},),
        "youngest",
    ),
    wait_events.DeadlockResolved(A, ONE, "d1", ONE),
)


def record(event: Event) -> Record:
    type, task, attempt, payload = codec.encode(event)
    made = Record(7, 1, Stamp(1.0, 2.0, "boot"), "0" * 32, type, "conductor", "", task, attempt, payload)
    return decode_record(encode_record(made))


def plan_of_sha(sha: str) -> Any:
    assert sha == "sha"
    return PLAN


def test_there_is_a_sample_of_every_event() -> None:
    assert {type(one) for one in SAMPLES} == set(codec.EVENTS.values()) == set(get_args(Event))


@pytest.mark.parametrize("event", SAMPLES, ids=lambda one: one.TYPE)
def test_every_event_round_trips_through_a_journal_line(event: Event) -> None:
    again = codec.decode(record(event), plan_of_sha)
    assert again == event
    assert codec.encode(again)[3].keys() == codec.encode(event)[3].keys()
    assert record(again) == record(event)
    if isinstance(again, (events.RunStarted, supervision.PlanReloaded)):
        assert again.plan is PLAN


def test_the_envelope_carries_task_and_attempt() -> None:
    type, task, attempt, payload = codec.encode(events.StopDecided(A, ONE, "stopped"))
    assert (type, task, attempt, payload) == ("STOP", A, ONE, {"reason": "stopped"})


def test_a_result_has_the_body_of_exit_json() -> None:
    payload = codec.encode(events.ResultReceived(A, ONE, ending()))[3]
    assert payload["ended_by"] == "self"
    assert "exit" not in payload


def test_types_that_the_machine_does_not_know_are_none() -> None:
    assert codec.decode(replace(record(SAMPLES[-1]), type="NOTE"), plan_of_sha) is None


def test_fields_of_a_newer_minor_format_are_ignored_and_defaults_fill_in() -> None:
    old = record(events.RunResumed("r", OPTIONS, 12))
    options = {**old.payload["options"], "colour": "red"}
    del options["seed"]
    changed = replace(old, payload={**old.payload, "options": options, "more": 1})
    assert codec.decode(changed, plan_of_sha) == events.RunResumed("r", replace(OPTIONS, seed=0), 12)


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("STOP", {}),
        ("RESULT", {"started": True}),
        ("RUN_RESUMED", {"run": "r", "from_seq": 0, "options": None}),
        ("TASK_BLOCKED", {"task_id": "a", "blocked_by": None, "reason": ""}),
    ],
)
def test_a_payload_that_cannot_be_the_event_is_refused(type: str, payload: dict[str, Any]) -> None:
    broken = Record(7, 1, Stamp(1.0, 2.0, "b"), "0" * 32, type, "conductor", "", A, ONE, payload)
    with pytest.raises(WireError, match=f"record 7 is no {type}"):
        codec.decode(broken, plan_of_sha)


def test_a_control_of_a_journal_before_there_was_a_reset() -> None:
    old = record(events.ControlReceived("stop", "operator:me"))
    payload = {name: value for name, value in old.payload.items() if name in ("verb", "who")}
    assert codec.decode(replace(old, payload=payload), plan_of_sha) == events.ControlReceived("stop", "operator:me")
