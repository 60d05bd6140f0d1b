"""What `bus.probe` proves on a mount, and that it sees each thing that does not hold."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bus import probe
from bus._fs import FileSystem
from bus.probe import prove
from bus.watch import Watch


class Odd(FileSystem):
    """A file system that is odd in one way: `does` takes the place of the call `name`."""

    def __init__(self, name: str, does: Callable[..., Any]) -> None:
        setattr(self, name, does)


def fails(number: int) -> Callable[..., Any]:
    def call(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


def test_a_good_file_system_holds_everything_and_is_left_as_it_was(tmp_path: Path) -> None:
    found = prove(str(tmp_path))
    assert (found.refused, found.failed, found.events, found.case_sensitive) == (None, {}, None, True)
    assert found.longest_name == 255
    assert found.free_bytes > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "does", "what"),
    [
        ("link", fails(errno.EPERM), "link"),
        ("link", lambda *_: None, "link"),
        ("create", lambda *_, **__: None, "exclusive"),
        ("rename", lambda *_: None, "rename"),
        ("rename", fails(errno.EXDEV), "rename"),
        ("sync", fails(errno.EINVAL), "directory_sync"),
        ("lock", lambda *_, **__: True, "lock"),
        ("lock", lambda *_, **__: False, "lock"),
        ("lock", fails(errno.ENOLCK), "lock"),
    ],
)
def test_what_does_not_hold_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, does: Callable[..., Any], what: str
) -> None:
    monkeypatch.setattr(probe, "EVENT_LIMIT", 0.0)
    found = prove(str(tmp_path), fs=Odd(name, does))
    assert found.failed[what]
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_replaces_is_seen(tmp_path: Path) -> None:
    def link(name: str, at: int, new: str, new_at: int) -> None:
        if os.path.exists(f"/proc/self/fd/{new_at}/{new}"):
            os.unlink(new, dir_fd=new_at)
        os.link(name, new, src_dir_fd=at, dst_dir_fd=new_at)

    assert prove(str(tmp_path), fs=Odd("link", link)).failed == {"link": "a link replaced a file that was there"}


def test_without_file_events_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "EVENT_LIMIT", 0.01)
    real = Watch.__init__
    monkeypatch.setattr(Watch, "__init__", lambda self, root, wake: real(self, root, lambda: None))
    assert prove(str(tmp_path)).events == "no file event came within 0.01 s"
    monkeypatch.setattr(Watch, "start", lambda _: None)
    assert prove(str(tmp_path)).events == "not started"


def test_a_mount_without_case_and_with_short_names(tmp_path: Path) -> None:
    def stat(name: str, *, at: int | None = None) -> os.stat_result:
        return os.stat(name.lower(), dir_fd=at)

    assert prove(str(tmp_path), fs=Odd("stat", stat)).case_sensitive is False

    def open_short(name: str, flags: int, mode: int = 0o600, *, at: int | None = None) -> int:
        if len(os.path.basename(name)) > 143:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        return os.open(name, flags, mode, dir_fd=at)

    assert prove(str(tmp_path), fs=Odd("open", open_short)).longest_name == 143


@pytest.mark.parametrize(("number", "full"), [(errno.EROFS, True), (errno.ENOSPC, True), (errno.EACCES, False)])
@pytest.mark.parametrize("call", ["mkdir", "write"])
def test_what_cannot_be_written_is_told_with_the_reason(tmp_path: Path, call: str, number: int, full: bool) -> None:
    found = prove(str(tmp_path), fs=Odd(call, fails(number)))
    assert (found.refused, found.full) == (os.strerror(number), full)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_that_is_needed_is_the_longest_that_a_bus_makes() -> None:
    from bus.layout import attempt_id, message_name, quarantine_name, status_name
    from bus.wire import TaskId

    attempt = attempt_id(TaskId("x" * 120), 999_999_999, "0" * 8)
    report = f"{attempt}.report-{'0' * 32}"
    names = (report, message_name(attempt, "0" * 32), status_name(attempt), quarantine_name(1, b"n" * 255) + ".why")
    assert max(map(len, names)) <= probe.LONGEST_NEEDED
