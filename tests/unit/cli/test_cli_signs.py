"""The signs of life of an attempt, as they are said."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cli.signs import signs_text


@pytest.mark.parametrize(
    ("beat", "text"),
    [
        (
            {"phase": "command", "output": {"bytes": 1234, "age": 3}, "cpu": {"seconds": 2, "age": 0.1}},
            "Seen at its last beat: output 3.0s ago (1.2 kB), CPU 0.1s ago.",
        ),
        (
            {"output": {"bytes": 0, "age": 700}, "files": {"age": 120}, "left": 90},
            "Seen at its last beat: no output yet, files 2m ago; 1m 30s left of its time limit.",
        ),
        (
            {"output": {"bytes": 0, "age": 2}, "files": {"age": 2}, "clock": 2, "left": 118},
            "Seen at its last beat: no output yet; time limit 2m.",
        ),
        (
            {"output": {"bytes": 3_500_000_000, "age": 1}, "left": 90, "stands": True},
            "Seen at its last beat: output 1.0s ago (3.5 GB); its time limit stands still.",
        ),
        (
            {"phase": "ending", "left": 0.0, "ladder": {"by": "timeout", "signal": "TERM", "kill_in": 10.0}},
            "Its time limit is over; it is being ended (TERM, KILL within 10s).",
        ),
        (
            {"phase": "ending", "ladder": {"by": "stop", "signal": "KILL", "kill_in": 0.0}},
            "It is being ended (KILL).",
        ),
        (
            {"phase": "command", "left": 9, "suspended": [{"pid": 7, "name": "sh\x1b"}]},
            "9.0s left of its time limit; suspended (state T), so it goes on only after SIGCONT: sh\\e (pid 7).",
        ),
        ({"ladder": {"by": []}, "suspended": [3]}, ""),
        ({"ladder": 3, "suspended": 3}, ""),
        ({"clock": 1.7e308, "left": 1.7e308}, None),
        ({"phase": "verify"}, "Its command is done; what it did is verified."),
        ({"phase": "command", "left": None}, ""),
        ({}, ""),
        ({"phase": [], "output": "much", "cpu": {"age": "x"}, "files": None, "left": True, "stands": 1}, ""),
    ],
)
def test_signs_are_said_in_a_sentence_and_nonsense_is_passed_over(beat: dict[str, Any], text: str | None) -> None:
    assert signs_text(beat) == text if text is not None else signs_text(beat)
