"""Under each limit of open files every verb ends with an answer, or says what is too little and what to do."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from conductor.cli.main import run_command_line

if TYPE_CHECKING:
    from conftest import Story

PLAN = "  nodes:\n    - {id: a, name: one, run: [true]}\n    - {id: b, name: two, depends_on: [a], run: [true]}\n"

VERBS = (
    *(["status"], ["status", "--json"], ["why", "a"], ["logs", "a"], ["logs", "a", "--json"], ["events"], ["plan"]),
    *(["stop"], ["reset", "--dry-run"], ["run", "--dry-run"], ["doctor", "--repair"], ["doctor", "--verify"]),
    *(["bus", "progress", "1"], ["bus", "read"]),
)
ENOUGH = 28
"""Descriptors with which any of them has its answer."""


@contextmanager
def room_for(number: int) -> Iterator[None]:
    """Allow so many descriptors beside those that are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = set(map(int, os.listdir("/proc/self/fd")))
    used = {fd for fd in seen if os.path.exists(f"/proc/self/fd/{fd}")}  # without that of the look itself
    free = [fd for fd in range(max(used) + number + 2) if fd not in used]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[number], hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open descriptors cannot be counted here")
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_under_each_limit_of_descriptors_a_verb_answers_or_says_what_to_do(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    story.start(PLAN)
    story.end("a", 1, tail="words\n", log=b"words\n")
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(story.track / ".message-bus"))
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", story.attempt("a"))
    arguments = verb if verb[0] == "bus" else [verb[0], str(story.track), *verb[1:]]
    if verb[0] != "bus":
        monkeypatch.delenv("CONDUCTOR_ATTEMPT")
    story.die()
    codes = {}
    for number in range(0, ENOUGH + 1, 4 if "--verify" in verb else 1):
        with room_for(number):
            codes[number] = run_command_line(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        if codes[number] == 74 or (codes[number] == 5 and verb[0] != "doctor"):
            said = err if "--json" not in verb else json.loads(out.splitlines()[-1])["error"]["hint"] + out
            assert "raise the limit" in said
            assert number == 0 or str(story.track) in said  # with none at all the verb itself cannot be loaded
        elif codes[number] == 5:
            assert "raise the limit" in out + err
    assert set(codes.values()) <= {0, 2, 5, 74, 76}  # 76: the attempt that `bus` speaks for has its result
    assert codes[ENOUGH] in (0, 2, 76)
    assert not list((story.track / ".message-bus" / "tmp").glob("operator.probe-*"))
