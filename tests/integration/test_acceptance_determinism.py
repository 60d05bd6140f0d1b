"""Same plan, same ends, same decisions: by two gated runs, and by feeding a journal's facts to the core again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from typing import Any, get_args

from bus.reader import open_reader
from bus.wire import Record, dumps
from conductor.core import codec, events
from conductor.core.instructions import Journal
from conductor.core.machine import Machine
from conductor.core.task import Plan
from conductor.plan import frozen
from tests.integration.tools import Project

DROPPED = {
    *("t", "timestamp", "id", "crc", "nonce", "pid", "run", "seed", "seconds", "started_at", "ended_at", "delay"),
    *("boot", "start_ticks"),
}
FACTS, DECISIONS = get_args(events.Fact), get_args(events.Decision)


def bare(value: Any) -> Any:
    """A journal's value without times, ids, nonces, pids, checksums."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if key not in DROPPED}
    if isinstance(value, list):
        return [bare(item) for item in value]
    return re.sub(r"~(\d+)-[0-9a-f]{8}", r"~\1", value) if isinstance(value, str) else value


def gated_run(project: Project) -> list[Any]:
    """One run from nothing whose workers end one at a time, in a fixed order; its journal, bare."""
    for folder in (project.bus, project.gates):
        shutil.rmtree(folder, ignore_errors=True)
    project.gates.mkdir()
    project.log.unlink(missing_ok=True)
    run = project.start_run("--durability", "process")
    for task, code, times in ENDS:
        project.wait_started(task)
        project.open_gate(task, code=code)
        project.wait_recorded("ATTEMPT_ENDED", task, times=times)
    run.finish().expect(1)
    return [bare(record) for record in project.records()]


ENDS = [("a", 0, 1), ("d", 0, 1), ("e", 0, 1), ("b", 0, 1), ("c", 0, 1), ("f", 0, 1), ("x", 1, 2), ("g", 0, 1)]
"""Task, exit code, and how many attempts end by it, in the order in which the gates are opened."""


def plan(project: Project) -> None:
    project.config('retry_delay = "0.001s"\nretry_delay_max = "0.001s"\nheartbeat = "1h"\n')
    task = project.task
    project.plan(
        [
            task("a", gated=True, files=["src/one.py"], estimated_duration="10m"),
            task("b", gated=True, after=["a"], files=["lib/b/*"]),
            task("c", gated=True, after=["a"], files=["lib/x"], estimated_duration="2h"),
            task("d", gated=True, files=["src/one.py"]),
            task("e", gated=True, reads=["src/one.py"]),
            task("f", gated=True, after=["b", "c", "d"]),
            task("x", gated=True, after=["f"], retries=1),
            task("y", gated=True, after=["x"]),
            task("g", gated=True, after=["f"]),
        ],
        groups=[{"id": "pg", "tasks": ["a", "b", "c"], "max_workers": 2}],
    )


def test_two_runs_with_the_same_ends_have_equal_journals(project: Project) -> None:
    plan(project)
    first = gated_run(project)
    second = gated_run(project)
    assert [record["type"] for record in first] == [record["type"] for record in second]
    assert first == second
    assert list(project.statuses()) == ["a", "b", "c", "d", "e", "f", "x", "y", "g"]


def test_the_core_makes_the_same_decisions_of_the_journaled_facts(project: Project) -> None:
    plan(project)
    gated_run(project)
    project.open_gate("x", "y")
    project.run().expect(0)
    reader = open_reader(project.bus)
    plans: dict[str, Plan] = {}

    def plan_of(sha: str) -> Plan:
        return plans.setdefault(sha, frozen.parse(reader.load_plan(sha)))

    records = list(reader.records())
    live, again = Machine(), Machine()
    decided: list[bytes] = []
    for record in records:
        event = codec.decode(record, plan_of)
        if isinstance(event, FACTS):
            assert not decided, f"before seq {record.seq} the core also decided {decided}"
            instructions = live.handle(event, record.t.mono, wall=record.t.wall)
            decided = [line for one in instructions if isinstance(one, Journal) for line in [encoded(one.decision)]]
        elif isinstance(event, DECISIONS):
            assert decided.pop(0) == as_bytes(record)
        if event is not None:
            again.replay(event, record.t.mono, wall=record.t.wall)
    assert not decided
    assert live.digest() == again.digest()
    assert len(list(facts(records))) > 10


def facts(records: list[Record]) -> Iterator[Record]:
    names = {kind.TYPE for kind in FACTS}
    return (record for record in records if record.type in names)


def encoded(decision: events.Decision) -> bytes:
    return dumps(list(codec.encode(decision))).encode()


def as_bytes(record: Record) -> bytes:
    return dumps([record.type, record.task, record.attempt, json.loads(dumps(record.payload))]).encode()
