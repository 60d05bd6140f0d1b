"""The watch is a hint: what it wakes for, what it does not, how it fails (requirements 8, 9)."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus import control, layout
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.watch import Watch
from bus.wire import Message, TaskId

ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
WAIT = 10.0


class Bell:
    """Counts wakes; waits for one."""

    def __init__(self) -> None:
        self.rung = threading.Semaphore(0)

    def __call__(self) -> None:
        self.rung.release()

    def wait(self) -> bool:
        return self.rung.acquire(timeout=WAIT)

    def silence(self) -> None:
        while self.rung.acquire(blocking=False):
            pass

    def is_silent(self) -> bool:
        return not self.rung.acquire(blocking=False)


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def host(tmp_path: Path) -> FileHost:
    host = open_host(tmp_path / "bus", durability="process")
    os.close(host.create_attempt(ATTEMPT))
    return host


@pytest.fixture
def watch(host: FileHost, bell: Bell) -> Iterator[Watch]:
    watch = Watch(host.folders.path, bell)
    watch.start()
    yield watch
    watch.stop()
    assert not watch.working


def publish(host: FileHost) -> None:
    open_hand(host.folders.path, ATTEMPT).publish(Message(os.urandom(16).hex(), "NOTE", ATTEMPT, "t", {"text": ""}))


def test_a_message_and_an_order_wake(host: FileHost, watch: Watch, bell: Bell) -> None:
    assert watch.working
    publish(host)
    assert bell.wait()
    bell.silence()
    control.drop(Path(host.folders.path), "stop", who="me")
    assert bell.wait()


def test_requirement_9_own_reads_and_removals_do_not_wake(host: FileHost, watch: Watch, bell: Bell) -> None:
    for _ in range(3):
        publish(host)
        assert bell.wait()
    control.drop(Path(host.folders.path), "stop", who="me")
    assert bell.wait()
    bell.silence()
    scan = host.scan()
    open_hand(host.folders.path, ATTEMPT).beat()
    host.discard([*scan.messages, *scan.controls])
    host.scan()
    # Events keep their order, so whatever the above had caused would come before this one.
    publish(host)
    assert bell.wait()
    assert bell.is_silent()


def test_requirement_8_a_replaced_folder_is_noticed(host: FileHost, watch: Watch) -> None:
    inbox = Path(host.folders.path) / "inbox"
    shutil.rmtree(inbox)
    inbox.mkdir(mode=0o700)
    assert not watch.working
    assert "replaced" in (watch.why or "")


@pytest.mark.parametrize("number", [28, 24])  # ENOSPC, EMFILE
def test_requirement_8_without_inotify_it_says_so(
    host: FileHost, bell: Bell, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    import watchdog.observers

    class Exhausted(watchdog.observers.Observer):  # type: ignore[misc, valid-type]
        def schedule(self, *args: object, **kwargs: object) -> None:
            raise OSError(number, "inotify watch limit reached")

    monkeypatch.setattr(watchdog.observers, "Observer", Exhausted)
    watch = Watch(host.folders.path, bell)
    watch.start()
    assert not watch.working
    assert "inotify watch limit reached" in (watch.why or "")
    watch.stop()


def test_without_watchdog_it_says_so(host: FileHost, bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchdog.observers", None)
    watch = Watch(host.folders.path, bell)
    watch.start()
    assert not watch.working
