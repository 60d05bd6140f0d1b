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
from bus import watch as watch_module
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.watch import ECHO, RETRY, Watch
from bus.wire import Message, TaskId

ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
WAIT = 10.0


class Clock:
    """The clock of the watch, which stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watch_module, "time", clock)
    return clock


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


def settle(watch: Watch, bell: Bell) -> None:
    """Hear the proof that the watch begins with, and nothing of it later."""
    while any(count == 0 for count in watch._heard.values()):
        assert bell.wait()
    bell.silence()


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
    settle(watch, bell)
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
    open_hand(host.folders.path, ATTEMPT).beat({})
    host.discard([*scan.messages, *scan.controls])
    host.scan()
    # Events keep their order, so whatever the above had caused would come before this one.
    publish(host)
    assert bell.wait()
    assert bell.is_silent()


@pytest.mark.parametrize("folder", ["inbox", "control"])
def test_requirement_8_a_replaced_folder_is_watched_anew(host: FileHost, watch: Watch, bell: Bell, folder: str) -> None:
    path = Path(host.folders.path) / folder
    shutil.rmtree(path)
    path.mkdir(mode=0o700)
    assert not watch.working
    assert watch.tend()
    settle(watch, bell)
    publish(host)
    assert bell.wait()
    settle(watch, bell)
    control.drop(Path(host.folders.path), "stop", who="me")
    assert bell.wait()
    assert watch.tend()


def test_requirement_8_a_removed_folder_is_watched_once_it_is_back(host: FileHost, bell: Bell, clock: Clock) -> None:
    said: list[str] = []
    watch = Watch(host.folders.path, bell, said.append)
    watch.start()
    shutil.rmtree(Path(host.folders.path) / "inbox")
    assert not watch.tend()
    assert not watch.tend()
    assert [text for text in said if "looking every 250 ms" in text] == said
    host.scan()  # makes it again
    clock.now += RETRY
    assert watch.tend()
    publish(host)
    assert bell.wait()
    assert said[1:] == ["file events work again"]
    watch.stop()


def test_requirement_8_a_raising_handler_loses_nothing_and_is_watched_anew(host: FileHost, bell: Bell) -> None:
    broken = True

    def wake() -> None:
        bell()
        if broken:
            raise RuntimeError("broken")

    watch = Watch(host.folders.path, wake)
    watch.start()
    assert bell.wait()
    while watch.working:
        assert bell.wait()
    broken = False
    assert watch.tend()
    settle(watch, bell)
    publish(host)
    assert bell.wait()
    assert watch.working
    watch.stop()


def test_requirement_8_a_dead_thread_is_noticed(host: FileHost, watch: Watch, bell: Bell, clock: Clock) -> None:
    clock.now += ECHO
    assert watch.tend()
    watch._observer.stop()  # type: ignore[union-attr]
    watch._observer.join(WAIT)  # type: ignore[union-attr]
    assert not watch.working
    assert watch.tend()
    settle(watch, bell)
    publish(host)
    assert bell.wait()


class Deaf(Watch):
    """A watch to which no event comes, as on a file system that delivers none, or with a thread that hangs."""

    deaf = True

    def _on_event(self, folder: str) -> None:
        if not self.deaf:
            super()._on_event(folder)


def test_requirement_8_where_no_event_arrives_it_polls_and_says_so(host: FileHost, bell: Bell, clock: Clock) -> None:
    said: list[str] = []
    watch = Deaf(host.folders.path, bell, said.append)
    watch.start()
    assert watch.tend()
    clock.now += ECHO
    for _ in range(3):
        assert not watch.tend()
    assert said == ["no file events arrive; looking every 250 ms instead"]
    watch.deaf = False
    clock.now += RETRY
    assert watch.tend()
    settle(watch, bell)
    clock.now += ECHO
    assert watch.tend()
    assert said[1:] == ["file events work again"]
    watch.stop()


def test_requirement_8_a_watch_that_falls_silent_is_begun_anew(host: FileHost, bell: Bell, clock: Clock) -> None:
    watch = Deaf(host.folders.path, bell)
    watch.deaf = False
    watch.start()
    settle(watch, bell)
    clock.now += ECHO
    assert watch.tend()
    before = watch._observer
    watch.deaf = True
    clock.now += RETRY
    assert watch.tend()  # begins the next proof
    watch.deaf = False
    clock.now += ECHO
    assert watch.tend()
    assert watch._observer is not before
    settle(watch, bell)
    publish(host)
    assert bell.wait()
    watch.stop()


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
