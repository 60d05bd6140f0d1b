"""Grants and waits as files: processes that die at any call, disks that refuse, foreign hands, a mutex that is held."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from itertools import combinations, count
from pathlib import Path

import pytest

from bus import contention, layout, locks
from bus.contract import Busy, Grant
from bus.errors import AttemptRevoked, BusError, MutexHeld, Shortage
from bus.hand import FileHand, open_hand
from bus.host import FileHost, open_host
from bus.locks import FileStore
from bus.reader import open_reader
from bus.wire import ExitRecord, TaskId
from conductor.testing import Killed, ModelDisk
from tests.hostile import plant, untouched

ROOT = "/track/bus"
ONE = layout.attempt_id(TaskId("1"), 1, "0a1b2c3d")
TWO = layout.attempt_id(TaskId("2"), 1, "1a1b2c3d")
AB = [("a", False), ("b", False)]
BC = [("b", False), ("c", True)]


class World:
    """A bus on a model disk with two attempts; each hand is a process of its own."""

    def __init__(self) -> None:
        self.disk = ModelDisk()
        self.disk.process("setup").mkdir("/track")
        self.host = open_host(ROOT, durability="process", fs=self.disk.process("conductor"))
        for attempt in (ONE, TWO):
            self.host.fs.close(self.host.create_attempt(attempt))
        self.one, self.two = self.hand(ONE), self.hand(TWO)

    def hand(self, attempt: layout.AttemptId) -> FileHand:
        return open_hand(ROOT, attempt, fs=self.disk.process(attempt))

    def scratch(self) -> list[str]:
        return self.disk.names(f"{ROOT}/{layout.TMP}")


def two_holders(grants: tuple[Grant, ...]) -> list[tuple[Grant, Grant]]:
    return [
        (a, b)
        for a, b in combinations(grants, 2)
        if contention.in_the_way(a.attempt, [(a.keys, a.shared)], None, [b], ())[0]
    ]


def take(hand: FileHand) -> None:
    hand.try_lock(AB, queue=True)


def take_and_release_a_part(hand: FileHand) -> None:
    hand.try_lock(AB, queue=True)
    hand.unlock(["a"])


def wait_for_it(hand: FileHand) -> None:
    hand.begin_wait("task", ["9"])
    hand.end_wait(hand.begin_wait("question", text="which?"))


OPERATIONS = (take, take_and_release_a_part, wait_for_it)


def at_each_call(operation: Callable[[FileHand], None], *, busy: bool) -> Iterator[World]:
    """Yield a world for each call of an operation, in which its process was killed at that call."""
    for call in count(1):
        world = World()
        if busy:
            world.two.try_lock(BC)
        process = world.disk.processes[-2]
        process.dies_at = process.calls + call
        try:
            operation(world.one)
        except Killed:
            yield world
        else:
            assert call > 10
            return


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_requirement_11_who_is_killed_at_any_call_keeps_nobody_out_once_its_attempt_is_closed(
    operation: Callable[[FileHand], None], busy: bool
) -> None:
    for world in at_each_call(operation, busy=busy):
        found = world.two.try_lock(AB, queue=True)
        held = world.host.grants()
        assert not two_holders(held)
        assert isinstance(found, Busy) == any(grant.attempt == ONE for grant in held)
        assert all(wait.attempt == TWO for wait in world.host.waits())
        world.host.close_attempt(ONE)
        world.host.close_attempt(TWO)
        assert world.host.grants() == world.host.waits() == ()
        assert isinstance(world.hand(TWO).try_lock(AB), tuple)
        world.host.close()
        assert world.scratch() == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_disk_that_fills_up_at_any_byte_leaves_no_half_of_a_grant_or_wait(
    operation: Callable[[FileHand], None],
) -> None:
    for room in range(0, 600, 7):
        world = World()
        world.disk.faults.room = room
        with suppress(OSError):
            operation(world.one)
        world.disk.faults.room = None
        assert not [file for file in world.scratch() if not file.endswith(".token")]
        assert world.disk.names(f"{ROOT}/quarantine") == []
        operation(world.hand(ONE))
        assert not two_holders(world.host.grants())
        assert world.disk.names(f"{ROOT}/quarantine") == []


def test_without_hard_links_grants_and_waits_are_as_whole() -> None:
    world = World()
    world.disk.faults.no_links = True
    assert isinstance(world.one.try_lock(AB), tuple)
    busy = world.two.try_lock(BC, queue=True)
    assert isinstance(busy, Busy)
    assert {wait.what for wait in world.host.waits()} == {("b",), ("c",)}
    world.one.unlock()
    assert isinstance(world.two.try_lock(BC, queue=True), tuple)
    assert world.scratch() == []


def test_tokens_go_on_where_their_count_was_lost() -> None:
    world = World()
    world.one.try_lock(AB)
    (first,) = world.host.grants()
    for body in (b"nonsense", b"", b"-5"):
        world.disk.write(f"{ROOT}/locks/.token", body)
        world.two.unlock()
        world.two.try_lock([("z", False)])
        assert world.host.grants()[-1].token > first.token


def test_who_removed_the_mutex_gives_nobody_a_second_hold() -> None:
    """Two processes that hold mutexes of two inodes would both grant; the second looks at the name again."""
    world = World()
    process = world.disk.processes[-2]
    real = process.lock_mutex

    def removed_meanwhile(fd: int) -> bool:
        done = real(fd)
        process.lock_mutex = real  # type: ignore[method-assign]
        process.unlink(layout.MUTEX, world.one._folders.fd(layout.LOCKS))
        return done

    process.lock_mutex = removed_meanwhile  # type: ignore[method-assign]
    world.one.try_lock(AB)
    assert isinstance(world.two.try_lock(AB), Busy)


def test_a_place_in_the_queue_that_somebody_removed_is_taken_again() -> None:
    world = World()
    world.one.try_lock(AB)
    assert isinstance(world.two.try_lock(AB, queue=True), Busy)
    for wait in world.host.waits():
        world.host.fs.unlink(layout.wait_name(wait.attempt, wait.id), world.host.folders.fd(layout.WAITS))
    world.one.unlock()
    world.one.try_lock([("a", False)])
    assert isinstance(world.two.try_lock(AB, queue=True), Busy)
    world.one.unlock()
    world.one.try_lock([("c", False)])
    assert isinstance(world.two.try_lock(AB, queue=True), tuple)
    assert world.host.waits() == ()


def test_a_process_that_died_while_it_waited_is_nobodys_hindrance() -> None:
    world = World()
    world.one.try_lock([("a", False)])
    world.two.try_lock(AB, queue=True)
    world.disk.processes[-1].kill()
    other = open_hand(ROOT, TWO, fs=world.disk.process())
    assert isinstance(other.try_lock([("b", False)]), tuple)
    assert open_reader(ROOT, fs=world.disk.process()).waits() == ()
    assert world.host.waits() == ()
    assert world.disk.names(f"{ROOT}/waits") == []


# --- on a real disk -------------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> FileHost:
    host = open_host(tmp_path / "bus", durability="process")
    for attempt in (ONE, TWO):
        os.close(host.create_attempt(attempt))
    return host


def test_who_stands_still_with_the_mutex_keeps_others_out_and_that_is_said(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_hand(tmp_path / "bus", ONE).try_lock(AB)
    monkeypatch.setattr(locks, "MUTEX_LIMIT", 0.02)
    fd = os.open(tmp_path / "bus" / "locks" / ".mutex", os.O_RDWR)
    assert host.fs.lock(fd)
    with pytest.raises(Shortage, match="mutex"):
        open_hand(tmp_path / "bus", TWO).try_lock(BC)
    assert len(host.grants()) == 1
    host.close_attempt(ONE)  # the conductor needs no mutex
    assert host.grants() == ()
    os.close(fd)
    assert isinstance(open_hand(tmp_path / "bus", TWO).try_lock(BC), tuple)


def test_the_mutex_is_that_of_filelock(host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setattr(locks, "MUTEX_LIMIT", 0.02)
    hand = open_hand(tmp_path / "bus", ONE)
    with FileLock(tmp_path / "bus" / "locks" / ".mutex", fallback_to_soft=False), pytest.raises(Shortage):
        hand.try_lock(AB)
    assert isinstance(hand.try_lock(AB), tuple)


@pytest.mark.parametrize(
    "unlock",
    [
        lambda hand, _: hand.unlock(["a"]),
        lambda hand, _: hand.unlock(["a", "b"]),
        lambda hand, found: hand.release(found),
    ],
)
def test_requirement_11_two_programs_of_one_attempt_that_unlock_at_once_leave_nothing_and_give_nobody_a_second_hold(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlock: Callable[[FileHand, object], None]
) -> None:
    """The one decides what is left of their grant; until it has the mutex, the other has released its part, and
    somebody else has locked that."""
    first, second, other = (open_hand(tmp_path / "bus", attempt) for attempt in (ONE, ONE, TWO))
    found = first.try_lock(AB)
    store = first._store
    assert store is not None
    alone = store.alone

    def late(patience: float | None = None) -> AbstractContextManager[None]:
        second.unlock(["b"])
        assert isinstance(other.try_lock([("b", False)]), tuple)
        return alone(patience)

    monkeypatch.setattr(store, "alone", late)
    unlock(first, found)
    assert [(grant.attempt, grant.keys) for grant in host.grants()] == [(TWO, ("b",))]


def test_what_was_taken_by_force_is_not_kept_in_part(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = open_hand(tmp_path / "bus", ONE)
    hand.try_lock(AB)
    add = FileStore.add

    def taken_meanwhile(store: FileStore, grant: Grant) -> None:
        host.take_grants(host.grants())
        add(store, grant)

    monkeypatch.setattr(FileStore, "add", taken_meanwhile)
    hand.unlock(["a"])
    assert host.grants() == ()


def test_who_does_not_want_to_wait_does_not_wait_for_the_mutex(host: FileHost, tmp_path: Path) -> None:
    hand = open_hand(tmp_path / "bus", ONE)
    fd = os.open(tmp_path / "bus" / "locks" / ".mutex", os.O_RDWR | os.O_CREAT)
    assert host.fs.lock(fd)
    for call in (
        lambda: hand.try_lock(AB, patience=0.01),
        lambda: hand.unlock(["a"], patience=0.01),
        lambda: hand.release([], patience=0.01),
    ):
        with pytest.raises(MutexHeld, match=f"process {os.getpid()} holds the mutex"):
            call()
    os.close(fd)


def test_an_attempt_that_ends_while_it_is_granted_a_lock_gets_none(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = open_hand(tmp_path / "bus", ONE)
    add = FileStore.add

    def ended_meanwhile(store: FileStore, grant: Grant) -> None:
        open_hand(tmp_path / "bus", ONE).finish(ExitRecord(True, "self"))
        add(store, grant)

    monkeypatch.setattr(FileStore, "add", ended_meanwhile)
    with pytest.raises(AttemptRevoked, match="over"):
        hand.try_lock(AB)
    assert host.grants() == ()


@pytest.mark.parametrize("kind", ["folder", "fifo", "symlink to a folder"])
@pytest.mark.parametrize("name", [".mutex", ".token"])
def test_requirement_27_what_stands_in_the_place_of_the_mutex_or_the_count_is_set_aside(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.setattr(locks, "MUTEX_LIMIT", 0.02)
    hand = open_hand(tmp_path / "bus", ONE)
    with untouched(tmp_path) as outside:
        plant(kind, tmp_path / "bus" / "locks" / name, outside)
        with suppress(BusError, OSError):
            hand.try_lock(AB)
        host.grants()
        assert isinstance(hand.try_lock(AB), tuple)


FOREIGN = {
    "notes.txt": b"x",
    f"{ONE}.0a1b2c3d.grant": b"{",
    f"{ONE}.1a1b2c3d.grant": b'{"keys":[],"shared":false,"token":1}',
    f"{ONE}.2a1b2c3d.grant": b'{"keys":["a"],"shared":1,"token":1}',
    f"{ONE}.3a1b2c3d.grant": b'["a"]',
    f"{ONE}.4a1b2c3d.json": b'{"keys":["a"],"shared":false,"token":1}',
}


@pytest.mark.parametrize("folder", [layout.LOCKS, layout.WAITS])
def test_requirement_5_what_is_neither_grant_nor_wait_is_nobodys_and_set_aside(
    host: FileHost, tmp_path: Path, folder: str
) -> None:
    for name, body in FOREIGN.items():
        (tmp_path / "bus" / folder / name).write_bytes(body)
    (tmp_path / "bus" / folder / f"{TWO}.5a1b2c3d.{'grant' if folder == layout.LOCKS else 'json'}").mkdir()
    assert isinstance(open_hand(tmp_path / "bus", TWO).try_lock(AB), tuple)
    assert len(host.grants()) == 1
    assert host.waits() == ()
    assert [name for name in os.listdir(tmp_path / "bus" / folder) if not name.startswith(".")] == (
        [layout.grant_name(TWO, host.grants()[0].id)] if folder == layout.LOCKS else []
    )
    told = host.scan().quarantined
    assert len(told) >= (7 if folder == layout.LOCKS else 1)
    assert all(found.reason.endswith(f"files that {folder}/ is for") for found in told)


def test_a_wait_that_says_nothing_right_is_set_aside_though_somebody_holds_it(host: FileHost, tmp_path: Path) -> None:
    bodies = [b"{", b"[]", b'{"kind":"x"}', b'{"kind":"lock","what":[1]}', b'{"kind":"lock","ticket":true}']
    held = []
    for number, body in enumerate(bodies):
        path = tmp_path / "bus" / "waits" / f"{ONE}.{number:08x}.json"
        path.write_bytes(body)
        held.append(os.open(path, os.O_RDWR))
        assert host.fs.lock(held[-1])
    assert host.waits() == ()
    assert len(host.scan().quarantined) == len(bodies)
    for fd in held:
        os.close(fd)


def test_a_shortage_is_no_proof_that_nothing_is_held(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_hand(tmp_path / "bus", ONE).try_lock(AB)
    open_hand(tmp_path / "bus", ONE).begin_wait("task", ["2"])
    reader = open_reader(tmp_path / "bus")

    def short(*_: object, **__: object) -> tuple[int, os.stat_result]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(reader.fs, "open_regular", short)
    for look in (reader.grants, reader.waits):
        with pytest.raises(OSError, match="Too many open files"):
            look()


def test_a_bus_of_a_version_without_locks_gets_them_when_they_are_needed(host: FileHost, tmp_path: Path) -> None:
    for folder in (layout.LOCKS, layout.WAITS):
        with suppress(FileNotFoundError):
            os.unlink(tmp_path / "bus" / folder / layout.MUTEX)
        os.rmdir(tmp_path / "bus" / folder)
    assert open_reader(tmp_path / "bus").grants() == open_reader(tmp_path / "bus").waits() == ()
    assert isinstance(open_hand(tmp_path / "bus", ONE).try_lock(AB), tuple)
    assert isinstance(open_hand(tmp_path / "bus", TWO).try_lock(AB, queue=True), Busy)
