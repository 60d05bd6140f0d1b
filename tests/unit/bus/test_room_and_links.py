"""Disks that cannot be written, file systems without hard links, users with odd umasks (requirements 1, 2, 32)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bus import control, layout
from bus._fs import FileSystem
from bus.errors import AlreadyFinished, BusError, JournalBlocked, NoSpace
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.reader import open_reader
from bus.wire import ExitRecord, Message, ProcRecord, Stamp, TaskId
from conductor.testing.disk import ModelDisk, ModelProcess

NOW = Stamp(1.0, 2.0, "boot")
ATTEMPT = layout.attempt_id(TaskId("1"), 1, "0a1b2c3d")
OTHER = layout.attempt_id(TaskId("2"), 1, "0a1b2c3d")
WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the limit on the size of files",
    errno.EROFS: "the file system is read-only",
}


class Unwritable(FileSystem):
    """Refuses whatever changes the disk, while `error` is set. `short`: a write takes a part first."""

    def __init__(self) -> None:
        self.error: int | None = None
        self.short = self._took = False

    def _refuse(self) -> None:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))

    def open(self, name: str | bytes, flags: int, mode: int = 0o600, *, at: int | None = None) -> int:
        if flags & os.O_CREAT:
            self._refuse()
        return super().open(name, flags, mode, at=at)

    def write(self, fd: int, data: bytes) -> int:
        if self.error is not None and self.short and not self._took:
            self._took = True
            return super().write(fd, data[: len(data) // 2])
        self._took = False
        self._refuse()
        return super().write(fd, data)


def _refusing(name: str) -> Callable[..., Any]:
    def call(self: Unwritable, *args: Any, **kwargs: Any) -> Any:
        self._refuse()
        return getattr(FileSystem, name)(self, *args, **kwargs)

    return call


for _name in ("link", "rename", "unlink", "rmdir", "mkdir", "touch"):
    setattr(Unwritable, _name, _refusing(_name))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


@pytest.fixture
def disk() -> Unwritable:
    return Unwritable()


@pytest.fixture
def host(root: Path, disk: Unwritable) -> FileHost:
    host = open_host(root, durability="process", fs=disk)
    os.close(host.create_attempt(ATTEMPT))
    return host


def commit(host: FileHost, text: str) -> None:
    host.stage("NOTE", {"text": text}, NOW)
    host.commit()


@pytest.mark.parametrize("number", WORDS)
@pytest.mark.parametrize("short", [False, True])
def test_requirement_32_what_is_in_the_way_is_said_and_nothing_is_truncated(
    root: Path, disk: Unwritable, host: FileHost, number: int, short: bool
) -> None:
    commit(host, "before")
    before = (root / "queue.jsonl").read_bytes()
    disk.error, disk.short = number, short
    host.stage("NOTE", {"text": "kept"}, NOW)
    for _ in range(2):
        with pytest.raises(JournalBlocked, match=WORDS[number]):
            host.commit()
        assert (root / "queue.jsonl").read_bytes() == before
    assert WORDS[number] in (host.scan().blocked or "")
    with pytest.raises(NoSpace, match=WORDS[number]):
        host.create_attempt(OTHER)
    disk.error = None
    host.commit()
    assert host.scan().blocked is None
    assert [record.payload["text"] for record in open_reader(root).records()] == ["before", "kept"]


@pytest.mark.parametrize("number", WORDS)
def test_requirement_32_what_cannot_be_done_is_done_later_and_nothing_is_found_twice(
    root: Path, disk: Unwritable, host: FileHost, number: int
) -> None:
    hand = open_hand(root, ATTEMPT)
    hand.beat({})
    hand.publish(Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "x"}))
    control.drop(root, "noted", who="me")
    control.drop(root, "stop", who="me")
    (root / "inbox" / "noise").touch()
    disk.error = number
    scan = host.scan()
    assert (len(scan.messages), [order.verb for order in scan.controls]) == (1, ["noted", "stop"])
    assert scan.quarantined == ()
    host.discard([*scan.messages, scan.controls[0]])
    host.refuse(scan.controls[1], "meant for an earlier conductor")
    host.revoke(ATTEMPT, "timeout")
    host.write_views({}, {"w": {}})
    for _ in range(2):
        scan = host.scan()
        assert (scan.messages, scan.controls, scan.quarantined) == ((), (), ())
    assert len(os.listdir(root / "control")) == 2
    assert hand.revoked() is None
    disk.error = None
    scan = host.scan()
    assert sorted(found.reason for found in scan.quarantined) == [
        "meant for an earlier conductor",
        "no message's name: <attempt>.<16 hex digits>.msg",
    ]
    assert os.listdir(root / "inbox") == os.listdir(root / "control") == []
    assert hand.revoked() == "timeout"
    disk.error = number
    host.close_attempt(ATTEMPT)
    assert os.listdir(root / "heartbeats") == [ATTEMPT]
    disk.error = None
    host.scan()
    assert os.listdir(root / "heartbeats") == []


@pytest.mark.parametrize("number", WORDS)
def test_requirement_32_an_order_to_stop_that_was_never_written_is_given_up_with_its_attempt(
    root: Path, disk: Unwritable, host: FileHost, number: int
) -> None:
    disk.error = number
    host.revoke(ATTEMPT, "timeout")
    host.close_attempt(ATTEMPT)
    disk.error = None
    host.scan()
    assert open_hand(root, ATTEMPT).revoked() is None


def test_requirement_32_an_order_of_an_operator_says_why_it_cannot_be_handed_in(
    root: Path, disk: Unwritable, host: FileHost
) -> None:
    disk.error = errno.ENOSPC
    with pytest.raises(BusError, match="the disk is full"):
        control.drop(root, "stop", who="me", fs=disk)


def test_requirement_32_the_disk_tells_by_itself_that_it_is_full(
    root: Path, host: FileHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(root)

    def told(**changed: int) -> str | None:
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail", "f_flag")
        values = {**{name: getattr(real, name) for name in names}, **changed}
        found = os.statvfs_result((*values.values(), real.f_namemax))
        monkeypatch.setattr(FileSystem, "space", lambda self, fd: found)
        return host.scan().blocked

    assert told() is None
    assert told(f_bfree=0, f_bavail=0) == f"{WORDS[errno.ENOSPC]} (0 KiB free, 1.0 MiB needed to go on)"
    assert (root / "conductor.json").read_text().count("the disk is full") == 1
    assert told(f_ffree=0, f_favail=0) == f"{WORDS[errno.ENOSPC]} (room for 0 more files, for 16 needed to go on)"
    assert told(f_blocks=0, f_bfree=0, f_bavail=0, f_files=0, f_ffree=0, f_favail=0) is None
    assert told(f_flag=real.f_flag | os.ST_RDONLY) == WORDS[errno.EROFS]
    assert told() is None
    assert "paused" not in (root / "conductor.json").read_text()


# --- without hard links ----------------------------------------------------------------------------------------------


class NoLinks(FileSystem):
    """A file system without hard links. `meanwhile` happens just before a file is renamed into its place."""

    def __init__(self, number: int = errno.EPERM) -> None:
        self.number = number
        self.meanwhile: Callable[[], None] | None = None

    def link(self, name: str, at: int, new: str, new_at: int) -> None:
        raise OSError(self.number, os.strerror(self.number))

    def rename(self, name: str | bytes, at: int, new: str, new_at: int) -> None:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        super().rename(name, at, new, new_at)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def test_requirement_1_all_is_published_whole_and_once_without_hard_links(root: Path, number: int) -> None:
    fs = NoLinks(number)
    host = open_host(root, durability="power", fs=fs)
    os.close(host.create_attempt(ATTEMPT))
    hand = open_hand(root, ATTEMPT, fs=fs)
    assert hand.claim(ProcRecord("boot", 1, 2, 1))
    assert not open_hand(root, ATTEMPT, fs=fs).claim(ProcRecord("boot", 3, 4, 1))
    message = Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "x"})
    hand.publish(message)
    hand.publish(message)
    hand.finish(ExitRecord(True, "self"))
    with pytest.raises(BusError, match="has a result"):
        hand.finish(ExitRecord(False, "self"))
    assert [control.drop(root, "noted", who="me", fs=fs) for _ in range(2)] == ["00000001-noted", "00000002-noted"]
    host.freeze_plan(b"plan")
    host.freeze_plan(b"plan")
    done = host.stage("TASK_COMPLETE", {"task_id": "1", "unblocks": []}, NOW, task=TaskId("1"))
    host.commit()
    host.project([done])
    scan = host.scan()
    assert [item.message.type for item in scan.messages] == ["NOTE", "RESULT"]
    assert len(scan.controls) == 2
    assert scan.quarantined == ()
    proc = host.read_proc(ATTEMPT)
    assert proc is not None
    assert proc.pid == 1
    assert os.listdir(root / "tmp") == []
    assert not [name for folder in ("inbox", "control") for name in os.listdir(root / folder) if name[0] == "."]


def test_requirement_1_two_who_want_one_name_without_hard_links_get_two(root: Path) -> None:
    fs = NoLinks()
    open_host(root, durability="process", fs=fs).close()
    others: list[str] = []
    fs.meanwhile = lambda: others.append(control.drop(root, "noted", who="other", fs=fs))
    assert control.drop(root, "noted", who="me", fs=fs) == "00000001-noted"
    assert others == ["00000002-noted"]
    bodies = [json.loads((root / "control" / name).read_text()) for name in ("00000001-noted", "00000002-noted")]
    assert [body["who"] for body in bodies] == ["me", "other"]
    assert bodies[0]["id"] != bodies[1]["id"]


# --- umask -----------------------------------------------------------------------------------------------------------

MAKE_ALL = """
import os, sys
os.umask(0o777)
from pathlib import Path
from bus import control, layout
from bus.hand import open_hand
from bus.host import open_host
from bus.wire import ExitRecord, Message, ProcRecord, Stamp, TaskId
root = Path(sys.argv[1])
attempt = layout.attempt_id(TaskId("1"), 1, "0a1b2c3d")
host = open_host(root, durability="process")
os.close(host.create_attempt(attempt, {"prompt.md": b"do it"}))
hand = open_hand(root, attempt)
hand.claim(ProcRecord("boot", os.getpid(), 2, 1))
hand.beat({})
hand.report_status({"pct": 1})
hand.finish(ExitRecord(True, "self"))
control.drop(root, "noted", who="me")
(root / "inbox" / "noise").symlink_to("nowhere")
host.freeze_plan(b"plan")
record = host.stage("TASK_COMPLETE", {"unblocks": [], "text": "x" * 5000}, Stamp(1.0, 2.0, "b"), task=TaskId("1"))
host.commit()
host.project([record])
host.revoke(attempt, "stopped")
host.write_views({}, {"w": {}})
host.scan()
host.checkpoint({"any": "state"})
host.close()
open_host(root, durability="process").close()
"""


def test_no_umask_makes_what_we_cannot_use_ourselves(root: Path) -> None:
    subprocess.run([sys.executable, "-c", MAKE_ALL, str(root)], cwd=Path(layout.__file__).parents[1], check=True)
    modes = {str(path.relative_to(root)): path.lstat().st_mode & 0o777 for path in root.rglob("*")}
    modes = {name: mode for name, mode in modes.items() if not (root / name).is_symlink()}
    runnable = {name for name in modes if (root / name).is_dir() or name == "bin/conductor"}
    assert {name: oct(mode) for name, mode in modes.items() if mode != (0o700 if name in runnable else 0o600)} == {}


def test_a_result_that_was_written_before_the_disk_failed_is_safe_once_that_is_said() -> None:
    """The first call fails behind the link; the second finds the file there, and has all above it on disk, too."""
    disk = ModelDisk(Random(0))
    worker = disk.process()
    host = open_host("/bus", fs=disk.process())
    host.stage("WORKER_DISPATCHED", {}, NOW, task=TaskId("1"), attempt=ATTEMPT)
    host.commit()
    host.create_attempt(ATTEMPT)
    hand = open_hand("/bus", ATTEMPT, fs=worker)
    result = ExitRecord(started=True, ended_by="self", command={"code": 0, "signal": None})

    def fail(process: ModelProcess, call: str) -> None:
        disk.faults.read_only = call == "unlink" and process.about == f"{ATTEMPT}.exit"

    worker.before = fail
    with pytest.raises(OSError, match="Read-only"):
        hand.finish(result, durable=True)
    worker.before, disk.faults.read_only = None, False
    with pytest.raises(AlreadyFinished):
        hand.finish(result, durable=True)
    disk.power_cut(Random(5))
    found = open_host("/bus", fs=disk.process()).read_exit(ATTEMPT)
    assert found is not None
    assert found.command == result.command
