"""The model disk does what a real one does, keeps what was synced, and loses what POSIX lets it lose."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bus._fs import FileSystem
from conductor.testing import Killed, ModelDisk, ModelProcess

NAMES = ("a", "b", "sub", "sub/c")
FLAGS = (
    os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    os.O_RDONLY | os.O_DIRECTORY, os.O_RDWR | os.O_CREAT | os.O_APPEND,
)  # fmt: skip


def test_every_system_call_of_the_bus_is_modelled() -> None:
    """A method of FileSystem that calls no other method of it is a system call."""
    for name, method in inspect.getmembers(FileSystem, inspect.isfunction):
        body = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(method))))
        composed = any(isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" for node in body)
        assert composed or name in ModelProcess.__dict__, f"{name} reaches the real disk"


class Twins:
    """The same calls on a real disk and on the model."""

    def __init__(self, path: Path, random: Random) -> None:
        self.random = random
        self.real, self.model = FileSystem(), ModelDisk(random).process()
        self.fds: list[tuple[int, int]] = [(self.real.open_directory(str(path)), self.model.open_directory("/"))]
        self.call("chmod_fd", self.fds[0], 0o755)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Make a call on both; `args` that are pairs of descriptors are taken apart."""
        results = []
        for side, fs in enumerate((self.real, self.model)):
            mine = [arg[side] if isinstance(arg, tuple) else arg for arg in args]
            more = {key: value[side] if isinstance(value, tuple) else value for key, value in kwargs.items()}
            try:
                results.append(getattr(fs, name)(*mine, **more))
            except OSError as error:
                results.append(errno.errorcode[error.errno or 0])
        return results[0], results[1]

    def step(self) -> None:
        random, root = self.random, self.fds[0]
        name, other, fd = random.choice(NAMES), random.choice(NAMES), random.choice(self.fds)
        data = random.randbytes(random.randint(0, 5))
        calls: dict[str, Callable[[], tuple[Any, Any]]] = {
            "open": lambda: self.opened(*self.call("open", name, random.choice(FLAGS), at=root)),
            "write": lambda: self.call("write", fd, data),
            "read": lambda: self.call("read", fd, 4),
            "read_at": lambda: self.call("read_at", fd, 4, random.choice((0, 2))),
            "truncate": lambda: self.call("truncate", fd, random.choice((0, 3, 9))),
            "open in": lambda: self.opened(*self.call("open", name, random.choice(FLAGS), at=fd)),
            "mkdir in": lambda: self.call("mkdir", name, at=fd),
            "link into": lambda: self.call("link", name, root, other, fd),
            "rename into": lambda: self.call("rename", name, root, other, fd),
            "link": lambda: self.call("link", name, root, other, root),
            "rename": lambda: self.call("rename", name, root, other, root),
            "unlink": lambda: self.call("unlink", name, root),
            "rmdir": lambda: self.call("rmdir", name, root),
            "mkdir": lambda: self.call("mkdir", name, at=root),
            "chmod": lambda: self.call("chmod_fd", fd, 0o640),
            "touch": lambda: self.call("touch", name, root),
            "lock": lambda: self.call("lock", fd, shared=random.random() < 0.5),
            "stat": lambda: self.seen(*self.call("stat", name, at=root)),
            "stat_fd": lambda: self.seen(*self.call("stat_fd", fd)),
            "names": lambda: self.listed(*self.call("names", fd)),
            "close": lambda: self.closed(),
        }
        kind = random.choice(list(calls))
        real, model = calls[kind]()
        assert real == model, f"{kind} {name} {other}: {real} on a real disk, {model} on the model"

    def closed(self) -> tuple[Any, Any]:
        if len(self.fds) == 1:
            return None, None
        return self.call("close", self.fds.pop(self.random.randrange(1, len(self.fds))))

    def listed(self, real: Any, model: Any) -> tuple[Any, Any]:
        return sorted(real), sorted(model)

    def opened(self, real: Any, model: Any) -> tuple[Any, Any]:
        if isinstance(real, int) and isinstance(model, int):
            self.fds.append((real, model))
            return None, None
        return real, model

    def seen(self, real: Any, model: Any) -> tuple[Any, Any]:
        if isinstance(real, str) or isinstance(model, str):
            return real, model
        is_file = real.st_mode & 0o100000
        fields = ("st_mode", "st_uid", *(("st_nlink", "st_size") if is_file else ()))
        return tuple([getattr(one, field) for field in fields] for one in (real, model))  # type: ignore[return-value]


def test_the_model_does_what_a_real_disk_does(tmp_path: Path) -> None:
    for seed in range(60):
        path = tmp_path / str(seed)
        path.mkdir()
        twins = Twins(path, Random(seed))
        for _ in range(150):
            twins.step()
        for real, _ in twins.fds:
            os.close(real)


def disk_with(synced: bytes, behind: bytes, seed: int) -> tuple[ModelDisk, ModelProcess]:
    """A file `f` whose name and first bytes are synced."""
    disk = ModelDisk(Random(seed))
    process = disk.process()
    root = process.open_directory("/")
    process.create("f", synced, at=root, sync=True)
    process.sync(root)
    fd = process.open("f", os.O_WRONLY | os.O_APPEND, at=root)
    process.write(fd, behind)
    return disk, process


def test_a_power_cut_keeps_what_was_synced_and_tears_the_rest() -> None:
    synced, behind, found = b"s" * 100, b"b" * 300, set()
    for seed in range(200):
        disk, _ = disk_with(synced, behind, seed)
        disk.power_cut()
        data = disk.read("/f")
        assert data[:100] == synced
        assert set(data[100:]) <= set(b"b\0")
        found.add(
            "nothing" if data == synced else "all" if data == synced + behind else "zeros" if b"\0" in data else "cut"
        )
    assert found == {"nothing", "all", "zeros", "cut"}


def test_a_power_cut_drops_names_in_any_combination_but_a_rename_is_one_step() -> None:
    found = set()
    for seed in range(200):
        disk = ModelDisk(Random(seed))
        process = disk.process()
        root = process.open_directory("/")
        for name in ("old", "gone"):
            process.create(name, name.encode(), at=root, sync=True)
        process.mkdir("folder", at=root)
        process.sync(root)
        process.rename("old", root, "new", root)
        process.unlink("gone", root)
        process.link("new", root, "second", root)
        disk.power_cut()
        names = set(disk.names("/"))
        assert len(names & {"old", "new"}) == 1
        assert "folder" in names
        found.add(frozenset(names))
    assert len(found) == 8


def test_a_synced_name_does_not_keep_bytes_and_synced_bytes_keep_no_name() -> None:
    lost_bytes, lost_names = False, False
    for seed in range(50):
        disk = ModelDisk(Random(seed))
        process = disk.process()
        root = process.open_directory("/")
        process.create("named", b"x" * 200, at=root)
        process.sync(root)
        process.create("full", b"y" * 200, at=root, sync=True)
        disk.power_cut()
        lost_bytes |= disk.read("/named") != b"x" * 200
        lost_names |= "full" not in disk.names("/")
    assert lost_bytes
    assert lost_names


def test_what_a_failed_sync_dropped_is_written_by_no_later_one() -> None:
    disk, process = disk_with(b"a", b"b", 0)
    fd = process.open("/f", os.O_RDWR | os.O_APPEND)
    disk.faults.failing_syncs = 1
    with pytest.raises(OSError, match="Input/output"):
        process.sync(fd)
    process.write(fd, b"c")
    process.sync(fd)
    assert disk.read("/f") == b"abc"
    assert disk.durable("/f") == b"a\0c"
    process.truncate(fd, 1)
    process.write(fd, b"d")
    process.sync(fd)
    assert disk.durable("/f") == b"ad"


def test_a_killed_process_lets_go_of_its_locks_and_makes_no_more_calls() -> None:
    disk = ModelDisk()
    one, two = disk.process(), disk.process()
    held, wanted = one.open("/l", os.O_RDWR | os.O_CREAT), two.open("/l", os.O_RDWR)
    assert one.lock(held)
    assert not two.lock(wanted, shared=True)
    passed_on = one.give(held, two)
    disk.crash_process(one)
    assert not two.lock(wanted)
    two.close(passed_on)
    assert two.lock(wanted)
    with pytest.raises(Killed):
        one.open("/l", os.O_RDONLY)


def test_a_full_disk_takes_a_part_then_nothing() -> None:
    disk, process = disk_with(b"a", b"b", 0)
    fd = process.open("/f", os.O_RDWR | os.O_APPEND)
    disk.faults.room = 3
    assert process.write(fd, b"12345") == 3
    with pytest.raises(OSError, match="No space left"):
        process.write(fd, b"45")
    process.truncate(fd, 2)
    assert process.write(fd, b"12") == 2
    disk.faults.read_only = True
    with pytest.raises(OSError, match="Read-only"):
        process.unlink("/f", process.open_directory("/"))


def test_a_new_name_may_be_listed_late_by_others() -> None:
    disk = ModelDisk(Random(1))
    one, two = disk.process(), disk.process()
    disk.late = 0.9
    root = one.open_directory("/")
    one.create("f", b"", at=root)
    one.link("f", root, "g", root)
    assert "g" in one.names(root)
    other = two.open_directory("/")
    seen = ["g" in two.names(other) for _ in range(20)]
    assert not all(seen)
    assert seen == sorted(seen), "once it is seen it stays"
