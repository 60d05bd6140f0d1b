"""What becomes of a lock whose holder is killed, stands still, or has it taken from it: the real program."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from bus.wire import AttemptId
from tests.integration.tools import Project, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

HOLD = """
[ $CONDUCTOR_ATTEMPT_NUMBER -gt 1 ] && exit 0
conductor bus lock f; echo $$ > holder.new; mv holder.new holder
while :; do echo written >> f; sleep 0.02; done
"""
"""Holds `f` and writes it until it is killed; a further attempt has nothing to do."""


def worker(project: Project, task: str) -> tuple[AttemptId, int]:
    """The newest attempt of a task, and its worker's pid."""
    attempt = project.recorded("WORKER_DISPATCHED", task)[-1]["attempt"]
    (proc,) = project.bus.glob(f"attempts/*/{attempt}/proc.json")
    return attempt, int(proc.read_text().split('"pid":')[1].split(",")[0])


def stat(pid: int) -> str:
    """The state of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_requirement_11_a_killed_holders_lock_is_granted_on_only_when_nothing_of_it_writes_any_more(
    project: Project,
) -> None:
    """Its worker is killed, and the command writes on until the conductor has ended it: until then the lock is held,
    though the worker's own lock is free."""
    then = """until test -e holder; do sleep 0.05; done; conductor bus lock f
        kill -0 $(cat holder) && exit 1
        size=$(wc -c < f); sleep 0.2; test $size = $(wc -c < f)"""
    project.config('retry_delay = "0s"\n')
    project.plan([project.shell("a", HOLD), project.shell("b", then)])
    run = project.start_run("--retries", "1")
    project.wait_recorded("WAIT_BEGAN", "b")
    attempt, pid = worker(project, "a")
    os.kill(pid, signal.SIGKILL)
    run.finish().expect(0)
    (ended,) = [one for one in project.recorded("ATTEMPT_ENDED", "a") if one["attempt"] == attempt]
    assert ended["payload"]["error_class"] == "lost"
    (gone,) = [one for one in project.recorded("GRANT_GONE", "a") if one["attempt"] == attempt]
    assert (gone["payload"]["how"], gone["payload"]["keys"]) == ("closed", ["f"])
    assert gone["seq"] > ended["seq"]
    assert project.recorded("ATTEMPT_ENDED", "b")[0]["payload"]["error_class"] is None


def test_requirement_11_a_holder_that_stands_still_keeps_its_lock_and_locks_are_shown_to_people_and_older_tools(
    project: Project,
) -> None:
    """Shown by `locks.json` while it is held, by `FILE_UNLOCK_….event` once it is not."""
    until = "until test -e {}; do sleep 0.05; done"
    holder = f"conductor bus lock f; echo $$ > holder.new; mv holder.new holder; {until.format('go')}"
    other = f"""{until.format("stopped")}
        conductor bus lock f --timeout 0.3; test $? = 75 || exit 9
        touch refused; conductor bus lock f --timeout 20"""
    shown = ["conductor bus lock sub/f", until.format("stopped"), "conductor bus unlock sub/f", until.format("go")]
    scripts = {"a": holder, "b": other, "c": "; ".join(shown)}
    project.plan([project.shell(name, script) for name, script in scripts.items()])
    run = project.start_run("--retries", "0")
    pid_file, view = project.dir / "holder", project.bus / "locks.json"
    command = int(wait_for(lambda: pid_file.exists() and pid_file.read_text(), "a lock"))
    wait_for(lambda: view.exists() and "sub/f" in json.loads(view.read_text()), "the view")
    for pid in (worker(project, "a")[1], command):
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: stat(command) == "T", "the stop")
    (project.dir / "stopped").touch()
    wait_for(lambda: (project.dir / "refused").exists(), "the refusal")
    wait_for(lambda: list(project.bus.glob("events/FILE_UNLOCK_sub_f-*.event")), "the event")
    (project.dir / "go").touch()
    for pid in (worker(project, "a")[1], command):
        os.kill(pid, signal.SIGCONT)
    run.finish().expect(0)
    assert json.loads(view.read_text()) == {}
    told = [record["type"] for record in project.records("FILE_LOCK", "FILE_UNLOCK") if "c~" in record["attempt"]]
    assert told == ["FILE_LOCK", "FILE_UNLOCK"]


def test_requirement_11_a_result_whose_lock_was_taken_by_force_is_rejected_and_the_task_done_again(
    project: Project,
) -> None:
    """It ignores that it is stopped, and even succeeds: its work may be mixed with that of another."""
    holder = """trap '' TERM; [ $CONDUCTOR_ATTEMPT_NUMBER -gt 1 ] && exit 0
        conductor bus lock f; touch held; until test -e taken; do sleep 0.05; done; exit 0"""
    project.config('terminate_grace = "10s"\nretry_delay = "0s"\n')
    taker = "until test -e held; do sleep 0.05; done; conductor bus lock f; touch taken"
    project.plan([project.shell("a", holder), project.shell("b", taker)])
    run = project.start_run("--retries", "0")
    project.wait_recorded("WAIT_BEGAN", "b")
    project.call("unlock", str(project.track), "f", "--force").expect(0)
    run.finish().expect(0)
    (gone, *_) = project.recorded("GRANT_GONE", "a")
    assert gone["payload"]["how"] == "taken"
    first, second = project.recorded("ATTEMPT_ENDED", "a")
    assert (first["payload"]["error_class"], first["payload"]["counted"]) == ("stale_token", False)
    assert second["payload"]["error_class"] is None


def test_requirement_12_a_wait_for_a_task_that_fails_ends_with_that_news(project: Project) -> None:
    waiting = "conductor bus wait a 2> news; test $? = 1 && grep -q 'task a is failed' news"
    failing = "until ls track/.message-bus/waits/* >/dev/null 2>&1; do sleep 0.05; done; exit 3"
    project.plan([project.shell("a", failing), project.shell("b", waiting)])
    project.run("--retries", "0").expect(1)
    assert project.statuses() == {"a": "failed", "b": "done"}
