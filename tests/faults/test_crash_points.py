"""Requirement 3, operation by operation: crash before every system call, by a kill and by a power cut, and come back.

Each operation is run once for each of its calls, on a model disk with a past. It notes what it was promised as soon as
the call that promises it has returned; after the crash a new start, which is itself crashed once, must find all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from bus import control, layout, reserve
from bus.contract import Snapshot
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.projection import View
from bus.reader import open_reader
from bus.wire import ExitRecord, JsonObject, Message, ProcRecord, Record, Stamp, TaskId
from conductor.testing import Killed, ModelDisk

ROOT = "/track/bus"
NOW = Stamp(1.0, 2.0, "boot")
ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
OTHER = layout.attempt_id(TaskId("2"), 1, "ffffffff")
OLD_MESSAGE = Message("cd" * 16, "NOTE", ATTEMPT, "t", {"text": ""})
MESSAGE = Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "x" * 100})
EXIT = ExitRecord(started=True, ended_by="self", command={"code": 0, "signal": None}, verify=[], outputs=[], signals=[])
PLAN = b"a plan"


@dataclass
class Promises:
    """What was acknowledged."""

    records: list[str] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)
    result: bool = False
    plan: str | None = None
    order: bool = False
    power: bool = False

    def commit(self, host: FileHost, *staged: Record) -> None:
        host.commit()
        self.records += [record.id for record in staged]
        host.project(staged)


class Follower:
    """Counts records: a state that is easily checked."""

    def __init__(self) -> None:
        self.count = 0

    def restore(self, snapshot: Snapshot, load_plan: Callable[[str], bytes]) -> bool:
        self.count = snapshot.state["count"]
        return True

    def take(self, record: Record, load_plan: Callable[[str], bytes]) -> None:
        self.count += 1

    def dump(self) -> JsonObject:
        return {"count": self.count}


def stage(host: FileHost, type: str, task: str, **payload: object) -> Record:
    return host.stage(type, {"task_id": task, **payload}, NOW, task=TaskId(task))


def commit(host: FileHost, promises: Promises) -> None:
    """A failure becomes a success; one payload needs a blob; another task is unblocked."""
    complete = stage(host, "TASK_COMPLETE", "1", unblocks=["2"])
    promises.commit(host, complete, stage(host, "TASK_FAILED", "3", error="e" * 5000))


def new_round(host: FileHost, promises: Promises) -> None:
    promises.commit(host, stage(host, "RUN_STARTED", "0"))


def take_in(host: FileHost, promises: Promises) -> None:
    """What a pass of the conductor does with a message."""
    found = host.scan().messages
    staged = [
        host.stage(one.message.type, one.message.payload, NOW, id=one.message.id, attempt=one.message.attempt)
        for one in found
    ]
    promises.commit(host, *staged)
    host.discard(found)


def refuse(host: FileHost, promises: Promises) -> None:
    for one in host.scan().messages:
        host.refuse(one, "of no use")
    promises.messages.clear()


def publish(host: FileHost, promises: Promises) -> None:
    open_hand(ROOT, ATTEMPT, fs=host.fs).publish(MESSAGE, durable=True)
    promises.messages.add(MESSAGE.id)


def finish(host: FileHost, promises: Promises) -> None:
    hand = open_hand(ROOT, ATTEMPT, fs=host.fs)
    hand.claim(ProcRecord("boot", 1, 2, 1))
    hand.started(3, 4, 3)
    hand.beat({})
    hand.report_status({"progress_pct": 1})
    hand.finish(EXIT, durable=True)
    promises.result = True


def freeze_plan(host: FileHost, promises: Promises) -> None:
    promises.plan = host.freeze_plan(PLAN)


def drop(host: FileHost, promises: Promises) -> None:
    """What operators hand in is not synced: it survives a kill, and either all of it or nothing a power cut."""
    control.drop(Path(ROOT), "stop", who="me", fs=host.fs)
    promises.order = not promises.power


def snapshot(host: FileHost, promises: Promises) -> None:
    commit(host, promises)
    for _ in range(3):
        host.checkpoint({"count": len(list(host.records()))})


def quarantine(host: FileHost, promises: Promises) -> None:
    host.scan()


def revoke(host: FileHost, promises: Promises) -> None:
    host.revoke(ATTEMPT, "timeout")
    host.revoke(ATTEMPT, "stopped")


def end_attempt(host: FileHost, promises: Promises) -> None:
    promises.commit(host, host.stage("ATTEMPT_ENDED", {}, NOW, task=TaskId("1.1"), attempt=ATTEMPT))
    host.close_attempt(ATTEMPT)
    host.close()


OPERATIONS: dict[str, Callable[[FileHost, Promises], object]] = {
    "commit": commit,
    "new round": new_round,
    "take in": take_in,
    "refuse": refuse,
    "publish": publish,
    "finish": finish,
    "freeze plan": freeze_plan,
    "create attempt": lambda host, promises: host.create_attempt(OTHER, {layout.PROMPT: b"do it"}),
    "revoke": revoke,
    "order": drop,
    "views": lambda host, promises: host.write_views({"a": 1}, {"w": {}}),
    "snapshot": snapshot,
    "quarantine": quarantine,
    "end attempt": end_attempt,
}


def prepare(disk: ModelDisk, durability: str) -> Promises:
    """A bus with a past: a failed task, an attempt, a message that waits, things that belong nowhere."""
    process = disk.process()
    process.mkdir("/track")
    disk.root.sync()
    promises = Promises(power=durability == "power")
    host = open_host(ROOT, durability=durability, fs=process)
    promises.commit(host, stage(host, "TASK_FAILED", "1", error="x"))
    process.close(host.create_attempt(ATTEMPT))
    open_hand(ROOT, ATTEMPT, fs=process).publish(OLD_MESSAGE, durable=True)
    promises.messages.add(OLD_MESSAGE.id)
    host.close()
    process.kill()
    disk.write(f"{ROOT}/inbox/noise", b"no message")
    return promises


def tear(disk: ModelDisk) -> None:
    """The last line of the journal is unfinished."""
    path = f"{ROOT}/{layout.JOURNAL}"
    disk.write(path, disk.read(path) + b'{"seq":2,"ep')


def check(disk: ModelDisk, durability: str, promises: Promises) -> None:
    """Come back and look."""
    follower = Follower()
    host = open_host(ROOT, durability=durability, fs=disk.process(), follower=follower)
    records = list(host.records())
    ids = [record.id for record in records]
    assert follower.count == len(ids) == len(set(ids))
    assert set(promises.records) <= set(ids)
    check_events(disk, records)
    scan = host.scan()
    found = {one.message.id for one in scan.messages}
    assert promises.messages <= found | set(ids)
    assert found <= {OLD_MESSAGE.id, MESSAGE.id} or host.read_exit(ATTEMPT) == EXIT
    assert [order.verb for order in scan.controls] in ([["stop"]] if promises.order else [[], ["stop"]])
    if promises.result:
        assert host.read_exit(ATTEMPT) == EXIT
        assert any(one.message.type == "RESULT" for one in scan.messages)
    if promises.plan:
        assert host.load_plan(promises.plan) == PLAN
    kept = disk.files(f"{ROOT}/{layout.QUARANTINE}")
    for name in kept:  # what a foreign hand made is moved aside unsynced, and a power cut may keep that alone
        assert name.endswith(".why") or f"{name}.why" in kept or (promises.power and layout.JOURNAL not in name)
    if not promises.power:  # after a power cut nobody holds it any more
        folders = {path.rpartition("/")[0] for path in disk.paths(f"{ROOT}/attempts")}
        assert all(disk.find(f"{folder}/live") for folder in folders)
    assert {layout.scratch_owner(name) for name in disk.names(f"{ROOT}/tmp")} <= {ATTEMPT}
    host.close()
    check_idempotent(disk, durability)


def check_events(disk: ModelDisk, records: list[Record]) -> None:
    view, wanted = View(), dict[str, bytes]()
    for record in records:
        gone, come = view.apply(record)
        for name in gone:
            wanted.pop(name, None)
        wanted.update(come)
    assert disk.files(f"{ROOT}/{layout.EVENTS}") == wanted


def check_idempotent(disk: ModelDisk, durability: str) -> None:
    """Another start changes nothing but what says who started; a record can be added, and is seen."""
    before = contents(disk)
    host = open_host(ROOT, durability=durability, fs=disk.process(), follower=Follower())
    assert contents(disk) == before
    record = stage(host, "TASK_COMPLETE", "9", unblocks=[])
    host.commit()
    host.project([record])
    assert "TASK_COMPLETE_9.event" in disk.files(f"{ROOT}/events")
    reader = open_reader(ROOT, fs=disk.process())
    assert list(reader.records())[-1] == record


def contents(disk: ModelDisk) -> dict[str, bytes]:
    passing = (layout.EPOCHS, layout.HOLDER, layout.SNAPSHOTS)
    paths = (path for path in disk.paths(ROOT) if not path.removeprefix(f"{ROOT}/").startswith(passing))
    return {path: disk.read(path) for path in paths}


def crashed(disk: ModelDisk, how: str, random: Random) -> None:
    if how == "power cut":
        disk.power_cut(random)
    for process in list(disk.processes):
        process.kill()


def start_and_crash(disk: ModelDisk, durability: str, how: str, random: Random) -> None:
    """A recovery that is cut off somewhere."""
    process = disk.process()
    process.dies_at = random.randint(1, 150)
    with suppress(Killed):
        open_host(ROOT, durability=durability, fs=process, follower=Follower())
    crashed(disk, how, random)


def points(
    durability: str, how: str, run: Callable[[ModelDisk, Promises, int], bool], tear_first: bool = False
) -> Iterator[int]:
    """Crash at call 1, 2, … until it comes to its end; check after each."""
    at = 0
    ended = False
    while not ended:
        at += 1
        for luck in range(2 if how == "power cut" and at % 2 else 1):
            random = Random(f"{at} {luck}")
            disk = ModelDisk(random)
            promises = prepare(disk, durability)
            if tear_first:
                tear(disk)
            ended = run(disk, promises, at)
            crashed(disk, how, random)
            if random.random() < 0.5:
                start_and_crash(disk, durability, how, random)
            check(disk, durability, promises)
        yield at


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing of these tests is spent on writing what only takes up room."""
    monkeypatch.setattr(reserve, "SIZE", 256)


CRASHES = [("process", "kill"), ("power", "power cut")]


@pytest.mark.parametrize(("durability", "how"), CRASHES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_requirement_3_crash_at_every_call(name: str, durability: str, how: str) -> None:
    def run(disk: ModelDisk, promises: Promises, at: int) -> bool:
        process = disk.process()
        host = open_host(ROOT, durability=durability, fs=process)
        process.dies_at = process.calls + at
        try:
            OPERATIONS[name](host, promises)
        except Killed:
            return False
        return True

    assert max(points(durability, how, run)) > 1


@pytest.mark.parametrize(("durability", "how"), CRASHES)
def test_requirement_3_crash_at_every_call_of_a_recovery(durability: str, how: str) -> None:
    """A torn end is cut off, quarantined and told, what is in tmp is swept, events follow."""

    def run(disk: ModelDisk, promises: Promises, at: int) -> bool:
        process = disk.process()
        process.dies_at = at
        try:
            open_host(ROOT, durability=durability, fs=process, follower=Follower())
        except Killed:
            return False
        return True

    assert max(points(durability, how, run, tear_first=True)) > 50


@pytest.mark.parametrize(("durability", "how"), CRASHES)
def test_requirement_3_crash_at_every_call_of_the_first_start(durability: str, how: str) -> None:
    at, ended = 0, False
    while not ended:
        at += 1
        random = Random(at)
        disk = ModelDisk(random)
        process = disk.process()
        process.mkdir("/track")
        disk.root.sync()
        process.dies_at = process.calls + at
        with suppress(Killed):
            open_host(ROOT, durability=durability, fs=process)
            ended = True
        crashed(disk, how, random)
        host = open_host(ROOT, durability=durability, fs=disk.process())
        assert list(host.records()) == []
        assert not any(name.startswith("legacy") for name in disk.names(ROOT))
    assert at > 50
