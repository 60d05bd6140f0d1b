"""`conductor doctor`: what it finds on a machine, on a mount and in a bus, and that it leaves all as it was."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from bus.hand import open_hand
from bus.host import open_host
from bus.probe import Mount
from bus.process import parse_stat
from bus.room import Room
from bus.wire import Message, TaskId
from conductor.cli import holder
from conductor.cli.examine.finding import Finding
from conductor.cli.examine.machine import packages
from conductor.cli.examine.mount import findings
from conductor.cli.main import run_command_line
from conductor.core.wait_events import AttemptLife
from conductor.runtime.replay import replay
from conductor_bus_start import HOME
from tests.unit.cli.conftest import Story

PLAN = "  nodes:\n    - {id: a, name: one, run: [true]}\n    - {id: b, name: two, run: [true]}\n"


def doctor(
    capsys: pytest.CaptureFixture[str], track: Path, *options: str, code: int | None = 0
) -> dict[str, dict[str, Any]]:
    """The findings about a track, by code."""
    capsys.readouterr()
    found = run_command_line(["doctor", str(track), "--json", *options])
    data = json.loads(capsys.readouterr().out)
    assert code in (None, found), data
    assert data["problems"] == sum(one["level"] == "problem" for one in data["findings"])
    return {one["code"]: one for one in data["findings"]}


def tree(root: Path) -> dict[str, tuple[int, int, int]]:
    """Every name below a folder with what must not change: mode, size, modification time (of folders: none)."""
    found = {}
    for path in sorted(root.rglob("*")):
        stat = path.lstat()
        found[str(path.relative_to(root))] = (stat.st_mode, stat.st_size, 0 if path.is_dir() else stat.st_mtime_ns)
    return found


# --- the machine ----------------------------------------------------------------------------------------------------


def test_requirement_34_the_machine_needs_no_track(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["doctor"]) == 0
    text = capsys.readouterr().out
    for code in ("python", "platform", "packages", "limits", "proc", "git", "agents"):
        assert f"  {code} " in text
    assert text.endswith("\nno problem\n")
    assert run_command_line(["doctor", "--verify"]) == 2


def test_agents_are_found_by_name_and_never_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = tmp_path / "claude"
    agent.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    agent.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_command_line(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "agents on PATH: claude (" in text
    assert "git is not found" in text
    assert not (tmp_path / "started").exists()


class Installed(metadata.Distribution):
    """A distribution with some files."""

    def __init__(self, name: str, folder: str, *files: str) -> None:
        self._folder = folder
        self._texts = {"METADATA": f"Name: {name}\n", "RECORD": "".join(f"{file},,\n" for file in files)}

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        return Path(self._folder, path)


def test_a_distribution_that_shares_a_package_with_us_is_named(tmp_path: Path) -> None:
    other = Installed("taskrunner", HOME, "worker/jobs.py", "taskrunner/__init__.py")
    (found,) = packages([other, Installed("conductor-bus", HOME, "worker/core.py")])
    assert (found.level, found.code) == ("problem", "packages")
    assert "worker of taskrunner" in found.text
    elsewhere = Installed("taskrunner", str(tmp_path), "worker/jobs.py")
    (found,) = packages([elsewhere])
    assert found.level == "ok"


# --- the mount ------------------------------------------------------------------------------------------------------


def about(mount: Mount) -> dict[str, Finding]:
    return {found.code: found for found in findings(mount, Path("/m"))}


def test_requirement_34_each_fallback_is_said() -> None:
    assert {found.level for found in about(Mount(free_bytes=1 << 40)).values()} == {"ok"}
    failed = {"link": "EPERM", "exclusive": "twice", "rename": "gone", "directory_sync": "EINVAL", "lock": "both"}
    odd = about(
        Mount(
            failed=failed,
            events="no file event came within 1 s",
            case_sensitive=False,
            longest_name=143,
            free_bytes=5 << 20,
        )
    )
    assert {code: found.level for code, found in odd.items()} == {
        "mount_writable": "ok",
        "mount_exclusive": "problem",
        "mount_link": "note",
        "mount_rename": "problem",
        "mount_directory_sync": "problem",
        "mount_lock": "problem",
        "mount_events": "note",
        "mount_case": "note",
        "mount_names": "problem",
        "mount_space": "note",
    }
    assert "published by rename instead" in odd["mount_link"].text
    assert "polling" in odd["mount_events"].text
    assert "--unsafe-fs" in str(odd["mount_lock"].hint)
    assert "5.0 MiB" in odd["mount_space"].text


def test_a_mount_that_cannot_be_written_is_a_problem() -> None:
    full = about(Mount("No space left on device", full=True, free_bytes=100))
    assert full["mount_writable"].level == "problem"
    assert "free some space" in str(full["mount_writable"].hint)
    assert "free: 100 bytes" in full["mount_space"].text
    assert "--bus-dir" in str(about(Mount("Permission denied"))["mount_writable"].hint)


# --- a bus ----------------------------------------------------------------------------------------------------------


def test_a_track_that_was_never_run_is_left_alone(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = doctor(capsys, track, "--verify")
    assert found["bus"]["level"] == "ok"
    assert found["mount_lock"]["level"] == "ok"
    assert list(track.iterdir()) == []


def test_a_sound_bus_under_a_conductor(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    story.end("a")
    before = tree(story.track)
    found = doctor(capsys, story.track, "--verify")
    assert {one["level"] for one in found.values()} == {"ok"}, found
    assert f"held by pid {os.getpid()} on {socket.gethostname()}" in found["holder"]["text"]
    assert "1 attempt under way: b~1-" in found["attempts"]["text"]
    assert found["verify_events"]["text"] == "events/ is what the journal says"
    assert tree(story.track) == before


def test_a_bus_whose_conductor_died(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    hand = open_hand(story.host.folders.path, story.attempt("a"))
    hand.publish(Message("0" * 32, "NOTE", story.attempt("a"), "2025-06-15T15:06:40Z", {}))
    hand.close()
    os.close(story.live.pop(story.attempt("b")))
    (story.track / ".message-bus/tmp/00000001.half").write_bytes(b"")
    story.die()
    found = doctor(capsys, story.track)
    assert found["holder"]["text"] == "no conductor holds the track"
    assert f"1 worker without a conductor: {story.attempt('a')}" in found["workers_alone"]["text"]
    assert "conductor run" in found["workers_alone"]["hint"]
    assert story.attempt("b") in found["attempts_ended_alone"]["text"]
    assert found["not_ingested"]["text"].startswith("1 message handed in")
    assert "00000001.half" in found["scratch"]["text"]
    assert {found[code]["level"] for code in ("workers_alone", "not_ingested", "scratch")} == {"note"}


def test_a_paused_conductor_is_told_of(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    words = story.track / ".message-bus/conductor.json"
    words.write_text(json.dumps({**json.loads(words.read_text()), "paused": "the disk is full"}))
    found = doctor(capsys, story.track)
    assert "paused: the disk is full" in found["holder_paused"]["text"]


def test_requirement_32_a_full_disk_is_told_of_although_the_conductor_could_leave_no_word(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Room, "said_by_disk", lambda _: "the disk is full")
    assert "paused: the disk is full" in doctor(capsys, story.track)["holder_paused"]["text"]


def test_a_suspended_conductor_is_told_of_with_how_to_wake_it(
    story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "look", lambda pid: parse_stat(b"%d (conductor) T 1 1 1 %s" % (pid, b"0 " * 20)))
    found = doctor(capsys, story.track)["holder_suspended"]
    assert "it is suspended" in found["text"]
    assert found["hint"] == f"wake it: `kill -CONT {os.getpid()}`, or `fg` in its terminal"


def test_without_snapshots_none_was_compared(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    found = doctor(capsys, story.track, "--verify")["verify_state"]
    assert found["text"] == "the whole journal can be replayed, all 3 records; there is no snapshot to compare with it"


def test_what_was_put_aside_is_listed_with_its_reason(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    (story.track / ".message-bus/inbox/junk").write_text("?")
    story.host.scan()
    (quarantined,) = doctor(capsys, story.track)["quarantine"]["details"]
    assert quarantined.startswith("00000001-junk: no message's name")


def test_odd_files_are_listed_and_never_opened(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(PLAN)
    bus = story.track / ".message-bus"
    (tmp_path / "outside").mkdir()
    os.mkfifo(bus / "inbox" / "fifo")
    (bus / "events" / "link").symlink_to(tmp_path / "outside")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(bus / "control")
        listener.bind("socket")
    (bus / "mine.txt").write_text("")
    (bus / "inbox" / "x.msg").write_text("")
    attempt = story.attempt("a")
    os.mkfifo(bus / "attempts" / attempt[-8] / attempt / "log")
    (bus / "attempts" / attempt[-8] / attempt / "deep").mkdir()
    (bus / "attempts" / attempt[-8] / attempt / "deep" / "l\nink").symlink_to("/etc/passwd")
    found = doctor(capsys, story.track)["odd_files"]
    folder = f"attempts/{attempt[-8]}/{attempt}"
    assert found["level"] == "note"
    assert sorted(found["details"]) == [
        f"{folder}/deep/l\\nink: link",
        f"{folder}/log: FIFO",
        "control/socket: socket",
        "events/link: link",
        "inbox/fifo: FIFO",
        "inbox/x.msg: no name of inbox/",
        "mine.txt: no name of ours",
    ]


@pytest.mark.parametrize("name", ["FORMAT", "queue.jsonl", "conductor.lock", "conductor.json", "inbox", "tmp"])
def test_a_fifo_in_the_place_of_anything_blocks_nobody(
    story: Story, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    story.start(PLAN)
    story.die()
    path = story.track / ".message-bus" / name
    path.rename(path.with_name("saved"))
    os.mkfifo(path)
    found = doctor(capsys, story.track, "--verify", code=None)
    assert f"{name}: FIFO" in found["odd_files"]["details"]


@pytest.mark.parametrize(
    ("harm", "code", "words"),
    [
        ("chmod 755 $bus", "bus_unsafe", "others can reach into the bus (mode 0755)"),
        ("chmod 777 $track", "bus_unsafe", "everybody can write a folder above the bus"),
        ("mv $bus $track/real && ln -s real $bus", "bus_unsafe", "is a link"),
        ("rm -r $bus && touch $bus", "bus_unsafe", "is no directory"),
        ("echo '{\"major\": 9}' >$bus/FORMAT", "bus_format", "the bus has format 9, this program reads 1"),
        ("echo '{' >$bus/FORMAT", "bus_format", "FORMAT cannot be read"),
        ("sed -i 2s/RUN/RAN/ $bus/queue.jsonl; sed -i 2s/seq/sec/ $bus/queue.jsonl", "bus_corrupt", "line 2 of the"),
        ("rm $bus/queue.jsonl", "bus_corrupt", "queue.jsonl"),
        (
            "rm $bus/FORMAT $bus/queue.jsonl; rm -r $bus/events $bus/epochs; touch $bus/x",
            "bus_unsafe",
            "no bus and not empty",
        ),
    ],
)
def test_what_makes_a_bus_unusable_is_a_problem_and_exit_5(
    story: Story, capsys: pytest.CaptureFixture[str], harm: str, code: str, words: str
) -> None:
    story.start(PLAN)
    story.end("a")
    story.die()
    environment = {**os.environ, "track": str(story.track), "bus": str(story.track / ".message-bus")}
    subprocess.run(["sh", "-ec", harm], check=True, env=environment)
    found = doctor(capsys, story.track, "--verify", code=5)[code]
    assert found["level"] == "problem"
    assert words in found["text"]


def test_an_older_bus_and_what_is_left_of_one(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bus = track / ".message-bus"
    (bus / "events").mkdir(parents=True)
    bus.chmod(0o700)
    (bus / "queue.jsonl").write_text('{"old": true}\n')
    assert "legacy-N/" in doctor(capsys, track)["bus_older"]["text"]
    open_host(bus, durability="process").close()
    found = doctor(capsys, track)
    assert "bus_older" not in found
    assert "legacy-1" in found["bus_legacy"]["text"]


def test_an_empty_folder_is_fine(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (track / ".message-bus").mkdir(mode=0o700)
    assert doctor(capsys, track)["bus"]["text"] == f"the folder is empty: `conductor run {track}` makes it a bus"


def test_events_that_differ_from_the_journal_are_named(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(PLAN)
    story.end("a")
    story.end("b")
    events = story.track / ".message-bus/events"
    (events / "TASK_COMPLETE_a.event").unlink()
    (events / "TASK_COMPLETE_b.event").write_text("{}")
    (events / "TASK_FAILED_b.event").write_text("")
    assert doctor(capsys, story.track)["odd_files"]["level"] == "ok"
    found = doctor(capsys, story.track, "--verify")["verify_events"]
    assert found["level"] == "note"
    assert found["details"] == [
        "TASK_COMPLETE_a.event: missing",
        "TASK_COMPLETE_b.event: changed",
        "TASK_FAILED_b.event: made by somebody else",
    ]


def test_requirement_6_a_snapshot_that_says_something_else_is_a_problem(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its checksum is right, its place too: only a replay of the whole journal can tell."""
    story.start(PLAN)
    story.end("a")
    replayed = replay(story.host)
    state = replayed.dump()
    assert state is not None
    story.host.checkpoint(state)
    assert doctor(capsys, story.track, "--verify")["verify_state"]["level"] == "ok"
    story.end("b")
    false = replay(story.host, whole=True).dump()
    assert false is not None
    false["state"] = state["state"]
    story.host.checkpoint(false)
    found = doctor(capsys, story.track, "--verify", code=5)["verify_state"]
    assert found["level"] == "problem"
    assert "snapshots/ while nothing runs" in found["hint"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_a_process_that_outlived_its_attempt_is_named(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.die()
    environment = {"CONDUCTOR_BUS_DIR": story.host.folders.path, "CONDUCTOR_ATTEMPT": "a~1-00000000"}
    stray = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert stray.stdout is not None
    stray.stdout.readline()
    try:
        found = doctor(capsys, story.track)["stray_processes"]
        assert [f"pid {stray.pid} " in detail and "a~1-00000000" in detail for detail in found["details"]] == [True]
        assert found["text"] == "1 process of this bus, of no attempt under way"
    finally:
        stray.communicate()
    assert doctor(capsys, story.track)["stray_processes"]["level"] == "ok"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_requirement_18_what_could_not_be_ended_is_named_as_that(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody left it on purpose, and no start ends it; a reset does not make it go, and says so."""
    story.start("  nodes: [{id: a, name: A, run: [x]}]")
    attempt = story.attempt("a")
    story.tell(AttemptLife(TaskId("a"), attempt, "unkillable", "state D"))
    story.die()
    environment = {"CONDUCTOR_BUS_DIR": story.host.folders.path, "CONDUCTOR_ATTEMPT": attempt}
    stray = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert stray.stdout is not None
    stray.stdout.readline()
    try:
        for arguments in (["a"], []):
            assert run_command_line(["reset", str(story.track), *arguments]) == 0
            assert f"{attempt} could not be ended" in capsys.readouterr().out
            found = doctor(capsys, story.track)
            assert f"pid {stray.pid} " in found["unkillable_processes"]["details"][0]
            assert "stray_processes" not in found
    finally:
        stray.communicate()


def test_people_get_a_line_for_each_and_what_to_do(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(25):
        (story.track / ".message-bus" / f"x{number}\x1b[31m").write_text("")
    (story.track / ".message-bus").chmod(0o750)
    capsys.readouterr()
    assert run_command_line(["doctor", str(story.track)]) == 5
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("problem  bus_unsafe ") for line in lines)
    assert f"         → chmod 700 {story.track}/.message-bus" in lines
    assert "           x0\\x1b[31m: no name of ours" in lines
    assert "           … and 5 more (--json has all)" in lines
    end = lines.index("1 problem, 1 note:")
    assert [line.split()[:2] for line in lines[end + 1 :] if line[0] != " "] == [
        ["problem", "bus_unsafe"],
        ["note", "odd_files"],
    ]
    assert lines[end + 2] == f"         → chmod 700 {story.track}/.message-bus"
    assert lines[end - 1] == "", "what is odd stands at the end, and is said once"
    assert not any(line.startswith(("problem", "note")) for line in lines[:end])
    assert "docs/" not in "".join(lines), "an installed program has no such folder"


# --- repair ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(story: Story) -> Path:
    """A track whose journal is damaged at record 3, and whose conductor is gone."""
    story.start(PLAN)
    for task in "ab":
        story.end(task)
    story.die()
    journal = story.track / ".message-bus" / "queue.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"seq":3', b'"seq":9'), *lines[3:]]))
    return story.track


def test_a_damaged_journal_is_mended_only_when_asked_and_says_what_was_lost(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = damaged / ".message-bus" / "queue.jsonl"
    before = journal.read_bytes()
    hint = doctor(capsys, damaged, "--verify", code=5)["bus_corrupt"]["hint"]
    assert f"conductor doctor {damaged} --repair" in hint
    assert journal.read_bytes() == before
    assert run_command_line(["doctor", str(damaged), "--repair", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert "conductor run" in findings[0]["hint"], "the way on comes first"
    assert not any("alive" in one["text"] for one in findings), "none lives"
    found = {one["code"]: one for one in findings}
    assert found["repair"]["level"] == "note"
    assert found["repaired"]["level"] == "ok"
    assert found["repair"]["hint"] is None
    assert any(before == path.read_bytes() for path in (damaged / ".message-bus" / "quarantine").iterdir())
    assert doctor(capsys, damaged, "--verify")["verify_state"]["level"] == "ok"
    again = doctor(capsys, damaged, "--repair")
    assert again["repair"]["text"] == "nothing was damaged, and nothing was changed"


def test_a_repair_is_refused_while_a_conductor_holds_the_track(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(PLAN)
    capsys.readouterr()
    assert run_command_line(["doctor", str(story.track), "--repair", "--json"]) == 4
    error = json.loads(capsys.readouterr().out.splitlines()[-1])["error"]
    assert error["code"] == "held_by_other"
    assert "conductor stop" in error["hint"]


def test_a_worker_may_look_but_not_repair(
    damaged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", "a~1-00000000")
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(damaged / ".message-bus"))
    assert run_command_line(["doctor", str(damaged), "--repair"]) == 2
    assert run_command_line(["doctor", str(damaged)]) == 5


def test_there_is_nothing_to_repair_where_there_is_no_bus(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing to repair" in doctor(capsys, track, "--repair")["bus"]["text"]
    assert list(track.iterdir()) == []
