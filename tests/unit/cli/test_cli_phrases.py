from __future__ import annotations

from typing import Any

import pytest

from bus.wire import Record, Stamp, TaskId
from conductor.cli.events import record_line
from conductor.cli.phrases import ending, phrase


def record(type: str, payload: dict[str, Any], task: str | None = "1.1") -> Record:
    return Record(
        7, 1, Stamp(0.0, 0.0, "b"), "0" * 32, type, "conductor", "", TaskId(task) if task else None, None, payload
    )


@pytest.mark.parametrize(
    ("type", "payload", "text"),
    [
        (
            "RUN_STARTED",
            {"run": "ab", "project": "/p", "options": {"max_workers": 5}},
            "run ab started in /p, up to 5 workers",
        ),
        ("RUN_RESUMED", {"run": "ab", "from_seq": 9}, "run ab goes on after record 9"),
        ("WORKER_DISPATCHED", {"number": 2}, "attempt 2 started"),
        ("RESULT", {"started": True, "command": {"code": 0}, "seconds": 2}, "command ended: exit 0 after 2.0s"),
        (
            "RESULT",
            {"command": {"code": None, "signal": 9}, "ended_by": "timeout"},
            "command ended: signal 9 (timeout)",
        ),
        ("RESULT", {"started": False, "why": "revoked"}, "the command was not started: revoked"),
        ("REPORT", {"verb": "fail", "message": "no"}, "reports failure: no"),
        ("REPORT", {"report": {"verb": "complete", "commit": "abc"}}, "reports completion, commit abc"),
        ("PROGRESS", {"pct": 40.2, "text": "half"}, "40 % half"),
        ("PROGRESS", {"pct": None, "text": "half"}, "half"),
        ("CONTROL", {"verb": "stop", "who": "signal:INT"}, "stop by Ctrl-C"),
        ("CONTROL", {"verb": "stop", "who": "signal:TERM"}, "stop by SIGTERM"),
        ("CONTROL", {"verb": "drain", "who": "signal:INT"}, "draining: Ctrl-C again stops the running tasks"),
        (
            "CONTROL",
            {"verb": "drain", "who": "operator:mary"},
            "draining (asked for by mary)",
        ),
        ("ATTEMPT_ENDED", {"number": 1, "error_class": None, "seconds": 80}, "attempt 1 succeeded after 1m 20s"),
        ("ATTEMPT_ENDED", {"number": 1, "error_class": "exit", "message": "exit 3"}, "attempt 1 failed: exit 3"),
        ("ATTEMPT_ENDED", {"number": 1, "error_class": None, "message": "ended 1"}, "attempt 1 succeeded; ended 1"),
        (
            "ATTEMPT_ENDED",
            {"number": 1, "error_class": "stopped", "message": "stopped", "seconds": 2.6},
            "attempt 1 stopped after 2.6s",
        ),
        ("RETRY_SCHEDULED", {"number": 2, "delay": 1.5, "error_class": "exit"}, "attempt 2 in 1.5s"),
        (
            "TASK_COMPLETE",
            {"commit_sha": "abc", "unblocks": list("abcdefg")},
            "done, commit abc, unblocks a, b, c, d and 3 more",
        ),
        ("TASK_FAILED", {"error": "exit 3", "error_class": "exit"}, "failed: exit 3"),
        ("TASK_BLOCKED", {"blocked_by": ["1.0"], "reason": "x"}, "blocked by 1.0"),
        (
            "RUN_ENDED",
            {"state": "stopped", "reason": "stop", "counts": {"done": 1}},
            "run ended: stopped (stop): 1 done",
        ),
        (
            "CONTROL",
            {"verb": "reset", "who": "operator:mary", "target": None, "tasks": []},
            "all set back to pending by mary",
        ),
        (
            "CONTROL",
            {"verb": "reset", "who": "operator:mary", "target": "a", "tasks": ["a", "b"]},
            "a, b set back to pending by mary",
        ),
        (
            "PLAN_EDITED",
            {"source": "plan.md", "sha256": "0", "changes": ["new in plan.md: c"]},
            "plan.md was edited; the edit is not applied until this run has ended (new in plan.md: c)",
        ),
        (
            "FOREIGN_WRITE",
            {"name": "1-queue.jsonl", "reason": "foreign bytes"},
            "1-queue.jsonl put aside: foreign bytes",
        ),
        ("CONTROL", {"verb": "pause", "who": "operator:mary"}, "pause by mary"),
        (
            "CONTROL",
            {"verb": "cancel", "who": "operator:mary", "target": "1.2", "text": "not wanted", "refused": "1.2 is done"},
            "cancel 1.2 by mary: not wanted; refused: 1.2 is done",
        ),
        (
            "CONTROL",
            {"verb": "retry", "who": "operator:mary", "target": "a", "tasks": ["a", "b"]},
            "retry a by mary; back to pending: a, b",
        ),
        ("GRANT_SEEN", {"grant": "1", "keys": ["a.py", "b"], "shared": True, "token": 3}, "holds a.py, b with others"),
        ("GRANT_SEEN", {"grant": "1", "keys": ["a.py"], "shared": False, "token": 3}, "holds a.py"),
        ("GRANT_GONE", {"grant": "1", "how": "released"}, "lets go of a lock"),
        ("GRANT_GONE", {"grant": "1", "how": "closed"}, "its lock ends with it"),
        (
            "GRANT_GONE",
            {"grant": "1", "how": "taken"},
            "a lock was taken away from it: what it does counts for nothing",
        ),
        ("WAIT_BEGAN", {"wait": "1", "kind": "lock", "what": ["a.py"], "text": ""}, "waits for a.py"),
        ("WAIT_BEGAN", {"wait": "1", "kind": "task", "what": ["1.3"], "text": ""}, "waits for task 1.3"),
        (
            "WAIT_BEGAN",
            {"wait": "1a2b3c4d", "kind": "question", "what": [], "text": "which?"},
            "asks: which? (question 1a2b3c4d)",
        ),
        ("WAIT_ENDED", {"wait": "1", "how": "over"}, "waits no more"),
        ("ATTEMPT_LIFE", {"life": "quiet", "detail": "no output for 10m"}, "quiet: no output for 10m"),
        ("ATTEMPT_LIFE", {"life": "finished", "detail": ""}, "finished"),
        (
            "DEADLOCK_DETECTED",
            {
                "id": "d",
                "victim": "2~1-00000000",
                "rule": "youngest",
                "members": [
                    {
                        "task": "1",
                        "attempt": "1~1-00000000",
                        "waits_for": [{"kind": "lock", "what": "b", "holder": "2"}],
                    },
                    {
                        "task": "2",
                        "attempt": "2~1-00000000",
                        "waits_for": [
                            {"kind": "task", "what": "1", "holder": "1"},
                            {"kind": "pool", "what": "", "holder": None},
                        ],
                    },
                ],
            },
            "deadlock: 1 waits for b (held by 2); 2 waits for task 1, a free worker. "
            "2, the youngest, is stopped and tried again",
        ),
        ("DEADLOCK_RESOLVED", {"id": "d", "victim": "2~1-00000000"}, "the deadlock is over"),
        ("APPROVAL_ASKED", {"when": "before"}, "waits for approval to start"),
        ("APPROVAL_ASKED", {"when": "after"}, "its work is done and waits for approval"),
        ("MANUAL_OPENED", {}, "is for a person to do now"),
        (
            "PROVIDER_PAUSED",
            {"provider": "claude", "error_class": "rate_limit", "seconds": 300},
            "no claude is started for 5m: rate_limit",
        ),
        (
            "PROVIDER_PAUSED",
            {"provider": "command:make", "error_class": "breaker", "seconds": None},
            "no command:make is started until it is resumed: too many failed in a row",
        ),
        ("PROVIDER_RESUMED", {"provider": "claude", "why": "time"}, "claude is started again: time"),
        ("PLAN_RELOADED", {"changes": ["new: c"]}, "the run follows the plan as it is now: new: c"),
        (
            "RETRY_SCHEDULED",
            {"number": 2, "delay": 0.0, "error_class": "auth"},
            "attempt 2 once workers of its kind may start again",
        ),
        ("RUN_GAVE_UP", {"reason": "it rains"}, "gave up: it rains; what runs goes on to its end"),
        ("FILE_LOCK", {"filepaths": ["a.py"]}, "locks a.py"),
        ("FILE_UNLOCK", {"filepaths": ["a.py"]}, "unlocks a.py"),
        ("BLOCKED", {"resource": ["a.py"], "waiting_for": ["1"]}, "waits for a.py"),
        ("QUESTION", {"text": "which?"}, "asks: which?"),
        ("MY_TYPE", {"a": 1}, '{"a":1}'),
        ("MY_TYPE", {}, ""),
        ("RUN_ENDED", {"of another": "version"}, '{"of another":"version"}'),
    ],
)
def test_each_record_has_a_phrase(type: str, payload: dict[str, Any], text: str) -> None:
    assert phrase(record(type, payload)) == text


def test_endings() -> None:
    assert ending({"code": 3, "signal": None}) == "exit 3"
    assert ending({"code": None, "signal": 15}) == "signal 15"
    assert ending(None) == ""
    assert ending({}) == ""


def test_req31_one_record_is_one_line_within_its_width() -> None:
    evil = record("NOTE", {"text": "a\nb\x1b[2J" * 40}, "x\ny")
    line = record_line(evil, colour=False, width=60)
    assert len(line.splitlines()) == 1
    assert len(line) <= 60
    assert "\x1b" not in record_line(evil, colour=False, width=None)
