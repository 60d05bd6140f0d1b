"""Full and read-only disks under a real run (requirement 32): it pauses and says so, keeps its workers, loses nothing,
and goes on by itself. Limits of the running process stand for a full disk; mounts are used where we may mount."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bus.hand import open_hand
from bus.wire import AttemptId, Message
from tests.integration.tools import Project, Running, wait_for


@contextmanager
def limited(pid: int, what: int, value: int) -> Iterator[None]:
    """Lower a limit of a running process, and raise it again."""
    before = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (value, before[1]))
    yield
    with suppress(ProcessLookupError):
        resource.prlimit(pid, what, before)


def mounts(*arguments: str) -> bool:
    """Run `mount`, and tell whether it did it."""
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@contextmanager
def small_disk(project: Project, options: str) -> Iterator[Path]:
    """A small disk of its own, mounted; the processes of the project are ended before it goes."""
    place = project.root / "small"
    place.mkdir()
    if not mounts("-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(place)):
        pytest.skip("this user may not mount")
    try:
        yield place
    finally:
        project.end_all()
        subprocess.run(["umount", "-l", str(place)], check=True)


def take_all_names(place: Path) -> None:
    """Make files until the disk has no room for another name."""
    junk = place / "junk"
    junk.mkdir(exist_ok=True)
    try:
        for number in range(100_000):
            (junk / str(number)).touch()
    except OSError:
        return


def two(project: Project) -> None:
    """A plan of a gated task and one behind it."""
    project.plan([project.task("1", gated=True), project.task("2", after=["1"])])


def wait_said(running: Running, text: str) -> None:
    wait_for(lambda: text in said(running), f"{text!r} on the screen")


def said(running: Running) -> str:
    """All that a run has printed."""
    return running.out() + running.err()


def check_ledger(project: Project, bus: Path) -> None:
    """Each task ran once, its result is recorded once, and nothing is left lying."""
    project.bus = bus
    assert project.starts() == ["1", "2"]
    for task in ("1", "2"):
        assert len(project.recorded("RESULT", task)) == len(project.recorded("TASK_COMPLETE", task)) == 1
    assert list((bus / "inbox").iterdir()) == list((bus / "tmp").iterdir()) == []
    assert list((bus / "heartbeats").iterdir()) == list((bus / "worker-status").iterdir()) == []
    assert {path.name for path in (bus / "events").glob("*.event")} == {
        "TASK_COMPLETE_1.event",
        "TASK_COMPLETE_2.event",
        "DEP_READY_2.event",
    }


def test_requirement_32_a_journal_that_meets_the_limit_of_file_sizes_pauses_the_run(project: Project) -> None:
    two(project)
    running = project.start_run()
    project.wait_started("1")
    journal = project.bus / "queue.jsonl"
    before = journal.read_bytes()
    with limited(running.pid, resource.RLIMIT_FSIZE, len(before) + 100):
        project.open_gate("1")
        wait_said(running, "paused: ")
        wait_said(running, "the limit on the size of files (ulimit -f) is reached")
        assert journal.read_bytes() == before
        assert project.starts() == ["1"]
        wait_for(lambda: project.status()["paused"], "whoever looks on to be told")
        limit = "the bus cannot be written: the limit on the size of files (ulimit -f) is reached"
        assert f"Paused: {limit}" in project.call("status", str(project.track)).out
        assert f"paused: {limit}" in project.call("doctor", str(project.track)).out
    running.finish().expect(0)
    wait_said(running, "resumed: ")
    assert said(running).count("paused: ") == 1
    check_ledger(project, project.bus)


def test_requirement_32_term_leaves_where_nothing_can_be_recorded_and_the_next_run_goes_on(project: Project) -> None:
    two(project)
    running = project.start_run()
    project.wait_started("1")
    size = (project.bus / "queue.jsonl").stat().st_size
    with limited(running.pid, resource.RLIMIT_FSIZE, size):
        project.open_gate("1")
        wait_said(running, "paused: ")
        running.send(signal.SIGTERM)
        running.finish().expect(143)
    project.run().expect(0)
    check_ledger(project, project.bus)


def test_requirement_32_a_disk_without_names_holds_launches_back_and_loses_no_event(project: Project) -> None:
    """A journal can grow where no file can be made: its lines are written, and all that follows from them is not."""
    two(project)
    with small_disk(project, "size=16m,nr_inodes=400") as place:
        bus = place / "bus"
        running = project.start_run("--bus-dir", str(bus))
        project.wait_started("1")
        running.send(signal.SIGSTOP)
        project.open_gate("1")
        wait_for(lambda: list((bus / "inbox").iterdir()), "the result")
        take_all_names(place)
        running.send(signal.SIGCONT)
        wait_said(running, "paused: ")
        assert "Paused: the disk is full" in project.call("status", str(project.track), "--bus-dir", str(bus)).out
        shutil.rmtree(place / "junk")
        running.finish().expect(0)
        assert said(running).count("paused: ") == said(running).count("resumed: ") == 1
        check_ledger(project, bus)


def test_requirement_32_a_worker_waits_for_a_full_disk_and_is_left_alone(project: Project) -> None:
    two(project)
    with small_disk(project, "size=16m,nr_inodes=400") as place:
        bus = place / "bus"
        running = project.start_run("--bus-dir", str(bus))
        project.wait_started("1")
        take_all_names(place)
        wait_said(running, "paused: the disk is full")
        project.open_gate("1")
        wait_for(lambda: project.ends() == ["1"], "the end of the command")
        stopped = project.call("stop", str(project.track), "--bus-dir", str(bus)).expect(5)
        assert "the disk is full" in stopped.err
        assert project.starts() == ["1"]
        shutil.rmtree(place / "junk")
        running.finish().expect(0)
        check_ledger(project, bus)


def test_requirement_32_a_full_disk_pauses_the_run(project: Project) -> None:
    two(project)
    with small_disk(project, "size=8m") as place:
        bus = place / "bus"
        running = project.start_run("--bus-dir", str(bus))
        project.wait_started("1")
        with (place / "filler").open("wb", buffering=0) as filler:
            wait_for(lambda: fill(filler.fileno()) and "paused: the disk is full" in said(running), "a pause")
            project.open_gate("1")
            wait_for(lambda: project.ends() == ["1"], "the end of the command")
        (place / "filler").unlink()
        running.finish().expect(0)
        wait_said(running, "resumed: ")
        check_ledger(project, bus)


def test_requirement_32_a_worker_that_waits_for_a_full_disk_gets_the_reserve(project: Project) -> None:
    two(project)
    with small_disk(project, "size=8m") as place:
        project.bus = place / "bus"
        running = project.start_run("--bus-dir", str(project.bus))
        project.wait_started("1")
        with (place / "filler").open("wb", buffering=0) as filler:
            fill(filler.fileno())
            project.open_gate("1")
            project.wait_recorded("RESULT", "1")
            assert not (project.bus / "reserve").exists()
            assert project.starts() == ["1"]
        (place / "filler").unlink()
        running.finish().expect(0)
        check_ledger(project, project.bus)


def test_requirement_32_a_run_whose_conductor_died_can_be_stopped_on_a_full_disk(project: Project) -> None:
    two(project)
    with small_disk(project, "size=8m") as place:
        project.bus = place / "bus"
        running = project.start_run("--bus-dir", str(project.bus))
        project.wait_started("1")
        running.send(signal.SIGKILL)
        running.finish()
        with (place / "filler").open("wb", buffering=0) as filler:
            fill(filler.fileno())
            stopped = project.call("stop", str(project.track), "--bus-dir", str(project.bus)).expect(0)
        assert stopped.err == ""
        wait_for(lambda: not project.processes(), "the end of the worker")
        assert [end["payload"]["error_class"] for end in project.recorded("ATTEMPT_ENDED")] == ["stopped"]
        (place / "filler").unlink()
        project.open_gate("1")
        project.run("--bus-dir", str(project.bus)).expect(0)
        assert project.ends() == ["1", "2"]


def test_requirement_32_a_run_does_not_begin_on_a_read_only_disk_and_says_why(project: Project) -> None:
    two(project)
    with small_disk(project, "size=8m") as place:
        bus = place / "bus"
        project.open_gate("1")
        assert mounts("-o", "remount,ro", str(place))
        assert "read-only" in project.run("--bus-dir", str(bus)).expect(5).err.lower()
        assert mounts("-o", "remount,rw", str(place))
        project.run("--bus-dir", str(bus)).expect(0)
        assert mounts("-o", "remount,ro", str(place))
        for verb in ("status", "events"):
            project.call(verb, str(project.track), "--bus-dir", str(bus)).expect(0)
        assert "read-only" in project.run("--bus-dir", str(bus)).expect(5).err.lower()
        assert mounts("-o", "remount,rw", str(place))
        check_ledger(project, bus)


def fill(fd: int) -> bool:
    """Write until nothing goes in any more."""
    for size in (1 << 16, 1 << 10, 1):
        try:
            while os.write(fd, b"\0" * size):
                pass
        except OSError:
            continue
    return True


def test_requirement_5_a_lack_of_descriptors_delays_a_message_and_is_said_once(project: Project) -> None:
    two(project)
    running = project.start_run("--no-watch")
    project.wait_started("1")
    [attempt] = [AttemptId(record["attempt"]) for record in project.recorded("WORKER_DISPATCHED", "1")]
    with limited(running.pid, resource.RLIMIT_NOFILE, 3):
        hand = open_hand(project.bus, attempt)
        hand.publish(Message("ab" * 16, "PROGRESS", attempt, "t", {"pct": 50}))
        hand.close()
        (project.bus / "control" / "00000001-noted").touch()
        wait_said(running, "Too many open files; trying again")
    project.wait_recorded("PROGRESS", "1")
    wait_said(running, "resumed: what is handed in can be read again")
    project.wait_recorded("CONTROL")
    project.open_gate("1")
    running.finish().expect(0)
    assert said(running).count("Too many open files") == 1
    assert project.records("QUARANTINED") == []
    check_ledger(project, project.bus)


def fill_up(place: Path) -> None:
    """Write until the disk has no room for another byte."""
    with (place / "junk").open("ab", buffering=0) as junk, suppress(OSError):
        while True:
            junk.write(bytes(4096))


def test_requirement_32_what_is_printed_on_a_full_disk_is_kept_and_what_is_held_back_is_not_shown_as_running(
    project: Project,
) -> None:
    """The worker waits for room with its result anyhow; what its command printed comes with it."""
    gate = project.gates / "go"
    script = f"until test -e {gate}; do sleep 0.02; done; echo it said something"
    project.plan([project.shell("1", script), project.task("2", after=["1"])])
    with small_disk(project, "size=4m") as place:
        bus = ("--bus-dir", str(place / "bus"))
        running = project.start_run(*bus)
        wait_for(lambda: list((place / "bus").glob("attempts/*/*/proc.json")), "its worker")
        fill_up(place)
        wait_said(running, "paused: the disk is full")
        gate.touch()
        wait_for(lambda: "2 Task 2: attempt 1 started" in said(running), "the result in the room of the reserve")
        listed = project.call("status", str(project.track), *bus).out
        assert "for its worker to be started" in listed
        assert "1 waiting" in listed
        assert "running  2" not in listed
        (place / "junk").unlink()
        running.finish().expect(0)
        wait_said(running, "resumed: ")
        assert project.call("logs", str(project.track), "1", *bus).out == "it said something\n"
