"""Verdicts as a table; draws from seeds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.wire import TaskId
from conductor.core import policy
from conductor.core.policy import Verdict, judge
from conductor.core.task import NotLaunched, RunOptions, Vanished
from conductor.testing import ending

GOOD = {"argv": ["pytest", "-q"], "code": 0, "signal": None}
BAD = {"argv": ["pytest", "-q"], "code": 2, "signal": None}
KILLED = {"argv": ["pytest"], "code": None, "signal": 9}
MISSING = {"argv": ["nosuchcmd", "x"], "code": None, "signal": None, "error": "nosuchcmd: command not found on PATH"}
TERM_KILL = [{"name": "TERM", "after": 0.0}, {"name": "KILL", "after": 10.1}]
INT_TERM = [{"name": "INT", "after": 0.0}, {"name": "TERM", "after": 5.0}]
FAIL = {"verb": "fail", "message": "tests are red"}
COMPLETE = {"verb": "complete"}


def code(number: int | None, signal: int | None = None) -> dict[str, Any]:
    return {"command": {"code": number, "signal": signal}}


VERDICTS = [
    # what exit.json says, reason of STOP, verdict
    ({}, None, Verdict(None)),
    (code(1), None, Verdict("exit", "exit 1")),
    ({**code(3), "tail": "a\nlast words\n\n"}, None, Verdict("exit", 'exit 3: "last words"')),
    ({"command": None}, None, Verdict("exit", "exit None")),
    (code(None, 9), None, Verdict("signal", "killed by signal 9 (KILL)")),
    (code(None, 40), None, Verdict("signal", "killed by signal 40")),
    ({"report": FAIL}, None, Verdict("reported", "reported failure: tests are red")),
    ({"report": {"verb": "fail"}}, None, Verdict("reported", "reported failure")),
    ({"report": FAIL, **code(1)}, None, Verdict("exit", "exit 1: tests are red")),
    ({"report": COMPLETE, **code(1)}, None, Verdict("exit", "exit 1")),
    ({"report": COMPLETE}, None, Verdict(None)),
    ({"verify": [GOOD, BAD]}, None, Verdict("verify", "verify failed: pytest -q (exit 2)")),
    ({"verify": [KILLED]}, None, Verdict("verify", "verify failed: pytest (signal 9 (KILL))")),
    ({"verify": [MISSING]}, None,
     Verdict("verify", "verify could not be started: nosuchcmd: command not found on PATH")),
    ({"verify": [GOOD]}, None, Verdict(None)),
    ({"outputs": [{"path": "x", "exists": True}, {"path": "y", "exists": False}]}, None,
     Verdict("verify", "output missing: y")),
    ({"ended_by": "timeout"}, None, Verdict("timeout", "timed out")),
    ({"ended_by": "timeout", **code(None, 15)}, None, Verdict("timeout", "timed out")),
    ({"ended_by": "timeout", "timeout": 1.0, "signals": [{"name": "TERM", "after": 0.0}]}, None,
     Verdict("timeout", "timed out after 1s (TERM)")),
    ({"ended_by": "timeout", "timeout": 1.0, "signals": TERM_KILL}, None,
     Verdict("timeout", "timed out after 1s (TERM, killed after 10s)")),
    ({"ended_by": "timeout", "timeout": 1.0, "signals": TERM_KILL, "verify": [GOOD, KILLED]}, None,
     Verdict("timeout", "verify timed out after 1s (TERM, killed after 10s): pytest")),
    ({"ended_by": "timeout", "timeout": 90.0, "signals": INT_TERM}, None,
     Verdict("timeout", "timed out after 1m 30s (INT, TERM after 5s)")),
    ({"ended_by": "timeout"}, "stopped", Verdict("stopped", "stopped", counted=False)),
    ({"ended_by": "stop", **code(None, 15)}, "stopped", Verdict("stopped", "stopped", counted=False)),
    ({"ended_by": "stop"}, "timeout", Verdict("timeout", "stopped: timeout")),
    ({"ended_by": "stop"}, "hung", Verdict("hung", "stopped: hung")),
    ({"ended_by": "stop"}, None, Verdict("signal", "stopped by a signal that did not come from the conductor")),
    ({}, "stopped", Verdict(None)),
    (code(1), "stopped", Verdict("exit", "exit 1")),
    ({}, "cancelled", Verdict("cancelled", "stopped: cancelled", counted=False)),
    ({}, "stale_token", Verdict("stale_token", "stopped: stale_token", counted=False)),
    ({"started": False, "why": "revoked"}, "stopped", Verdict("stopped", "stopped", False, False)),
    ({"started": False, "why": "stale_epoch"}, None, Verdict("spawn", "never started: stale_epoch", False, False)),
    ({"started": False, "why": None}, None, Verdict("spawn", "never started: no reason given", False, False)),
    ({"started": False, "why": "spawn: No such file or directory: 'x'"}, None,
     Verdict("spawn", "could not be started: No such file or directory: 'x'", False, True)),
    ({"started": False, "why": "spawn: /bin/x: Text file busy"}, None,
     Verdict("spawn", "never started: spawn: /bin/x: Text file busy", False, False)),
    ({"started": False, "why": "spawn: Text file busy: no such file"}, None,
     Verdict("spawn", "could not be started: Text file busy: no such file", False, True)),
    ({"started": False, "why": "shortage: /bin/x: Cannot allocate memory"}, None,
     Verdict("shortage", "never started: /bin/x: Cannot allocate memory", False, False)),
    ({"started": False, "why": "shortage: fork"}, "stopped", Verdict("stopped", "stopped", False, False)),
    ({"started": True, "why": "shortage: fork"}, None, Verdict(None)),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "stopping", "verdict"), VERDICTS)
def test_the_verdict_on_an_exit_record(fields: dict[str, Any], stopping: str | None, verdict: Verdict) -> None:
    assert judge(ending(**fields), stopping) == verdict


@pytest.mark.parametrize(
    ("outcome", "stopping", "verdict"),
    [
        (Vanished(True, "killed"), None, Verdict("lost", "lost: killed")),
        (Vanished(True, ""), None, Verdict("lost", "lost")),
        (Vanished(False, "no pid"), None, Verdict("lost", "never started: no pid", False, False)),
        (Vanished(True, "killed"), "stopped", Verdict("stopped", "stopped", True, False)),
        (NotLaunched("full"), None, Verdict("spawn", "could not be launched: full", False, False)),
        (NotLaunched("full"), "stopped", Verdict("stopped", "stopped", False, False)),
    ],
)
def test_the_verdict_without_a_result(outcome: Any, stopping: str | None, verdict: Verdict) -> None:
    assert judge(outcome, stopping) == verdict


def test_leftovers_fail_only_where_asked_for() -> None:
    exit = ending(leftovers={"killed": [], "kept": [{"pid": 1, "name": "postgres"}]})
    assert judge(exit, None) == Verdict(None)
    assert judge(exit, None, fail_on_leftovers=True) == Verdict("verify", "processes left behind: postgres")
    assert judge(ending(), None, fail_on_leftovers=True) == Verdict(None)


@pytest.mark.parametrize("odd", [{"killed": 5}, {"kept": "x"}, {"killed": [1, None]}, {}])
def test_odd_leftovers_are_nothing(odd: dict[str, Any]) -> None:
    assert judge(ending(leftovers=odd), None, fail_on_leftovers=True) == Verdict(None)


@pytest.mark.parametrize(
    ("report", "commit", "files"),
    [
        (None, None, ()),
        ({"verb": "complete", "commit": "abc", "files": ["x", "y"]}, "abc", ("x", "y")),
        ({"verb": "complete", "commit": 5, "files": "xy"}, None, ()),
        ({"verb": "complete", "commit": None, "files": ["x", 1, None]}, None, ("x",)),
    ],
)
def test_reported_work(report: dict[str, Any] | None, commit: str | None, files: tuple[str, ...]) -> None:
    assert policy.reported_work(report) == (commit, files)


def test_a_long_message_is_cut() -> None:
    message = judge(ending("fails", tail="x" * 1000), None).message
    assert len(message) == policy.MAX_MESSAGE
    assert message.endswith("…")


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({}, (True, None, None, None)),
        (code(1), (False, None, None, None)),
        ({"ended_by": "timeout"}, (False, None, None, None)),
        ({"report": FAIL, "verify": [GOOD, BAD]}, (True, False, False, None)),
        ({"report": COMPLETE, "verify": [GOOD], "outputs": [{"path": "x", "exists": True}]}, (True, True, True, True)),
        ({"outputs": [{"path": "x", "exists": False}]}, (True, None, None, False)),
        ({"started": False, "why": "revoked"}, (None, None, None, None)),
    ],
)
def test_evidence_is_listed_separately(fields: dict[str, Any], held: tuple[bool | None, ...]) -> None:
    found = policy.evidence(ending(**fields))
    assert found.pop("leftovers") == []
    assert list(found) == ["exit_status", "report", "verify", "outputs"]
    assert tuple(found.values()) == held


def test_without_a_result_there_is_no_evidence() -> None:
    found = policy.evidence(Vanished(True, ""))
    assert found.pop("leftovers") == []
    assert set(found.values()) == {None}


def test_processes_that_were_ended_behind_a_success_are_told() -> None:
    exit = ending(leftovers={"killed": [{"pid": 5, "name": "sleep", "more": 1}, "odd"], "kept": [{"pid": 6}]})
    assert judge(exit, None) == Verdict(None, "ended 1 process that it left behind (sleep)")
    assert policy.evidence(exit)["leftovers"] == [{"pid": 5, "name": "sleep"}]


@given(st.integers(), st.integers(1, 10**6), st.integers(1, 2000))
def test_the_delay_doubles_up_to_its_limit_with_full_jitter(seed: int, number: int, failures: int) -> None:
    options = RunOptions(seed=seed, retry_delay=1.0, retry_delay_max=60.0)
    delay = policy.delay(options, "run", TaskId("a"), number, failures)
    assert 0.0 <= delay <= min(60.0, 2.0 ** min(failures - 1, 10))
    assert delay == policy.delay(options, "run", TaskId("a"), number, failures)


def test_delays_spread() -> None:
    options = RunOptions(retry_delay=64.0, retry_delay_max=64.0)
    delays = [policy.delay(options, "run", TaskId(str(one)), 2, 1) for one in range(1000)]
    assert min(delays) < 2 < 62 < max(delays)
    assert len(set(delays)) > 900


def test_nonces_are_8_hex_digits_and_differ_by_seed_run_task_and_number() -> None:
    draws = {
        policy.nonce(RunOptions(seed=seed), run, TaskId(task), number)
        for seed in (0, 1)
        for run in ("r", "s")
        for task in ("a", "b")
        for number in (1, 2)
    }
    assert len(draws) == 16
    assert all(len(draw) == 8 and int(draw, 16) >= 0 for draw in draws)
