"""Something odd in the place of each name that a bus has, met by a start (requirement 27).

The names are those of `bus.layout`, so one that is added there is tried here.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bus import layout
from bus.control import drop
from bus.errors import BusError, BusUnsafe
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.losses import forget_cut, is_cut
from bus.wire import Message, Stamp, TaskId
from tests.hostile import plant, untouched

NOW = Stamp(1.0, 2.0, "boot")
ATTEMPT = layout.attempt_id(TaskId("1"), 1, "0a1b2c3d")

IN_AN_ATTEMPT = frozenset(
    {
        *(layout.LIVE, layout.PROC, layout.EXIT, layout.REVOKED, layout.REPORT),
        *(layout.STDOUT, layout.STDERR, layout.PROMPT, layout.TASK),
        *(layout.IN, layout.QUESTION, layout.ANSWER),
    }
)
ELSEWHERE = {
    layout.WRAPPER: f"{layout.BIN}/{layout.WRAPPER}",
    layout.MUTEX: f"{layout.LOCKS}/{layout.MUTEX}",
    layout.TOKEN: f"{layout.LOCKS}/{layout.TOKEN}",
}
NAMES = sorted(
    {
        f"{layout.attempt_dir(ATTEMPT)}/{name}" if name in IN_AN_ATTEMPT else ELSEWHERE.get(name, name)
        for constant, name in vars(layout).items()
        if constant.isupper() and isinstance(name, str) and not constant.startswith("_")
    }
)
REFUSED = {layout.FORMAT: "FORMAT cannot be read", layout.LOCK: "no file of our own", layout.JOURNAL: "damaged"}
"""Names without which nothing goes on, and what a start says of them. All else goes on without, or is made anew."""

TRIED = ("folder", "fifo", "symlink to a folder")

UNREAD = frozenset({layout.GITIGNORE})
"""Nothing of ours reads it; `doctor` tells of it."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


def start(root: Path) -> FileHost:
    """Begin as a run does."""
    host = open_host(root, durability="process")
    if is_cut(host.folders):
        forget_cut(host.folders)
    return host


def work(host: FileHost) -> None:
    """One pass of a run."""
    host.scan()
    host.stage("NOTE", {"text": "on"}, NOW)
    host.commit()
    host.write_views({}, {"x": 1})
    host.close()


@pytest.mark.parametrize("kind", TRIED)
@pytest.mark.parametrize("name", NAMES)
def test_requirement_27_a_start_puts_aside_what_stands_in_a_place_or_says_what_to_do(
    root: Path, tmp_path: Path, name: str, kind: str
) -> None:
    host = start(root)
    os.close(host.create_attempt(ATTEMPT))
    work(host)
    with untouched(tmp_path) as outside:
        plant(kind, root / name, outside)
        if name in REFUSED:
            with pytest.raises(BusError, match=REFUSED[name]) as caught:
                start(root)
            assert caught.value.path
            assert caught.value.hint
            assert (root / name).lstat()
            return
        work(start(root))
        if kind == "folder" and "/" not in name and name not in layout.FOLDERS and name not in UNREAD:
            assert not (root / name).is_dir()
        work(start(root))


def test_requirement_27_a_folder_in_the_place_of_the_reserve_is_kept_and_told(root: Path) -> None:
    open_host(root).close()
    for name in (layout.RESERVE, layout.DOUBT):
        plant("folder", root / name, root)
    host = open_host(root)
    told = {found.name.partition("-")[2]: found.reason for found in host.scan().quarantined}
    assert told == dict.fromkeys((layout.RESERVE, layout.DOUBT), "a folder in the place of a file")
    assert {path.read_text() for path in (root / "quarantine").glob("*/inside")} == {"kept"}
    assert (root / layout.RESERVE).is_file()
    host.close()


def test_requirement_27_a_reserve_that_nobody_can_move_away_is_done_without(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_host(root).close()
    plant("folder", root / layout.RESERVE, root)
    monkeypatch.setattr("bus.upkeep.Upkeep.evict", lambda *_, **__: None)
    work(open_host(root))
    assert (root / layout.RESERVE).is_dir()


def test_requirement_27_a_lock_says_what_it_is(root: Path) -> None:
    open_host(root).close()
    says = {"folder": "Is a directory", "dangling symlink": "Too many levels", "fifo": "not a regular file"}
    for kind, reason in says.items():
        plant(kind, root / layout.LOCK, root)
        with pytest.raises(BusUnsafe) as caught:
            open_host(root)
        assert reason in caught.value.message
        assert caught.value.path == str(root / layout.LOCK)


def test_orders_and_messages_are_handed_in_where_a_folder_was_removed(root: Path) -> None:
    """The conductor makes its folders again only at its next look."""
    host = open_host(root)
    os.close(host.create_attempt(ATTEMPT))
    for name in (layout.TMP, layout.CONTROL, layout.INBOX):
        shutil.rmtree(root / name)
    drop(root, "stop", who="me")
    shutil.rmtree(root / layout.TMP)
    hand = open_hand(root, ATTEMPT)
    hand.publish(Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "a word"}))
    scan = host.scan()
    assert [control.verb for control in scan.controls] == ["stop"]
    assert [item.message.type for item in scan.messages] == ["NOTE"]
    host.close()
