"""The two buses behind one face, so that one suite tests both."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from bus import control
from bus.contract import Follower, Hand, Host, Reader
from bus.hand import open_hand
from bus.host import open_host
from bus.memory import MemoryBus
from bus.reader import open_reader
from bus.wire import AttemptId


class Bus(Protocol):
    """What a test needs of a bus."""

    def host(self, *, follower: Follower | None = None) -> Host: ...
    def reader(self) -> Reader: ...
    def hand(self, attempt: AttemptId) -> Hand: ...
    def drop(self, verb: str, *, target: str | None = None, who: str = "me", epoch: int | None = None) -> str: ...
    def events(self) -> dict[str, bytes]: ...


class FileBus:
    """A bus in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def host(self, *, follower: Follower | None = None) -> Host:
        return open_host(self.root, durability="process", follower=follower)

    def reader(self) -> Reader:
        return open_reader(self.root)

    def hand(self, attempt: AttemptId) -> Hand:
        return open_hand(self.root, attempt)

    def drop(self, verb: str, *, target: str | None = None, who: str = "me", epoch: int | None = None) -> str:
        return control.drop(self.root, verb, target=target, who=who, epoch=epoch)

    def events(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.root / "events").glob("*.event")}


class InMemory:
    """The bus of `bus.memory`."""

    def __init__(self) -> None:
        self.inner = MemoryBus()

    def host(self, *, follower: Follower | None = None) -> Host:
        return self.inner.host(follower=follower)

    def reader(self) -> Reader:
        return self.inner.reader()

    def hand(self, attempt: AttemptId) -> Hand:
        return self.inner.hand(attempt)

    def drop(self, verb: str, *, target: str | None = None, who: str = "me", epoch: int | None = None) -> str:
        return self.inner.drop(verb, target=target, who=who, epoch=epoch)

    def events(self) -> dict[str, bytes]:
        return dict(self.inner.events)


@pytest.fixture(params=["file", "memory"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Bus:
    return FileBus(tmp_path / "bus") if request.param == "file" else InMemory()
