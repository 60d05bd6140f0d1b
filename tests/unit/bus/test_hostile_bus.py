"""Foreign things in every place of a bus, with host and worker at work (requirements 5, 26, 27).

Nothing outside is touched, nothing is followed, nobody is stopped; what stood in the way is kept with its reason.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bus import inbox, layout
from bus._fs import FileSystem
from bus.errors import BusError, BusUnsafe
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.quarantine import Quarantine
from bus.upkeep import CLAIMS_AT_ONCE
from bus.wire import Message, ProcRecord, Stamp, TaskId
from tests.hostile import KINDS, plant, untouched

NOW = Stamp(1.0, 2.0, "boot")
ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
NEXT = layout.attempt_id(TaskId("1.2"), 1, "1a1b2c3d")
PLAN = b"the plan"
LONG = "x" * 5000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


def work(root: Path, host: FileHost, meddle: Callable[[], None]) -> dict[str, str]:
    """Do all that host and worker do, `meddle` in the middle of it; return what was set aside, with the reasons."""
    os.close(host.create_attempt(ATTEMPT))
    hand = open_hand(root, ATTEMPT)
    hand.claim(ProcRecord("boot", 1, 2, host.epoch))
    meddle()
    aside: dict[str, str] = {}
    texts: list[str] = []

    def look(*, running: bool = True) -> None:
        scan = host.scan({TaskId("1.1"): ATTEMPT} if running else {})
        aside.update((found.name, found.reason) for found in scan.quarantined)
        for item in scan.messages:
            host.stage(item.message.type, item.message.payload, NOW, id=item.message.id, attempt=ATTEMPT)
            texts.extend(text for text in (item.message.payload.get("text"),) if text)
        host.commit()
        host.discard([*scan.messages, *scan.controls])

    look()
    with suppress(OSError, BusError):  # a worker goes on without
        hand.beat({})
    with suppress(OSError, BusError):
        hand.report_status({"pct": 50})
    hand.publish(Message(os.urandom(16).hex(), "NOTE", ATTEMPT, "t", {"text": "a word"}))
    look()
    host.is_live(ATTEMPT)
    host.heartbeat(ATTEMPT)
    host.read_worker_status(ATTEMPT)
    sha = host.freeze_plan(PLAN)
    assert host.load_plan(sha) == PLAN
    os.close(host.create_attempt(NEXT))
    other = open_hand(root, NEXT)
    assert other.claim(ProcRecord("boot", 3, 4, host.epoch))
    assert other.newest_epoch() == host.epoch
    host.write_views({}, {"w": {"n": 1}})
    host.revoke(ATTEMPT, "timeout")
    assert hand.revoked() is not None
    failed = host.stage("TASK_FAILED", {"task_id": "1.1", "error": LONG}, NOW, task=TaskId("1.1"), attempt=ATTEMPT)
    host.commit()
    host.project([failed])
    done = host.stage("TASK_COMPLETE", {"task_id": "1.1", "unblocks": ["1.2"]}, NOW, task=TaskId("1.1"))
    host.commit()
    host.project([done])
    host.close_attempt(ATTEMPT)
    host.checkpoint({"any": "state"})
    look(running=False)
    assert texts == ["a word"]
    for name in ("TASK_COMPLETE_1.1.event", "DEP_READY_1.2.event"):
        assert json.loads((root / "events" / name).read_text())["payload"]
    assert json.loads((root / "worker-status.json").read_text()) == {"w": {"n": 1}}
    return aside


PLACES = {
    "a message": f"inbox/{layout.message_name(ATTEMPT, 'ab' * 16)}",
    "a name in inbox": "inbox/what is this",
    "inbox": "inbox",
    "an order": "control/00000001-stop",
    "control": "control",
    "a claim": "events/TASK_COMPLETE_1.1.event",
    "an event to come": "events/DEP_READY_1.2.event",
    "an unknown event": "events/whatever",
    "events": "events",
    "archive": "events/archive",
    "an archived event": "events/archive/TASK_FAILED_1.1.event.2",
    "a scratch file of a view": "tmp/00000001.worker-status.json",
    "a scratch file of an event": "tmp/00000001.event",
    "a scratch file of a worker": f"tmp/{ATTEMPT}.status-1",
    "a scratch folder of an attempt": f"tmp/00000001.{NEXT}",
    "tmp": "tmp",
    "a bucket of attempts": f"attempts/{layout.bucket(NEXT)}",
    "the lock of a worker": f"{layout.attempt_dir(ATTEMPT)}/live",
    "the claim of a worker": f"{layout.attempt_dir(ATTEMPT)}/proc.json",
    "an order to stop": f"{layout.attempt_dir(ATTEMPT)}/revoked",
    "a report": f"{layout.attempt_dir(ATTEMPT)}/report.json",
    "a heartbeat": f"heartbeats/{ATTEMPT}",
    "heartbeats": "heartbeats",
    "a status": f"worker-status/{ATTEMPT}.json",
    "worker-status": "worker-status",
    "a plan": f"plan/{'0' * 64}.json",
    "plan": "plan",
    "a blob": f"blobs/{'0' * 64}",
    "blobs": "blobs",
    "a snapshot": "snapshots/000000000001.json",
    "snapshots": "snapshots",
    "an unknown segment": "segments/whatever",
    "segments": "segments",
    "a thing in quarantine": "quarantine/00000001-x",
    "a reason in quarantine": "quarantine/00000001-x.why",
    "quarantine": "quarantine",
    "the next epoch": "epochs/00000002",
    "a far epoch": "epochs/99999999",
    "waits": "waits",
    "locks": "locks",
    "conductor.json": "conductor.json",
    "locks.json": "locks.json",
    "worker-status.json": "worker-status.json",
    "an unknown name": "whatever",
}


TELLING = ("symlink to a folder", "dangling symlink", "fifo", "folder", "sparse file", "device", "file of somebody")
"""Kinds that differ in how a system call takes them; the others behave like one of these in most places."""

CASES = [
    *((place, kind) for place in PLACES for kind in TELLING if kind in KINDS),
    *((place, kind) for place in ("a message", "an order", "the claim of a worker") for kind in KINDS),
]

SHOWN = {
    **dict.fromkeys(("a message", "an order"), ""),
    **dict.fromkeys(("a name in inbox",), "no message's name"),
    "a claim": "hand-made claim",
    "the next epoch": "no conductor made this epoch",
}
"""What the reason says of what is always set aside."""

FOLDERS = ("inbox", "control", "events", "tmp", "heartbeats", "worker-status", "plan", "blobs", "a bucket of attempts")
FILES = ("a heartbeat", "a status", "locks.json", "worker-status.json")


def must_be_shown(place: str, kind: str) -> str | None:
    """Return what the reason must say; None where the thing stands in nobody's way, or goes without a word."""
    if place in FOLDERS:
        return "stood in the place of the folder" if kind != "folder" else None
    if place in FILES:
        return "" if kind == "folder" else None
    return SHOWN.get(place)


@pytest.mark.parametrize(("place", "kind"), sorted(set(CASES)))
def test_requirement_27_nothing_foreign_is_followed_or_stops_anybody(
    root: Path, tmp_path: Path, place: str, kind: str
) -> None:
    with untouched(tmp_path) as outside:
        host = open_host(root, durability="process")
        aside = work(root, host, lambda: plant(kind, root / PLACES[place], outside))
        host.close()
        host = open_host(root, durability="process")
        assert [record.type for record in host.records()][-1] == "TASK_COMPLETE"
        assert (root / "epochs" / layout.epoch_name(host.epoch)).is_file()
        host.close()
    expected = must_be_shown(place, kind)
    if expected is not None:
        [(name, reason)] = aside.items()
        assert expected in reason
        assert json.loads((root / "quarantine" / f"{name}.why").read_text())["reason"] == reason
        assert os.path.lexists(root / "quarantine" / name)


BODIES = {
    "a message too long": b'{"text":"' + b"x" * (1 << 20) + b'"}',
    "too deep": b"[" * 33 + b"]" * 33,
    "much too deep": b"[" * 200_000,
    "a key twice": b'{"target":"a","target":"b"}',
    "not a number": b'{"epoch":NaN}',
    "infinity": b'{"epoch":Infinity}',
    "a lone surrogate": b'{"target":"\\ud800"}',
    "a NUL": b'{"target":"a\0b"}',
    "no UTF-8": b'{"target":"\xff"}',
    "no object": b"[]",
    "noise": bytes(range(256)),
}


@pytest.mark.parametrize("body", BODIES)
def test_requirement_26_what_does_not_parse_is_set_aside(root: Path, body: str) -> None:
    host = open_host(root, durability="process")
    message = BODIES[body]
    sealed = message + b"\nsha256:" + hashlib.sha256(message).hexdigest().encode() + b"\n"
    (root / "inbox" / layout.message_name(ATTEMPT, "ab" * 16)).write_bytes(sealed)
    (root / "control" / "00000001-stop").write_bytes(message)
    scan = host.scan()
    assert (scan.messages, scan.controls) == ((), ())
    assert len(scan.quarantined) == 2
    for found in scan.quarantined:
        assert (root / "quarantine" / found.name).read_bytes() in (sealed, message)


NAMES = [b"new\nline", b"bell\a", b"\xff\xfe", b"a" * 255, b"-rf", b"%n%s", b"~", "ümläut".encode(), b"\xe2\x80\xae"]


@pytest.mark.parametrize("name", NAMES)
def test_requirement_5_names_of_any_bytes_are_set_aside_with_a_reason(root: Path, name: bytes) -> None:
    host = open_host(root, durability="process")
    for folder in (b"inbox", b"control"):
        Path(os.fsdecode(os.path.join(bytes(root), folder, name))).write_text("content")
    found = host.scan().quarantined
    assert [(root / "quarantine" / one.name).read_text() for one in found] == ["content"] * 2
    assert all(one.name.isascii() and one.name.isprintable() for one in found)
    why = json.loads((root / "quarantine" / f"{found[0].name}.why").read_text())
    assert why["name"] == ascii(os.fsdecode(name))[1:-1]


@pytest.mark.parametrize("fit", [False, True], ids=["names of nothing", "messages of nobody"])
def test_requirement_27_junk_in_masses_is_worked_off_in_bounded_looks(
    root: Path, monkeypatch: pytest.MonkeyPatch, fit: bool
) -> None:
    monkeypatch.setattr(inbox, "SCAN_FILES", 20)
    monkeypatch.setattr(inbox, "SCAN_ASIDE", 10)
    host = open_host(root, durability="process")
    os.close(host.create_attempt(ATTEMPT))
    for number in range(100):
        (root / "inbox" / (f"0~1-00000000.{number:016x}.msg" if fit else f"junk-{number}")).write_text("junk")
    open_hand(root, ATTEMPT).publish(Message("ab" * 16, "NOTE", ATTEMPT, "t", {"text": "a word"}))
    looks = [host.scan() for _ in range(12)]
    assert max(len(look.quarantined) for look in looks) == 10
    assert sum(len(look.quarantined) for look in looks) == 100
    heard = [number for number, look in enumerate(looks) if look.messages]
    assert heard[0] == (9 if fit else 0)
    assert all(look.more == (number < 9 and fit) for number, look in enumerate(looks))


def test_requirement_27_what_cannot_be_moved_is_told_once_and_passed_over(root: Path) -> None:
    class Stubborn(FileSystem):
        def rename(self, name: str | bytes, at: int, new: str, new_at: int) -> None:
            if name == b"what":
                raise PermissionError(errno.EACCES, "Permission denied")
            super().rename(name, at, new, new_at)

    host = open_host(root, durability="process", fs=Stubborn())
    (root / "inbox" / "what").mkdir()
    (root / "control" / "other").mkdir()
    (first, second) = host.scan().quarantined
    assert (first.name, second.name) == ("inbox/what", "00000002-other")
    assert "cannot be removed" in first.reason
    assert host.scan().quarantined == ()
    assert sorted(path.name for path in (root / "quarantine").iterdir()) == ["00000002-other", "00000002-other.why"]
    (root / "other").write_text("another matter")
    (root / "inbox" / "what").rmdir()
    (root / "other").rename(root / "inbox" / "what")
    assert [found.name for found in host.scan().quarantined] == ["inbox/what"]  # which cannot be moved either
    assert host.scan().quarantined == ()


def test_a_rewritten_view_is_kept_shown_and_written_again(root: Path) -> None:
    host = open_host(root, durability="process")
    host.write_views({}, {"w": {"n": 1}})
    (root / "worker-status.json").write_text('{"w":"mine"}')
    host.write_views({}, {"w": {"n": 1}})
    [found] = host.scan().quarantined
    assert found.foreign
    assert (root / "quarantine" / found.name).read_text() == '{"w":"mine"}'
    assert json.loads((root / "worker-status.json").read_text()) == {"w": {"n": 1}}
    host.write_views({}, {"w": {"n": 1}})
    assert host.scan().quarantined == ()


def test_a_claim_is_asked_for_by_turns_and_told_with_what_it_is_about(root: Path) -> None:
    host = open_host(root, durability="process")
    running = {TaskId(str(n)): layout.attempt_id(TaskId(str(n)), 1, "0a1b2c3d") for n in range(2 * CLAIMS_AT_ONCE)}
    for task in running:
        (root / "events" / f"TASK_FAILED_{task}.event").touch()
    (root / "events" / "TASK_FAILED_other.event").touch()
    first, second = host.scan(running).quarantined, host.scan(running).quarantined
    assert (len(first), len(second)) == (CLAIMS_AT_ONCE, CLAIMS_AT_ONCE)
    assert {(found.task, found.attempt) for found in (*first, *second)} == set(running.items())
    assert [path.name for path in (root / "events").glob("*.event")] == ["TASK_FAILED_other.event"]


def test_what_people_claim_of_manual_tasks_is_told_until_the_journal_says_it(root: Path) -> None:
    host = open_host(root, durability="process")
    events = root / "events"
    done, failed, open_still = TaskId("1"), TaskId("a/b"), TaskId("3")
    (events / layout.event_name("TASK_COMPLETE", done)).touch()
    (events / layout.event_name("TASK_FAILED", failed)).write_text(" no paper\n")
    asked = (done, failed, open_still)
    found = {(claim.task, claim.type, claim.text) for claim in host.scan(manual=asked).claims}
    assert found == {(done, "TASK_COMPLETE", None), (failed, "TASK_FAILED", "no paper")}
    assert len(host.scan(manual=asked).claims) == 2, "found again until it is recorded"
    assert host.scan(manual=[open_still]).claims == ()
    record = host.stage("TASK_COMPLETE", {"task_id": "1"}, Stamp(0.0, 0.0, "boot"), task=done)
    host.commit()
    host.project([record])
    assert [claim.task for claim in host.scan(manual=asked).claims] == [failed]
    assert json.loads((events / "TASK_COMPLETE_1.event").read_text())["seq"] == record.seq
    assert (events / "archive" / "TASK_COMPLETE_1.event.0").read_bytes() == b"", "the claim is kept"


@pytest.mark.parametrize("stuck", [False, True])
def test_requirement_14_a_claim_that_came_to_nothing_is_not_found_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, stuck: bool
) -> None:
    """Otherwise each look would find and record it anew. One that somebody writes later is another claim."""
    host = open_host(root, durability="process")
    task = TaskId("1")
    path = root / "events" / "TASK_COMPLETE_1.event"
    path.write_text("done")
    [claim] = host.scan(manual=[task]).claims
    if stuck:
        monkeypatch.setattr(Quarantine, "take", _immovable)
    host.settle([(claim, "not now")])
    found = host.scan(manual=[task])
    assert found.claims == ()
    assert [(one.task, one.reason) for one in found.quarantined] == ([] if stuck else [(task, "not now")])
    assert path.exists() == stuck
    path.unlink(missing_ok=True)
    assert host.scan(manual=[task]).claims == ()
    path.write_text("done now")
    assert [one.text for one in host.scan(manual=[task]).claims] == ["done now"]


def _immovable(*_: object, **__: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("how", ["both", "blocked", "link", "folder", "large", "no text"])
def test_a_claim_of_a_manual_task_that_says_nothing_clear_is_set_aside(root: Path, how: str) -> None:
    host = open_host(root, durability="process")
    complete = root / "events" / "TASK_COMPLETE_1.event"
    match how:
        case "both":
            complete.touch()
            complete.with_name("TASK_FAILED_1.event").touch()
        case "blocked":
            complete.with_name("TASK_BLOCKED_1.event").touch()
        case "link":
            complete.symlink_to("/etc/passwd")
        case "folder":
            complete.mkdir()
        case "large":
            complete.write_bytes(b"x" * 5000)
        case "no text":
            complete.write_bytes(b"\xff")
    found = host.scan(manual=[TaskId("1")])
    assert found.claims == ()
    assert {one.task for one in found.quarantined} == {"1"}
    assert all("hand-made claim" in one.reason for one in found.quarantined)
    assert list((root / "events").glob("*.event")) == []


def test_a_claim_that_was_made_while_no_conductor_lived_is_found_by_the_next(root: Path) -> None:
    host = open_host(root, durability="process")
    record = host.stage("TASK_COMPLETE", {"task_id": "2"}, Stamp(0.0, 0.0, "boot"), task=TaskId("2"))
    host.commit()
    host.project([record])
    host.close()
    for name in ("TASK_COMPLETE_1", "TASK_FAILED_2", "TASK_COMPLETE_3"):
        (root / "events" / f"{name}.event").touch()
    manual = [TaskId("1"), TaskId("2")]
    host = open_host(root, durability="process", manual=lambda: manual)
    assert [(claim.task, claim.type) for claim in host.scan(manual=manual).claims] == [("1", "TASK_COMPLETE")]
    kept = {path.name for path in (root / "events").glob("*.event")}
    assert kept == {"TASK_COMPLETE_1.event", "TASK_COMPLETE_2.event"}, "task 2 is done, and 3 is no manual task"


def test_a_lock_that_is_no_file_is_refused(root: Path) -> None:
    open_host(root, durability="process").close()
    (root / "conductor.lock").unlink()
    os.mkfifo(root / "conductor.lock")
    with pytest.raises(BusUnsafe, match="no file of our own"):
        open_host(root, durability="process")
