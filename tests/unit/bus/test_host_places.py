"""Where a bus may be, and what happens when it is taken away: folders that are no bus, replaced and removed files."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bus import layout
from bus._fs import FileSystem
from bus.errors import BusError, BusGone, BusUnsafe, NoSpace
from bus.hand import open_hand
from bus.host import open_host
from bus.reader import open_reader
from bus.wire import Message, Stamp, TaskId

NOW = Stamp(1.0, 2.0, "boot")
ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


@pytest.mark.parametrize("names", [["src", ".git"], ["plan.md"], ["events", "plan.md"], ["notes"]])
def test_requirement_28_a_folder_that_is_no_bus_is_refused_and_not_touched(root: Path, names: list[str]) -> None:
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    for name in names:
        (root / name).mkdir()
    with pytest.raises(BusUnsafe, match="no bus and not empty"):
        open_host(root, durability="process")
    assert sorted(path.name for path in root.iterdir()) == sorted(names)
    assert root.stat().st_mode & 0o777 == 0o755
    with pytest.raises(BusGone, match="no bus"):
        open_reader(root)


def test_an_empty_folder_becomes_a_bus(root: Path) -> None:
    root.mkdir(mode=0o755)
    open_host(root, durability="process").close()
    assert root.stat().st_mode & 0o777 == 0o700


def test_folders_above_a_bus_are_made(root: Path) -> None:
    """A place below a home that is still empty, as `--bus-dir ~/.local/state/my-track` names it."""
    place = root / "local" / "state" / "my-track"
    open_host(place).close()
    open_reader(place).close()
    assert {folder.stat().st_mode & 0o777 for folder in (root, root / "local", place)} == {0o700}
    (root / "file").write_text("")
    with pytest.raises(BusError, match="cannot be made"):
        open_host(root / "file" / "bus")


@pytest.mark.parametrize("remove", [False, True])
def test_requirement_10_a_journal_that_was_replaced_stops_its_writer(root: Path, remove: bool) -> None:
    host = open_host(root, durability="process")
    host.stage("NOTE", {"text": "kept"}, NOW)
    host.commit()
    journal = root / "queue.jsonl"
    body = journal.read_bytes()
    journal.unlink()
    if not remove:
        journal.write_bytes(body)
    host.stage("NOTE", {"text": "lost otherwise"}, NOW)
    with pytest.raises(BusGone, match="replaced or removed"):
        host.commit()


@pytest.mark.parametrize("what", [".", "inbox", "tmp", "events", "control"])
def test_a_bus_that_is_removed_in_use_is_said_to_be_gone_or_is_mended(root: Path, what: str) -> None:
    host = open_host(root, durability="process")
    shutil.rmtree(root / what)
    try:
        host.scan()
        os.close(host.create_attempt(ATTEMPT))
        host.write_views({}, {"x": 1})
        host.stage("NOTE", {"text": "x"}, NOW)
        host.commit()
    except BusGone:
        assert what == "."
    else:
        assert what != "."


def test_too_many_open_files_is_not_said_to_be_a_missing_folder(root: Path) -> None:
    open_host(root, durability="process").close()

    class NoDescriptors(FileSystem):
        def open_directory(self, name: Any, *, at: int | None = None) -> int:
            if at is not None:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open_directory(name)

    with pytest.raises(BusError, match="Too many open files"):
        open_host(root, durability="process", fs=NoDescriptors())


@pytest.mark.parametrize("call", ["mkdir", "create", "rename"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_requirement_32_an_attempt_that_finds_no_space_leaves_nothing(root: Path, call: str, number: int) -> None:
    full = False

    class Full(FileSystem):
        def __getattribute__(self, name: str) -> Any:
            def refuse(*args: Any, **kwargs: Any) -> Any:
                raise OSError(number, os.strerror(number))

            return refuse if full and name == call else super().__getattribute__(name)

    host = open_host(root, durability="process", fs=Full())
    os.close(host.create_attempt(layout.attempt_id(TaskId("0"), 1, "0a1b2c3d")))
    full = True
    with pytest.raises(NoSpace):
        host.create_attempt(ATTEMPT, {"prompt.md": b"x"})
    full = False
    assert list((root / "tmp").iterdir()) == []
    os.close(host.create_attempt(ATTEMPT, {"prompt.md": b"x"}))
    assert host.has_attempt(ATTEMPT)


def test_an_event_is_replaced_though_the_archive_was_just_removed(root: Path) -> None:
    host = open_host(root, durability="process")
    record = host.stage("TASK_COMPLETE", {"task_id": "1", "unblocks": []}, NOW, task=TaskId("1"))
    host.commit()
    (root / "events" / "TASK_COMPLETE_1.event").write_text("made by hand")
    (root / "events" / "archive").rmdir()
    host.project([record])
    assert record.id in (root / "events" / "TASK_COMPLETE_1.event").read_text()
    assert [path.read_text() for path in (root / "events" / "archive").iterdir()] == ["made by hand"]


def test_a_message_goes_into_the_inbox_that_is_read(root: Path) -> None:
    """Not into the one that the worker had opened before it was moved away."""
    host = open_host(root, durability="process")
    os.close(host.create_attempt(ATTEMPT))
    hand = open_hand(root, ATTEMPT)
    hand.publish(Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "1"}))
    (root / "inbox").rename(root / "inbox.old")
    (root / "inbox").mkdir(mode=0o700)
    hand.publish(Message("cd" * 16, "NOTE", ATTEMPT, "t", {"text": "2"}))
    assert [one.message.payload for one in host.scan().messages] == [{"text": "2"}]
