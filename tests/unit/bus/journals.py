"""What tests of the journal share: a follower, and hands that put records in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bus._fs import FileSystem
from bus.contract import Snapshot
from bus.host import FileHost, open_host
from bus.reader import open_reader
from bus.wire import JsonObject, Record, Stamp, TaskId

NOW = Stamp(1.0, 2.0, "boot")


class Texts:
    """A follower whose state is the texts of all records, in order."""

    def __init__(self, *, understands: bool = True, dumps: bool = True) -> None:
        self.texts: list[str] = []
        self.taken: list[int] = []
        self.understands = understands
        self.dumps = dumps

    def restore(self, snapshot: Snapshot, load_plan: Callable[[str], bytes]) -> bool:
        if self.understands:
            self.texts = list(snapshot.state["texts"])
        return self.understands

    def take(self, record: Record, load_plan: Callable[[str], bytes]) -> None:
        self.texts.append(record.payload.get("text", record.type))
        self.taken.append(record.seq)

    def dump(self) -> JsonObject | None:
        return {"texts": self.texts} if self.dumps else None


def start(
    root: Path | str, follower: Texts | None = None, fs: FileSystem | None = None, durability: str = "power"
) -> FileHost:
    """Take the track."""
    return open_host(root, durability=durability, follower=follower, fs=fs)


def put(host: FileHost, *texts: str, size: int = 0) -> None:
    """Record notes in one batch."""
    for text in texts:
        host.stage("NOTE", {"text": text + "." * size}, NOW)
    host.commit()


def final(host: FileHost, type: str, task: str, **payload: Any) -> None:
    """Record and project a task's final word."""
    record = host.stage(type, {"task_id": task, **payload}, NOW, task=TaskId(task))
    host.commit()
    host.project([record])


def texts(root: Path | str, since: int = 0, fs: FileSystem | None = None) -> list[str]:
    """What the journal says."""
    return [record.payload.get("text", record.type) for record in open_reader(root, fs=fs).records(since)]


def names(folder: Path) -> list[str]:
    """The names in a folder."""
    return sorted(path.name for path in folder.iterdir())
