"""status, why, logs and the run's result, on a track with a history."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bus.hand import open_hand
from bus.wire import AttemptId, ExitRecord, ProcRecord, TaskId
from conductor.cli import logs
from conductor.cli.main import run_command_line
from conductor.cli.seen import as_seen
from conductor.cli.summary import summary
from conductor.cli.track import resolve
from conductor.core.events import ControlReceived, LaunchFailed, TimerFired
from conductor.core.words import WORDS

if TYPE_CHECKING:
    from conftest import Story

NODES = """  nodes:
    - {id: "1", name: "First", files: [a.py]}
    - {id: "2", name: "Second", depends_on: ["1"]}
    - {id: "3", name: "Third", files: [a.py]}
    - {id: "4", name: "Last", depends_on: ["2"]}
    - {id: "5", name: "Other\\u202e"}
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a verb that must succeed; return what it printed."""
    assert run_command_line(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def status(capsys: pytest.CaptureFixture[str], track: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(call(capsys, "status", str(track), "--json"))
    assert sum(data["counts"].values()) == len(data["tasks"])
    assert tuple(data["counts"]) == WORDS
    return data


def claim(story: Story, task: str, exit: ExitRecord | None = None) -> None:
    """A worker claims its attempt and ends, perhaps with a result."""
    with closing(open_hand(story.host.folders.path, story.attempt(task))) as hand:
        hand.claim(ProcRecord("boot", 1, 1, story.host.epoch))
        if exit:
            hand.finish(exit)
    os.close(story.live.pop(story.attempt(task)))


def worked_off(story: Story) -> None:
    """1 fails twice, so 2 and 4 are blocked; 3 and 5 are done."""
    story.start(NODES, retries=1)
    story.end("1", 3, tail="first try\n")
    story.tell(TimerFired("retry:1"))
    story.end("3", 0, log=b"hello\x1b[2J\n")
    story.end("1", 3, tail="trace\nboom\n", log=b"line 1\n")
    story.write_log("1", "log.err", b"boom\n")
    story.end("5")


def test_status_json_has_the_documented_shape(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(NODES)
    story.progress("5", 40, "half")
    data = status(capsys, track)
    assert data["track"] == str(track)
    assert data["project"] == str(track.parent)
    run = data["run"]
    assert set(run) >= {
        *("id", "state", "epoch", "conductor", "durability", "started_at", "ended_at", "reason", "not_ingested")
    }
    assert (run["state"], run["epoch"], run["durability"]) == ("running", 1, "process")
    assert set(run["conductor"]) == {"pid", "host"}
    assert run["started_at"] == "2025-06-15T15:06:40.000Z"
    assert [task["id"] for task in data["tasks"]] == ["1", "2", "3", "4", "5"]
    assert set(data["tasks"][0]) >= {
        *("id", "name", "status", "attempts", "worker", "alive", "started_at", "ended_at", "exit", "error"),
        *("blocked_by", "waits_for", "progress_pct", "usage", "commit", "evidence"),
    }
    by_id = {task["id"]: task for task in data["tasks"]}
    assert (by_id["5"]["status"], by_id["5"]["alive"], by_id["5"]["progress_pct"]) == ("running", True, 40)
    assert (by_id["2"]["status"], by_id["2"]["worker"], by_id["2"]["alive"]) == ("pending", None, None)
    assert by_id["3"]["waits_for"] == [{"kind": "conflict", "what": "a.py", "holder": "1", "until": None}]


def test_status_json_after_the_end(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked_off(story)
    data = status(capsys, track)
    assert data["run"]["state"] == "failed"
    assert data["run"]["ended_at"] == "2025-06-15T15:06:52.000Z"
    by_id = {task["id"]: task for task in data["tasks"]}
    assert by_id["1"]["exit"] == {"code": 3, "signal": None}
    assert by_id["1"]["error"] == {"class": "exit", "message": 'exit 3: "boom"'}
    assert (by_id["1"]["attempts"], by_id["1"]["alive"]) == (2, False)
    assert by_id["4"]["blocked_by"] == ["1"]


def test_a_dead_conductor_leaves_the_run_interrupted(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES)
    story.die()
    data = status(capsys, track)
    assert (data["run"]["state"], data["run"]["conductor"]) == ("interrupted", None)
    assert {task["id"] for task in data["tasks"] if task["alive"]} == {"1", "5"}
    text = call(capsys, "status", str(track))
    assert "The conductor is gone before the run ended; 2 workers of it still work.\nGo on: conductor run" in text
    assert "\nEnd it: conductor stop" in text


def test_an_attempt_that_ended_unrecorded_is_not_shown_as_running(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody records it: the conductor is dead, or its disk is full. The journal says that it runs, and it does not."""
    story.start(NODES)
    story.progress("1", 24, "")
    claim(story, "1", ExitRecord(started=True, ended_by="self", command={"code": 0, "signal": None}, seconds=19.0))
    story.die()
    text = call(capsys, "status", str(track))
    assert "waiting  1  19s      First  (for its end to be recorded)\n" in text
    assert "1 running, " in text
    assert "24 %" not in text
    assert "Waits for its end to be recorded.\n" in call(capsys, "why", str(track), "1")


def test_requirement_32_an_attempt_whose_launch_is_held_back_is_not_shown_as_running(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES)
    os.close(story.live.pop(story.attempt("1")))
    shutil.rmtree(track / ".message-bus" / "attempts" / story.attempt("1")[-8] / story.attempt("1"))
    assert "waiting  1" in call(capsys, "status", str(track))
    assert "(for its worker to be started)\n" in call(capsys, "status", str(track))
    assert [task["alive"] for task in status(capsys, track)["tasks"] if task["id"] == "1"] == [False]


def test_a_bus_that_cannot_tell_of_a_worker_changes_no_picture(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(attempt: AttemptId) -> bool:
        raise OSError(errno.EMFILE, "Too many open files")

    story.start(NODES)
    monkeypatch.setattr(story.host, "is_live", refuse)
    view = story.view()
    assert as_seen(view, story.host) is view


LOST = ExitRecord(
    started=True,
    ended_by="self",
    command={"code": 0, "signal": None},
    log_bytes={"stdout": 9, "stderr": 0, "lost": 4, "errno": errno.ENOSPC},
    tail="said\x1b it\n",
)


@pytest.mark.parametrize("kept", [b"", b"sai", b"said\x1b it\n"])
def test_requirement_32_output_that_was_lost_is_told_of_and_its_end_is_shown(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], kept: bytes
) -> None:
    """Whoever reads the output must not take what is there for all of it."""
    story.start(NODES)
    story.write_log("1", "log", kept)
    claim(story, "1", LOST)
    text = call(capsys, "why", str(track), "1")
    assert "4 bytes of what it printed could not be kept: the disk is full." in text
    data = json.loads(call(capsys, "logs", str(track), "1", "--json"))
    assert data["lost"] == {"bytes": 4, "why": "the disk is full", "stream": "stdout", "end": LOST.tail}
    assert run_command_line(["logs", str(track), "1"]) == 0
    said = capsys.readouterr()
    assert said.out.encode() == kept
    assert "[4 bytes of what it printed could not be kept: the disk is full]\n" in said.err
    assert ("said\\e it\n" in said.err) is (kept != LOST.tail.encode())


def test_status_for_people(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked_off(story)
    text = call(capsys, "status", str(track))
    assert re.sub(r"ended [0-9: -]+: ", "ended then: ", text) == (
        "failed, 12s, ended then: 2 done, 1 failed, 2 blocked\n"
        "\n"
        '✗ failed   1  #2  3.0s  First  (exit 3: "boom")\n'
        "⊘ blocked  2            Second  (by 1)\n"
        "✓ done     3      3.0s  Third\n"
        "⊘ blocked  4            Last  (by 1)\n"
        "✓ done     5      3.0s  Other\\u202e\n"
        "\n"
        "Workers for command: 4 attempts, 2 failed (2 by exit status); an attempt takes 3.0s (median)\n"
        f"Why: conductor why {track} 1\n"
        f"Go on: conductor run {track}\n"
    )


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        (
            "1",
            [
                '✗ failed  1 First\n  Attempt 2 failed: exit 3: "boom".\n',
                "The end of its stderr (all it printed: `conductor logs ",
                " 1`):\n  trace\n  boom\n",
                "RETRY_SCHEDULED    1         attempt 2 in ",
                "Output:   conductor logs ",
                "Go on:    conductor run ",
            ],
        ),
        (
            "4",
            ['⊘ blocked  4 Last\n  Needs 2 → 1 (First), which failed: exit 3: "boom".\n', "Why:      conductor why "],
        ),
        ("5", ["✓ done  5 Other\\u202e\n  Done after 3.0s; what tells: exit status.\n"]),
    ],
)
def test_why_explains(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], task: str, parts: list[str]
) -> None:
    worked_off(story)
    text = call(capsys, "why", str(track), task)
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("1", "Tries again: attempt 2"),
        ("2", "Needs 1, which is waiting."),
        ("3", "Attempt 1 runs for "),
    ],
)
def test_why_while_it_runs(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], task: str, sentence: str
) -> None:
    story.start(NODES, retries=1)
    story.end("1", 3)
    assert sentence in call(capsys, "why", str(track), task)


def test_why_names_a_conflict(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(NODES)
    assert "Waits for a.py, in use by 1." in call(capsys, "why", str(track), "3")


def test_why_json(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked_off(story)
    data = json.loads(call(capsys, "why", str(track), "2", "--json"))
    assert data["depends_on"] == [{"id": "1", "status": "failed"}]
    assert data["task"]["blocked_by"] == ["1"]
    assert [record["type"] for record in data["records"]] == ["TASK_BLOCKED"]
    assert json.loads(call(capsys, "why", str(track), "1", "--json"))["tail"] == "trace\nboom\n"


@pytest.mark.parametrize("verb", ["why", "logs"])
def test_an_unknown_task_is_an_error(story: Story, track: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    story.start(NODES)
    assert run_command_line([verb, str(track), "11", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["hint"]) == ("unknown_task", "did you mean 1?")


@pytest.mark.parametrize("arguments", [["status"], ["why", "1"], ["logs", "1"], ["events"]])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_track_never_run_is_no_error(
    track: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], more: list[str]
) -> None:
    assert run_command_line([arguments[0], str(track), *arguments[1:], *more]) == 0
    out = capsys.readouterr().out
    if more and arguments[0] != "events":
        assert "error" not in json.loads(out)
    assert list(track.iterdir()) == []


def test_never_run_in_json(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = status(capsys, track)
    assert (data["run"]["state"], data["run"]["id"], data["tasks"]) == ("never_run", None, [])


def test_a_plan_never_run_is_pending(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (track / "plan.md").write_text(f"# Plan\n\n```yaml\ndag:\n{NODES}\n```\n")
    data = status(capsys, track)
    assert (data["run"]["state"], data["counts"]["pending"]) == ("never_run", 5)
    assert {(task["status"], task["alive"], task["attempts"]) for task in data["tasks"]} == {("pending", None, 0)}
    text = call(capsys, "status", str(track))
    assert text.startswith("never run: 5 pending\n\n· pending  1  First\n")
    no_bus = f"There is no bus at {track}/.message-bus (if it was run with --bus-dir, give the same again).\n"
    assert text.endswith(f"\n\n{no_bus}Start it: conductor run {track}\n")


@pytest.mark.parametrize("verb", [("status",), ("why", "1"), ("logs", "1"), ("events",), ("stop",), ("reset",)])
def test_a_place_without_a_bus_is_named(
    story: Story, track: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]
) -> None:
    """The track was run; somebody mistypes where, or forgets to say."""
    story.start(NODES)
    story.close()
    moved = tmp_path / "elsewhere"
    (track / ".message-bus").rename(moved)
    for options, place in ([], track / ".message-bus"), (["--bus-dir", f"{moved}s"], f"{moved}s"):
        capsys.readouterr()
        assert run_command_line([verb[0], str(track), *verb[1:], *options]) == 0
        captured = capsys.readouterr()
        assert f"here is no bus at {place}" in captured.out + captured.err
        assert ("if it was run with --bus-dir" in captured.out + captured.err) is not bool(options)
    bus = json.loads(call(capsys, "status", str(track), "--json"))["bus"]
    assert bus == {"path": str(track / ".message-bus"), "exists": False}


def test_a_plan_never_run_that_is_broken_is_named(track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (track / "plan.md").write_text("```yaml\ndag:\n  nodes: [{id: a, depends_on: [b]}]\n```\n")
    text = call(capsys, "status", str(track))
    assert text.startswith(f"never run, and its plan cannot be run:\n\nerror: {track}/plan.md:3: ")
    assert text.endswith(f"give the same again).\nCheck it: conductor plan {track}\n")
    error = status(capsys, track)["plan_error"]
    assert (error["code"], error["path"], error["line"]) == ("plan_unknown_dependency", "plan.md", 3)
    for verb in ("why", "logs"):
        assert run_command_line([verb, str(track), "zz"]) == 0  # nobody can say whether there is such a task


@pytest.mark.parametrize("verb", ["why", "logs"])
def test_a_task_of_a_plan_never_run_is_checked(track: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    (track / "plan.md").write_text(f"# Plan\n\n```yaml\ndag:\n{NODES}\n```\n")
    assert run_command_line([verb, str(track), "1"]) == 0
    assert run_command_line([verb, str(track), "zz"]) == 2
    assert "the plan has no task 'zz'" in capsys.readouterr().err


def test_no_output_is_offered_of_a_command_that_never_started(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start('  nodes:\n    - {id: "1", name: "First"}\n')
    story.tell(LaunchFailed(TaskId("1"), story.attempt("1"), "no room"))
    text = call(capsys, "why", str(track), "1")
    assert "no room" in text
    assert "conductor logs" not in text
    assert "conductor logs" not in summary(story.view(), resolve(str(track)), story.host, colour=False)


def test_why_says_that_nobody_is_there(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(NODES)
    claim(story, "1")
    story.close()
    text = call(capsys, "why", str(track), "1")
    assert "Waits for a look at what became of its worker.\n" in text
    assert "The conductor is gone before the run ended.\n" in text


def test_looking_writes_nothing(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked_off(story)
    before = {path: path.stat().st_mtime_ns for path in track.rglob("*")}
    for arguments in (["status"], ["why", "1"], ["logs", "1"], ["events"]):
        assert run_command_line([arguments[0], str(track), *arguments[1:]]) == 0
    assert {path: path.stat().st_mtime_ns for path in track.rglob("*")} == before


def test_logs_keep_the_streams_apart(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked_off(story)
    assert run_command_line(["logs", str(track), "1"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("line 1\n", "boom\n")
    assert call(capsys, "logs", str(track), "1", "--stderr") == "boom\n"
    assert call(capsys, "logs", str(track), "1", "--attempt", "1") == ""


def test_logs_in_a_pipe_are_byte_for_byte(story: Story, track: Path, capfdbinary: Any) -> None:
    worked_off(story)
    assert run_command_line(["logs", str(track), "3"]) == 0
    assert capfdbinary.readouterr().out == b"hello\x1b[2J\n"


def test_req31_logs_on_a_terminal_are_escaped(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_off(story)
    monkeypatch.setattr(logs, "is_terminal", lambda stream: True)
    assert call(capsys, "logs", str(track), "3") == "hello\\e[2J\n"


def test_a_person_is_told_that_nothing_was_printed(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_off(story)
    monkeypatch.setattr(logs, "is_terminal", lambda stream: True)
    assert run_command_line(["logs", str(track), "5"]) == 0
    assert capsys.readouterr().err == "it has printed nothing\n"


def test_logs_json(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked_off(story)
    data = json.loads(call(capsys, "logs", str(track), "1", "--json"))
    assert data["stdout"] == {"head": "line 1\n", "tail": "", "not_kept": 0, "left_out": 0}
    assert data["attempt"].startswith("1~2-")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/etc/passwd")])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_requirement_27_a_log_that_is_no_file_is_refused_in_plain_words(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], object], flags: list[str]
) -> None:
    worked_off(story)
    attempt = story.attempt("5")
    log = track / ".message-bus" / "attempts" / attempt[-8] / attempt / "log"
    log.unlink(missing_ok=True)
    make(log)
    assert run_command_line(["logs", str(track), "5", *flags]) == 5
    out, err = capsys.readouterr()
    assert "the output cannot be read: " in out + err
    assert "root:" not in out


def test_logs_that_are_not_kept_are_no_error(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked_off(story)
    attempt = story.attempt("5")
    shutil.rmtree(track / ".message-bus" / "attempts" / attempt[-8] / attempt)
    assert run_command_line(["logs", str(track), "5"]) == 0
    assert capsys.readouterr().err == f"nothing is kept of {attempt}\n"
    assert json.loads(call(capsys, "logs", str(track), "5", "--json"))["stdout"] is None


def test_an_attempt_that_is_not_there_names_those_that_are(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worked_off(story)
    assert run_command_line(["logs", str(track), "1", "--attempt", "7"]) == 2
    assert capsys.readouterr().err == "error: task 1 has no attempt 7\nhint: it has: 1, 2\n"


def test_following_ends_with_the_attempt(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(NODES)
    story.write_log("5", "log", b"one\n")
    steps = iter(
        [
            lambda: story.write_log("5", "log", b"one\ntwo\n"),
            lambda: story.end("5", log=b"one\ntwo\nthree\n"),
        ]
    )
    monkeypatch.setattr(logs, "pause", lambda seconds: next(steps)())
    assert call(capsys, "logs", str(track), "5", "-f") == "one\ntwo\nthree\n"


def test_a_stopped_run_says_how_to_go_on(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(NODES)
    story.tell(ControlReceived("drain", "operator:me"))
    assert status(capsys, track)["run"]["state"] == "draining"
    story.end("1")
    story.end("5")
    text = call(capsys, "status", str(track))
    assert text.startswith("stopped, ")
    assert text.endswith(f"Go on: conductor run {track}\n")
