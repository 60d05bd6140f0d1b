"""Nothing that a command can write into its bus ends the conductor, now or at its next start.

A real bus on the disk, a real loop, workers that are doubles. While an attempt runs, JSON of odd types and sizes is put
wherever a command can write: its own folder, heartbeats, statuses, messages, orders, claims, grants and waits.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus import layout
from bus.control import drop
from bus.host import FileHost, open_host
from bus.reader import open_reader
from bus.wire import AttemptId, TaskId, WorkerSpec
from conductor.cli.events import record_line
from conductor.cli.signs import signs_text
from conductor.config import Settings
from conductor.core import invariants
from conductor.core.events import RunResumed, RunStarted
from conductor.core.instructions import LaunchWorker
from conductor.core.task import RunOptions
from conductor.core.view import run_view
from conductor.core.why import why
from conductor.plan import frozen
from conductor.runtime.command import Places, order
from conductor.runtime.driver import Driver, Ports
from conductor.runtime.hooks import events_of
from conductor.runtime.launches import Order
from conductor.runtime.replay import Replayed, replay
from conductor.runtime.signals import Signals
from conductor.testing import FakeClock, FakeLauncher, plan_of, task_of

GRACE, TURNS = 5.0, 8
EXAMPLES = 60
OPTIONS = RunOptions(
    command=("true",),
    stale_after=20.0,
    timeout=30.0,
    budget_usd=1e9,
    max_workers=2,
    retries=1,
    retry_delay=1.0,
    wait_for_people=False,
)

RESULT: dict[str, Any] = {
    "started": True,
    "ended_by": "self",
    "stop_reason": None,
    "why": "spawn: x",
    "command": {"code": 0, "signal": None},
    "report": {"verb": "fail", "class": "quota", "retry_after": 3, "message": "m", "commit": "c", "files": ["f"]},
    "final_record": {"text": "x"},
    "verify": [{"argv": ["a"], "code": 1, "signal": None, "error": "e"}],
    "outputs": [{"path": "p", "exists": True}],
    "usage": {"input_tokens": 3, "output_tokens": 4, "cost_usd": 0.5},
    "leftovers": {"killed": [{"pid": 1, "name": "n"}], "kept": []},
    "tree_empty": True,
    "seconds": 1.5,
    "log_bytes": {"stdout": 1, "stderr": 0},
    "timeout": 30.0,
    "signals": [{"name": "TERM", "after": 1.0}],
    "tail": "t",
}
BEAT = {
    "phase": "command",
    "output": {"bytes": 3, "age": 1.0},
    "cpu": {"seconds": 1.0, "age": 1.0},
    "files": {"age": 2.0},
    "left": 3.0,
    "clock": 4.0,
    "ladder": {"by": "timeout", "signal": "TERM", "kill_in": 3.0},
    "suspended": [{"pid": 3, "name": "sh"}],
    "stands": False,
}
PROC = {"boot": "b", "pid": 7, "start_ticks": 8, "epoch": 1, "namespace": "", "leftovers": "kill", "never_kill": ["x"]}
BODIES: dict[str, dict[str, Any]] = {
    "exit": RESULT,
    "report": RESULT["report"],
    "proc": PROC,
    "beat": BEAT,
    "status": {"progress_pct": 3, "text": "t", "timestamp": "now"},
    "RESULT": RESULT,
    "REPORT": RESULT["report"],
    "PROGRESS": {"pct": 4, "text": "t"},
    "USAGE": RESULT["usage"],
    "FILE_LOCK": {"filepath": "f", "filepaths": ["f"], "lock_type": "exclusive", "expires_at": None},
    "BLOCKED": {"task_id": "a", "waiting_for": ["b"], "resource": ["r"]},
    "QUESTION": {"id": "0a1b2c3d", "text": "?"},
    "MINE": {"any": {"thing": [1]}},
    "answer": {"target": "0a1b2c3d", "text": "yes", "who": "w"},
    "approve": {"target": "a", "text": "yes", "who": "w", "epoch": 1},
    "cancel": {"target": "a", "text": "no", "who": "w"},
    "retry": {"target": "a", "who": "w"},
    "steer": {"target": "a", "text": "t", "who": "w"},
    "unlock": {"target": "f", "who": "w"},
    "resume": {"target": "command:true", "who": "w"},
    "nonsense": {"target": "a", "who": "w"},
    "claim": {"task": "b"},
    "grant": {"keys": ["f", "g/*"], "shared": False, "token": 3, "since": "now"},
    "lock": {"kind": "lock", "what": ["f"], "shared": True, "holders": [], "ticket": 4, "text": "", "since": ""},
    "task": {"kind": "task", "what": ["b"], "shared": True, "holders": [], "ticket": 4, "text": "", "since": ""},
    "question": {"kind": "question", "what": [], "shared": False, "holders": [], "ticket": 0, "text": "?", "since": ""},
}
"""By place: what stands there if all is well."""

ORDERS = ("answer", "approve", "cancel", "retry", "steer", "unlock", "resume", "nonsense")
WAITS = ("lock", "task", "question")

HUGE = 10**400
odd = st.recursive(
    st.sampled_from([HUGE, -HUGE, 1e308, -1e308, 1 << 70, -1, 0, 0.5, -0.5, 1e9, float("inf"), float("nan")])
    | st.sampled_from([None, True, False, "", "1", "quota", "command", "a", "b", "\x00", "é" * 5000, "../x", "**"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["age", "bytes", "class", "code", "cost_usd", "name", "x"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, ...]]:
    """Return the path of every value in here."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, part in parts for rest in places(part))]


def put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with another value at a place."""
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(value[place[0]], place[1:], new)
    return copy


@st.composite
def writings(draw: st.DrawFn) -> tuple[str, Any]:
    """Draw a place and what stands there: up to two of its values are odd."""
    place = draw(st.sampled_from(sorted(BODIES)))
    body = BODIES[place]
    for _ in range(draw(st.integers(0, 2))):
        body = put(body, draw(st.sampled_from(places(body))), draw(odd)) if isinstance(body, (dict, list)) else body
    return place, body


class Bus:
    """The folder of a bus, as a command of the attempt sees it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.held: list[int] = []
        self.number = 0

    def write(self, attempt: AttemptId, place: str, body: Any) -> None:
        """Put something there, as a whole, whatever was there."""
        self.number += 1
        data, id = json.dumps(body).encode(), f"{self.number:032x}"
        folder = self.root / layout.attempt_dir(attempt)
        if place in ("exit", "report", "proc"):
            (folder / {"exit": "exit.json", "report": "report.json", "proc": "proc.json"}[place]).write_bytes(
                data + b"\n" + (data + b"\n" if place == "proc" else b"")
            )
        elif place == "beat":
            (self.root / layout.HEARTBEATS / attempt).write_bytes(data)
        elif place == "status":
            (self.root / layout.WORKER_STATUS / layout.status_name(attempt)).write_bytes(data)
        elif place in ORDERS:
            (self.root / layout.CONTROL / layout.control_name(self.number, place)).write_bytes(data)
        elif place == "claim":
            (self.root / layout.EVENTS / layout.event_name("TASK_COMPLETE", TaskId("b"))).write_bytes(data)
        elif place == "grant":
            (self.root / layout.LOCKS / layout.grant_name(attempt, id[-8:])).write_bytes(data)
        elif place in WAITS:
            path = self.root / layout.WAITS / layout.wait_name(attempt, id[-8:])
            path.write_bytes(data)
            self.held.append(os.open(path, os.O_RDWR))
            fcntl.flock(self.held[-1], fcntl.LOCK_EX)
        else:
            whole = {"id": id, "type": place, "attempt": attempt, "timestamp": "now", "payload": body}
            line = json.dumps(whole).encode()
            name = layout.message_name(attempt, id[:16])
            checksum = hashlib.sha256(line).hexdigest().encode()
            (self.root / layout.INBOX / name).write_bytes(b"%s\nsha256:%s\n" % (line, checksum))

    def close(self) -> None:
        """End all waits."""
        while self.held:
            os.close(self.held.pop())


class Workers(FakeLauncher):
    """Workers that write what is to be written, and live on."""

    def __init__(self, bus: Bus, written: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.bus, self.written = bus, written

    def launch(self, spec: WorkerSpec, live: int) -> None:
        super().launch(spec, live)
        self.bus.write(spec.attempt, "proc", PROC)
        for place, body in self.written:
            self.bus.write(spec.attempt, place, body)

    def kill_tree(self, attempt: AttemptId, trace: object) -> bool:
        self.lives[attempt] = "ended"
        return True


class Quiet:
    """An observer to whom nothing matters; time passes with it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def recorded(self, records: list[Any]) -> None:
        pass

    def tick(self) -> float | None:
        self.clock.advance(1.0)
        return 0.0

    def trouble(self, text: str) -> None:
        pass


PLAN = plan_of(task_of("a", stale_after=20.0), "b", "c < a")


class Loop:
    """A conductor of the bus."""

    def __init__(self, bus: Bus, workers: Workers, clock: FakeClock) -> None:
        self.bus, self.workers, self.clock = bus, workers, clock
        self.replayed = Replayed()
        self.host: FileHost = open_host(
            bus.root, durability="process", unsafe_fs=True, follower=self.replayed, manual=self.replayed.manual
        )
        self.sha = self.host.freeze_plan(frozen.dump(PLAN))
        self.driver = Driver(self.replayed, self._ports())

    def _ports(self) -> Ports:
        state = self.replayed.machine.state
        spots = Places("/track", "/project", str(self.bus.root), "/bin")

        def make(wanted: LaunchWorker) -> Order:
            task = state.tasks[wanted.task].spec
            spec = order(task, wanted.attempt, wanted.number, wanted.nonce, self.host.epoch, OPTIONS, Settings(), spots)
            return Order(spec, {})

        return Ports(
            self.host, self.workers, self.clock, Signals(), Quiet(self.clock), make, lambda: True, GRACE, heartbeat=1.0
        )

    def begin(self) -> None:
        unfinished = self.replayed.unfinished
        self.driver.begin(
            RunStarted("r" * 16, self.sha, "/project", OPTIONS, PLAN)
            if unfinished is None
            else RunResumed(unfinished.id, OPTIONS, self.replayed.last_seq)
        )

    def turn(self, times: int) -> None:
        """Let the loop go on for a while."""
        for _ in range(times):
            if not self.driver.ended:
                self.driver.turn()

    def order(self, verb: str) -> None:
        """Give an order, as an operator does."""
        drop(self.bus.root, verb, who="operator")


def look(bus: Bus, replayed: Replayed) -> None:
    """Do what the verbs do that look."""
    state = replayed.machine.state
    seen = run_view(state)
    for task in seen.tasks:
        why(seen, task.id, 0.0)
    with closing(open_reader(bus.root)) as reader:
        for record in reader.records():
            record_line(record, colour=False, width=None)
            events_of(record)
        for attempt in reader.attempts():
            signs_text(reader.beat_of(attempt) or {})


def live_through(bus: Bus, written: list[tuple[str, Any]]) -> Replayed:
    """Run a plan whose commands write this: one conductor is killed, the next brings it to its end."""
    clock = FakeClock()
    workers = Workers(bus, written)
    for killed in (True, False):
        loop = Loop(bus, workers, clock)
        loop.begin()
        loop.turn(TURNS)
        for attempt in workers.lives:
            workers.lives[attempt] = "ended"
        loop.turn(TURNS)
        look(bus, loop.replayed)
        if killed:
            loop.host.close()
    bus.close()
    workers.written = []
    loop.order("resume")
    loop.order("stop")
    for _ in range(200):
        if loop.driver.ended:
            break
        for attempt in workers.lives:
            workers.lives[attempt] = "ended"
        loop.turn(1)
    assert loop.driver.ended, "the run comes to its end"
    loop.driver.finish()
    loop.host.close()
    return loop.replayed


@settings(max_examples=EXAMPLES)
@given(st.lists(writings(), min_size=1, max_size=4))
def test_nothing_that_a_command_writes_ends_the_conductor(written: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        bus = Bus(Path(folder, "bus"))
        replayed = live_through(bus, written)
        invariants.check(replayed.machine.state)
        with closing(open_reader(bus.root)) as reader:
            for whole in (True, False):
                assert replay(reader, whole=whole).digest() == replayed.digest()


@pytest.mark.parametrize(
    ("place", "where"),
    [
        ("report", ("retry_after",)),
        ("REPORT", ("retry_after",)),
        ("exit", ("usage", "cost_usd")),
        ("exit", ("report", "retry_after")),
        ("exit", ("seconds",)),
        ("exit", ("signals", 0, "after")),
        ("USAGE", ("cost_usd",)),
        ("beat", ("output", "age")),
        ("beat", ("left",)),
        ("beat", ("output", "bytes")),
        ("grant", ("token",)),
        ("lock", ("ticket",)),
    ],
)
@pytest.mark.parametrize(
    "value", [HUGE, -HUGE, 1e308, float("inf"), float("nan")], ids=["huge", "-huge", "1e308", "inf", "nan"]
)
def test_a_number_beyond_all_floats_is_no_number(
    place: str, where: tuple[Any, ...], value: Any, tmp_path: Path
) -> None:
    live_through(Bus(tmp_path / "bus"), [(place, put(BODIES[place], where, value))])
