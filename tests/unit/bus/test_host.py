"""The bus in a folder: who may open it, what lies in it, what hostile hands may put there (requirements 10, 24-28)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bus import control, inbox, layout
from bus.errors import AttemptExists, BusCorrupt, BusFormat, BusGone, BusUnsafe, HeldByOther
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.reader import open_reader
from bus.wire import AttemptId, ExitRecord, Message, Stamp, TaskId, encode_message
from tests.unit.bus.journals import put

NOW = Stamp(1.0, 2.0, "boot")
ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bus"


@pytest.fixture
def host(root: Path) -> FileHost:
    return open_host(root, durability="process")


def note(text: str = "x") -> Message:
    return Message(os.urandom(16).hex(), "NOTE", ATTEMPT, "t", {"text": text})


# --- opening ---------------------------------------------------------------------------------------------------------


def test_what_a_fresh_bus_holds(root: Path) -> None:
    open_host(root, durability="process", info={"track": "t"}).close()
    assert root.stat().st_mode & 0o777 == 0o700
    assert (root / ".gitignore").read_text() == "*\n"
    assert json.loads((root / "FORMAT").read_text())["major"] == 1
    holder = json.loads((root / "conductor.json").read_text())
    assert (holder["pid"], holder["epoch"], holder["track"]) == (os.getpid(), 1, "t")
    assert [path.name for path in (root / "epochs").iterdir()] == ["00000001"]
    assert list((root / "tmp").iterdir()) == []


def test_requirement_10_the_second_conductor_is_told_who_holds_the_track(root: Path, host: FileHost) -> None:
    with pytest.raises(HeldByOther, match=rf"pid {os.getpid()} on {socket.gethostname()} since 20"):
        open_host(root)
    assert (root / "conductor.lock").exists()


def test_the_lock_is_free_when_its_holder_is_dead(root: Path) -> None:
    code = (
        "import os, sys; from bus.host import open_host; h = open_host(sys.argv[1], durability='process'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], cwd=Path(layout.__file__).parents[1], check=False)
    assert open_host(root, durability="process").epoch == 2


def test_a_bus_of_an_older_program_is_moved_aside(root: Path) -> None:
    root.mkdir(mode=0o755)
    (root / "queue.jsonl").write_text('{"type":"TASK_COMPLETE"}\n')
    (root / "events").mkdir()
    (root / "events" / "TASK_COMPLETE_1.event").touch()
    host = open_host(root, durability="process")
    assert "legacy-1/" in host.notes[0]
    assert list(host.records()) == []
    assert (root / "legacy-1" / "events" / "TASK_COMPLETE_1.event").exists()
    assert root.stat().st_mode & 0o777 == 0o700
    host.close()
    assert open_host(root, durability="process").notes == []


def test_requirement_7_a_newer_major_format_is_refused(root: Path, host: FileHost) -> None:
    host.close()
    (root / "FORMAT").write_text('{"major":1,"minor":99,"later":true}')
    open_host(root, durability="process").close()
    (root / "FORMAT").write_text('{"major":2}')
    for opening in (open_host, open_reader):
        with pytest.raises(BusFormat):
            opening(root)


def test_requirement_28_a_bus_open_to_others_is_refused(root: Path, host: FileHost) -> None:
    host.close()
    root.chmod(0o750)
    for opening in (open_host, open_reader):
        with pytest.raises(BusUnsafe, match="others"):
            opening(root)
    open_host(root, durability="process", unsafe_fs=True).close()


def test_requirement_28_a_parent_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    parent = tmp_path / "open"
    parent.mkdir()
    parent.chmod(0o777)
    with pytest.raises(BusUnsafe, match="above the bus"):
        open_host(parent / "bus")
    parent.chmod(0o1777)
    open_host(parent / "bus", durability="process").close()


def test_requirement_28_a_link_or_a_file_is_no_bus(tmp_path: Path, root: Path, host: FileHost) -> None:
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        for opening in (open_host, open_reader):
            with pytest.raises(BusUnsafe):
                opening(tmp_path / name)


def test_a_bus_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BusGone):
        open_reader(tmp_path / "bus")
    with pytest.raises(BusGone):
        control.drop(tmp_path / "bus", "stop", who="me")
    assert list(tmp_path.iterdir()) == []


def test_the_wrapper_runs_this_program(root: Path, host: FileHost, tmp_path: Path) -> None:
    wrapper = root / "bin" / "conductor"
    assert wrapper.stat().st_mode & 0o777 == 0o700
    for name in ("bus", "worker", "conductor"):
        (tmp_path / "repository" / name).mkdir(parents=True)
        (tmp_path / "repository" / name / "__init__.py").write_text("raise SystemExit(99)")
    done = subprocess.run(
        [wrapper, "--version"],
        cwd=tmp_path / "repository",
        env={"PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("conductor ")


def test_what_attempts_and_conductors_of_the_past_left_is_swept(root: Path, host: FileHost) -> None:
    """Also of an attempt that ended long ago: a power cut may have brought its scratch files back."""
    alive = layout.attempt_id(TaskId("1.1"), 2, "ffffffff")
    put(host, "begun")
    os.close(host.create_attempt(ATTEMPT))
    live = host.create_attempt(alive)
    host.close()
    for name in (f"{ATTEMPT}.exit", "00000001.event", "operator.x", f"{alive}.exit", "unknown"):
        (root / "tmp" / name).touch()
    (root / "tmp" / f"00000001.{alive}").mkdir()
    (root / "tmp" / f"00000001.{alive}" / "live").touch()
    (root / "tmp" / "operator.y" / "deeper").mkdir(parents=True)
    for attempt in (ATTEMPT, alive):
        (root / "heartbeats" / attempt).touch()
        (root / "worker-status" / f"{attempt}.json").touch()
    open_host(root, durability="process")
    assert {path.name for path in (root / "tmp").iterdir()} == {f"{alive}.exit", "unknown", "operator.y"}
    assert [path.name for path in (root / "heartbeats").iterdir()] == [alive]
    assert [path.name for path in (root / "worker-status").iterdir()] == [f"{alive}.json"]
    os.close(live)


# --- hostile hands ---------------------------------------------------------------------------------------------------


def hostile(place: Path, name: str, kind: str, tmp_path: Path) -> None:
    """Put something foreign under a name that looks right."""
    path = place / name
    if kind == "symlink":
        target = tmp_path / "target"
        target.write_bytes(encode_message(note()))
        path.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
        (path / "inside").touch()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(str(path))
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 34)
    elif kind == "noise":
        path.write_bytes(os.urandom(200))
    else:
        path.touch()


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory", "huge", "noise", "empty"])
def test_requirement_27_foreign_things_in_the_inbox_go_to_quarantine(
    root: Path, host: FileHost, tmp_path: Path, kind: str
) -> None:
    os.close(host.create_attempt(ATTEMPT))
    hostile(root / "inbox", layout.message_name(ATTEMPT, "ab" * 16), kind, tmp_path)
    good = note()
    open_hand(root, ATTEMPT).publish(good)
    scan = host.scan()
    assert [item.message for item in scan.messages] == [good]
    (found,) = scan.quarantined
    assert found.reason
    assert os.path.lexists(root / "quarantine" / found.name)
    assert json.loads((root / "quarantine" / f"{found.name}.why").read_text())["reason"] == found.reason
    assert host.scan().quarantined == ()


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory", "huge", "noise"])
def test_requirement_27_foreign_things_in_control_go_to_quarantine(
    root: Path, host: FileHost, tmp_path: Path, kind: str
) -> None:
    hostile(root / "control", "00000001-stop", kind, tmp_path)
    (root / "control" / "00000002-pause").touch()
    scan = host.scan()
    assert [order.verb for order in scan.controls] == ["pause"]
    assert len(scan.quarantined) == 1


def test_requirement_27_a_socket_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "b"
    host = open_host(root, durability="process")
    monkeypatch.chdir(root / "control")  # the path of a socket must be short
    hostile(Path(), "00000001-stop", "socket", tmp_path)
    assert len(host.scan().quarantined) == 1


@pytest.mark.parametrize("name", [b"x", b"a b", b"\xff\xfe", b"1.1~1-0a1b2c3d.ABCDEFABCDEFABCD.msg", b"n" * 255])
def test_names_that_do_not_belong_go_to_quarantine(root: Path, host: FileHost, name: bytes) -> None:
    for folder in (b"inbox", b"control"):
        (Path(os.fsdecode(os.path.join(bytes(root), folder, name)))).write_text("content")
    scan = host.scan()
    assert len(scan.quarantined) == 2
    assert all((root / "quarantine" / found.name).read_text() == "content" for found in scan.quarantined)
    json.dumps([found.name for found in scan.quarantined]).encode()


def test_hidden_files_are_passed_over(root: Path, host: FileHost) -> None:
    (root / "inbox" / ".nfs0001").touch()
    assert host.scan().quarantined == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempt": "1.1~2-ffffffff"},
        {"id": "00" * 16},
        {"type": "PROGRESS", "payload": {"pct": "50"}},
        {"type": "PROGRESS", "payload": {"pct": 101}},
        {"type": "REPORT", "payload": {"verb": "maybe"}},
        {"type": "TASK_COMPLETE", "payload": {"task_id": "1.1"}},
        {"type": "RUN_ENDED", "payload": {}},
        {"type": "RESULT", "payload": {"started": "yes", "ended_by": "self"}},
        {"type": "RESULT", "payload": {"started": True, "ended_by": "fate"}},
    ],
)
def test_requirement_5_messages_that_contradict_themselves(root: Path, host: FileHost, wrong: dict[str, Any]) -> None:
    fields = {"id": "ab" * 16, "type": "NOTE", "attempt": ATTEMPT, "timestamp": "t", "payload": {"text": ""}} | wrong
    message = Message(**fields)
    (root / "inbox" / layout.message_name(ATTEMPT, "ab" * 16)).write_bytes(encode_message(message))
    scan = host.scan()
    assert scan.messages == ()
    assert len(scan.quarantined) == 1


@pytest.mark.parametrize("body", ["{", "[]", '{"target":5}', '{"epoch":-1}', '{"a":1,"a":2}'])
def test_orders_that_do_not_parse_go_to_quarantine(root: Path, host: FileHost, body: str) -> None:
    (root / "control" / "00000001-stop").write_text(body)
    scan = host.scan()
    assert (scan.controls, len(scan.quarantined)) == ((), 1)


@pytest.mark.parametrize(("limit", "value"), [("SCAN_FILES", 2), ("SCAN_BYTES", 1000)])
def test_a_scan_is_bounded_and_a_result_comes_behind_all_else_of_its_attempt(
    root: Path, host: FileHost, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(inbox, limit, value)
    attempts = [layout.attempt_id(TaskId(task), 1, "0" * 8) for task in "ab"]
    for attempt in attempts:
        os.close(host.create_attempt(attempt))
        hand = open_hand(root, attempt)
        hand.finish(ExitRecord(True, "self"))
        for _ in range(3):
            hand.publish(Message(os.urandom(16).hex(), "NOTE", attempt, "t", {"text": ""}))
    found, more = [], True
    while more:
        scan = host.scan()
        assert 1 <= len(scan.messages) <= 5
        found += [(item.message.attempt, item.message.type) for item in scan.messages]
        host.discard(scan.messages)
        more = scan.more
    assert found == [(attempt, type) for attempt in attempts for type in ("NOTE", "NOTE", "NOTE", "RESULT")]


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory"])
def test_requirement_27_hostile_files_in_an_attempt(root: Path, host: FileHost, tmp_path: Path, kind: str) -> None:
    os.close(host.create_attempt(ATTEMPT))
    folder = root / layout.attempt_dir(ATTEMPT)
    (folder / "live").unlink()
    for name in ("exit.json", "proc.json", "live", "revoked"):
        hostile(folder, name, kind, tmp_path)
    assert host.read_exit(ATTEMPT) is None
    assert host.read_proc(ATTEMPT) is None
    assert not host.is_live(ATTEMPT)
    assert open_hand(root, ATTEMPT).revoked()
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert host.read_proc(ATTEMPT) is None
    with pytest.raises(BusGone):
        open_hand(root, ATTEMPT)


@pytest.mark.parametrize("body", ["", "{}", "[1]", '{"started":1,"ended_by":"self"}', '{"started":true', "[" * 9999])
def test_what_is_no_result_counts_as_none(root: Path, host: FileHost, body: str) -> None:
    os.close(host.create_attempt(ATTEMPT))
    for name in ("exit.json", "proc.json"):
        (root / layout.attempt_dir(ATTEMPT) / name).write_text(body + "\n")
    assert host.read_exit(ATTEMPT) is None
    assert host.read_proc(ATTEMPT) is None
    assert host.read_command(ATTEMPT) is None


def test_requirement_24_only_ids_of_attempts_are_opened(root: Path, host: FileHost) -> None:
    for attempt in ("../x", "1.1", "", "/etc~1-00000000"):
        with pytest.raises(layout.LayoutError):
            host.create_attempt(AttemptId(attempt))
        with pytest.raises(layout.LayoutError):
            open_hand(root, AttemptId(attempt))


def test_frozen_plans_and_blobs_are_checked(root: Path, host: FileHost) -> None:
    sha = host.freeze_plan(b"plan")
    (root / "plan" / f"{sha}.json").write_bytes(b"nalp")
    with pytest.raises(BusCorrupt):
        host.load_plan(sha)
    host.stage("NOTE", {"text": "x" * 5000, "task_id": "1"}, NOW)
    host.commit()
    line = json.loads((root / "queue.jsonl").read_text())
    assert line["payload"]["task_id"] == "1"
    assert len((root / "queue.jsonl").read_bytes()) < 1000
    (root / "blobs" / line["payload"]["blob"]).write_bytes(b"{}")
    with pytest.raises(BusCorrupt):
        list(host.records())


def test_an_attempt_comes_with_its_files(root: Path, host: FileHost) -> None:
    live = host.create_attempt(ATTEMPT, {"prompt.md": b"do it"})
    folder = root / layout.attempt_dir(ATTEMPT)
    assert {path.name for path in folder.iterdir()} == {"live", "prompt.md"}
    assert not os.get_inheritable(live)
    with pytest.raises(AttemptExists):
        host.create_attempt(ATTEMPT)
    assert list((root / "tmp").iterdir()) == []


# --- views -----------------------------------------------------------------------------------------------------------


def test_replaced_and_foreign_events_are_archived(root: Path, host: FileHost) -> None:
    def put(type: str, payload: dict[str, Any]) -> None:
        record = host.stage(type, payload, NOW, task=TaskId("1"))
        host.commit()
        host.project([record])

    put("TASK_FAILED", {"task_id": "1", "error": "x"})
    put("TASK_COMPLETE", {"task_id": "1", "unblocks": []})
    put("TASK_COMPLETE", {"task_id": "1", "unblocks": [], "commit_sha": "later"})
    event = json.loads((root / "events" / "TASK_COMPLETE_1.event").read_text())
    assert event["payload"]["commit_sha"] == "later"
    assert {"id", "type", "source", "timestamp", "payload", "seq", "crc"} == set(event)
    archive = root / "events" / "archive"
    assert {path.name for path in archive.iterdir()} == {"TASK_FAILED_1.event.1", "TASK_COMPLETE_1.event.2"}
    host.close()
    (root / "events" / "TASK_COMPLETE_1.event").unlink()
    (root / "events" / "TASK_COMPLETE_2.event").touch()
    (root / "events" / "README").touch()
    host = open_host(root, durability="process")
    assert json.loads((root / "events" / "TASK_COMPLETE_1.event").read_text()) == event
    assert (archive / "TASK_COMPLETE_2.event.0").exists()
    assert (root / "events" / "README").exists()
    assert "TASK_COMPLETE_2.event" in host.notes[0]


def test_views_are_replaced_whole(root: Path, host: FileHost) -> None:
    host.write_views({}, {"w": {"status": "RUNNING"}})
    first = (root / "worker-status.json").stat().st_ino
    host.write_views({}, {"w": {"status": "RUNNING"}})
    assert (root / "worker-status.json").stat().st_ino == first
    host.write_views({}, {"w": {"status": "COMPLETE"}})
    assert json.loads((root / "worker-status.json").read_text()) == {"w": {"status": "COMPLETE"}}
    assert json.loads((root / "locks.json").read_text()) == {}
