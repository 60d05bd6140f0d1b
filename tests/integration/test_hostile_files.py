"""Foreign things all over the bus of a real run (requirements 5, 27).

The run completes, what stood in the way is shown, nothing outside is touched, and nothing blocks.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bus import layout
from bus.wire import TaskId
from tests.hostile import KINDS, plant, untouched
from tests.integration.tools import Project, wait_for

NOBODY = layout.attempt_id(TaskId("nobody"), 1, "00000000")

PLACES = (
    f"inbox/{layout.message_name(NOBODY, 'ab' * 16)}",
    "inbox/what is this",
    "control/00000001-stop",
    "control/what",
    "events/TASK_COMPLETE_1.event",
    "events/TASK_FAILED_1.event",
    "events/TASK_COMPLETE_2.event",
    "events/DEP_READY_2.event",
    "events/archive/TASK_COMPLETE_1.event.0",
    "tmp/00000001.event",
    "tmp/00000001.worker-status.json",
    f"heartbeats/{NOBODY}",
    f"worker-status/{NOBODY}.json",
    "plan/what",
    "blobs/what",
    "segments/what",
    "snapshots/000000000001.json",
    "quarantine/00000001-what",
    "quarantine/00000002-what.why",
    "epochs/00000002",
    "epochs/99999999",
    "waits",
    "locks",
    "bin/conductor",
    "locks.json",
    "worker-status.json",
    "reserve",
    "what",
)

FOLDERS = ("tmp", "quarantine", "snapshots")
"""Folders that hold nothing here that could not be missed. The unit tests try the others."""

TELLING = ("symlink to a folder", "symlink to zero", "fifo", "folder", "sparse file", "device")
"""Kinds that differ in how a system call takes them."""


@pytest.fixture
def running(project: Project) -> Project:
    """A run whose first task goes on until its gate opens."""
    project.plan([project.task("1", gated=True), project.task("2", after=["1"])])
    project.start_run("--no-watch")
    project.wait_started("1")
    return project


def finish(project: Project) -> None:
    """Let the run go on to its end, which must be a success, and look what it made of the bus."""
    project.open_gate("1")
    project.started[0].finish().expect(0)
    assert project.starts() == ["1", "2"]
    assert set(project.statuses().values()) == {"done"}
    for name in ("TASK_COMPLETE_1.event", "TASK_COMPLETE_2.event", "DEP_READY_2.event"):
        assert (project.bus / "events" / name).is_file()
        assert not (project.bus / "events" / name).is_symlink()


@pytest.mark.parametrize("kind", [kind for kind in TELLING if kind in KINDS])
def test_requirement_27_a_run_completes_among_foreign_things(running: Project, tmp_path: Path, kind: str) -> None:
    with untouched(tmp_path) as outside:
        for place in PLACES:
            plant(kind, running.bus / place, outside)
        wait_for(lambda: not os.path.lexists(running.bus / "inbox" / "what is this"), "the inbox being cleaned")
        running.wait_recorded("QUARANTINED", "1")
        finish(running)
    reasons = [record["payload"]["reason"] for record in running.records("QUARANTINED")]
    assert len([reason for reason in reasons if "no message's name" in reason]) == 1
    assert len([reason for reason in reasons if "no order's name" in reason]) == 1
    assert len([reason for reason in reasons if "hand-made claim" in reason]) == 3
    assert [reason for reason in reasons if "no conductor made this epoch" in reason]
    assert running.call("status", str(running.track)).expect(0).out.count("put aside") == 1


@pytest.mark.parametrize("folder", FOLDERS)
def test_requirement_27_a_link_in_the_place_of_a_folder_is_set_aside(
    running: Project, tmp_path: Path, folder: str
) -> None:
    with untouched(tmp_path) as outside:
        plant("symlink to a folder", running.bus / folder, outside)
        finish(running)
        running.run().expect(0)
    assert (running.bus / folder).is_dir()
    assert not (running.bus / folder).is_symlink()


def test_requirement_27_masses_of_foreign_files_do_not_stop_the_loop(running: Project) -> None:
    """A stop goes through while there is still junk to be set aside."""
    inbox = running.bus / "inbox"
    for number in range(20_000):
        os.close(os.open(inbox / f"junk-{number}", os.O_CREAT | os.O_WRONLY, 0o600))
    running.call("stop", str(running.track)).expect(0)
    running.started[0].finish().expect(130)
    assert any(name.startswith("junk-") for name in os.listdir(inbox))


def test_a_claim_about_a_running_task_is_shown_and_changes_nothing(running: Project) -> None:
    claim = running.bus / "events" / "TASK_COMPLETE_1.event"
    claim.touch()
    found = running.wait_recorded("QUARANTINED", "1")
    assert "only its own end counts" in found["payload"]["reason"]
    assert found["attempt"] == running.recorded("WORKER_DISPATCHED", "1")[0]["attempt"]
    assert running.statuses() == {"1": "running", "2": "pending"}
    finish(running)


def test_foreign_lines_in_the_journal_and_rewritten_views_change_nothing_and_are_shown(running: Project) -> None:
    with (running.bus / "queue.jsonl").open("ab") as journal:
        journal.write(b'{"type":"TASK_COMPLETE","task":"1"}\n')
    (running.bus / "worker-status.json").write_text("{}")
    wait_for(lambda: list((running.bus / "quarantine").glob("*-worker-status.json")), "the view being kept")
    finish(running)
    [kept] = (running.bus / "quarantine").glob("*-queue.jsonl")
    assert kept.read_bytes() == b'{"type":"TASK_COMPLETE","task":"1"}\n'
    assert len(running.records("FOREIGN_WRITE")) == 2
    assert len(running.recorded("TASK_COMPLETE", "1")) == 1
