"""What is wrong with something handed in is said in plain words, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from bus.schema import check_content, control_body
from bus.strict import WireError
from bus.wire import AttemptId, Message

RESULT = {"started": True, "ended_by": "self"}


@pytest.mark.parametrize(
    ("type", "payload", "said"),
    [
        ("PROGRESS", {"pct": "x"}, "pct: must be a number"),
        ("PROGRESS", {"pct": 150}, "pct: must be at most 100"),
        ("PROGRESS", {"pct": -1}, "pct: must be at least 0"),
        ("REPORT", {"verb": "done"}, "verb: must be 'complete' or 'fail'"),
        ("REPORT", {"verb": "fail", "files": [1]}, "files.0: must be text"),
        ("REPORT", {"verb": "fail", "files": "a"}, "files: must be a list"),
        ("NOTE", {}, "text: is missing"),
        ("RESULT", {**RESULT, "started": "yes"}, "started: must be true or false"),
        ("RESULT", {**RESULT, "command": {"code": "1"}}, "command.code: must be a whole number"),
        ("RESULT", {**RESULT, "command": 3}, "command: must be an object"),
        ("RESULT", {**RESULT, "leftovers": []}, "leftovers: must be an object"),
        ("RESULT", {**RESULT, "log_bytes": {"k" * 999: ""}}, f"log_bytes.{'k' * 190}: must be a whole number"),
    ],
)
def test_a_payload_that_does_not_fit_is_told_plainly(type: str, payload: dict[str, Any], said: str) -> None:
    with pytest.raises(WireError) as caught:
        check_content(Message("0" * 32, type, AttemptId("1~1-0a1b2c3d"), "", payload))
    assert str(caught.value) == f"payload of {type}: {said}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "must be an object"),
        ({"who": 3}, "who: must be text"),
        ({"epoch": -1}, "epoch: must be at least 0"),
        ({"target": "x" * 5000}, "target: must have at most 4096 characters"),
    ],
)
def test_an_order_that_does_not_fit_is_told_plainly(body: Any, said: str) -> None:
    with pytest.raises(WireError) as caught:
        control_body(body)
    assert str(caught.value) == f"body of the order: {said}"
    assert control_body({"who": "me"}).who == "me"
