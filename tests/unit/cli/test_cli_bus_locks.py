"""`conductor bus lock|unlock|wait|ask|inbox` over a real bus: exit codes, words, what lies on the disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import conductor_bus_start
from bus import layout
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.wire import ExitRecord, Stamp, TaskId
from conductor.cli.main import run_command_line

NOW = Stamp(0.0, 0.0, "boot")
ATTEMPT = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
OTHER = layout.attempt_id(TaskId("1.2"), 1, "1a1b2c3d")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    return folder


@pytest.fixture
def host(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileHost]:
    """A bus with two attempts; the environment is that of the first one's worker."""
    bus = tmp_path / "bus"
    host = open_host(bus, durability="process")
    for attempt in (ATTEMPT, OTHER):
        os.close(host.create_attempt(attempt))
    monkeypatch.chdir(project)
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(bus))
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", ATTEMPT)
    monkeypatch.setenv("CONDUCTOR_TASK_ID", "1.1")
    monkeypatch.setenv("CONDUCTOR_PROJECT_DIR", str(project))
    yield host
    host.close()


def bus(*arguments: str) -> int:
    return run_command_line(["bus", *arguments])


def keys(host: FileHost) -> list[tuple[str, ...]]:
    return [grant.keys for grant in host.grants()]


def test_locks_outlive_the_program_that_took_them(host: FileHost, project: Path, tmp_path: Path) -> None:
    (project / "link").symlink_to("src")
    os.chdir(project / "src")
    assert bus("lock", "../link/a.py", "./b.py", str(tmp_path)) == 0
    assert keys(host) == [(".", "src/a.py", "src/b.py")]
    assert bus("unlock", "a.py") == 0
    assert bus("unlock", str(tmp_path), "b.py") == 0
    assert keys(host) == []
    assert list((tmp_path / "bus" / layout.TMP).iterdir()) == []


def test_a_busy_lock_says_who_holds_it(host: FileHost, capsys: pytest.CaptureFixture[str]) -> None:
    open_hand(host.folders.path, OTHER).try_lock([("src", False)])
    assert bus("lock", "src/a.py", "--no-wait") == 1
    assert capsys.readouterr().err == f"src/a.py is held, or was asked for before, by {OTHER}\n"
    assert bus("lock", "src/a.py", "--timeout", "0.01") == 75
    assert "after 0.01 s: src/a.py is held" in capsys.readouterr().err
    assert host.waits() == ()
    host.revoke(ATTEMPT, "timeout")
    assert bus("lock", "src/a.py") == 76
    assert bus("lock", "free") == 76
    host.close_attempt(OTHER)
    assert keys(host) == []


def test_readers_share(host: FileHost) -> None:
    open_hand(host.folders.path, OTHER).try_lock([("src", True)])
    assert bus("lock", "src", "--shared", "--no-wait") == 0
    assert bus("lock", "src", "--no-wait") == 1


def test_what_is_not_held_is_not_released(host: FileHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert bus("lock", "a", "b", "c") == 0
    assert bus("unlock", "a", "x") == 1
    assert capsys.readouterr().err == "not held: x\n"
    assert bus("unlock", "--all") == 0
    assert bus("unlock", "--all") == 0
    assert keys(host) == []


def test_what_the_worker_locked_for_its_command_is_not_released_by_it(
    host: FileHost, capsys: pytest.CaptureFixture[str]
) -> None:
    open_hand(host.folders.path, ATTEMPT).try_lock([("src", False)], lasting=True)
    assert bus("lock", "src/a.py", "extra") == 0
    assert bus("unlock", "src/a.py", "extra") == 0
    assert bus("lock", "src") == 0
    assert bus("unlock", "src") == 0
    assert capsys.readouterr().err == "held until the attempt ends, as its task declares it: src\n"
    assert bus("unlock", "src", "x") == 1
    assert bus("unlock", "--all") == 0
    assert keys(host) == [("src",)]


def test_a_program_that_outlives_its_attempt_is_told_so(
    host: FileHost, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`leftovers: keep`, or a child in a session of its own: nothing of what it does counts any more."""
    open_hand(host.folders.path, ATTEMPT).finish(ExitRecord(True, "self"))
    for arguments in (
        ["lock", "a"], ["lock", "a", "--no-wait"], ["unlock", "--all"], ["unlock", "a"], ["wait", "1.2"], ["ask", "x?"],
        ["progress", "1"], ["fail", "x"], ["complete"], ["post", "MINE", "{}"],
    ):  # fmt: skip
        capsys.readouterr()
        assert bus(*arguments) == 76, arguments
        assert "this attempt is over" in capsys.readouterr().err
    assert keys(host) == []
    assert host.waits() == ()


def test_a_wait_for_a_task(host: FileHost, capsys: pytest.CaptureFixture[str]) -> None:
    sha = host.freeze_plan(b'{"tasks":[{"id":"1.1"},{"id":"1.2"},{"id":"1.3"}]}')
    host.stage("RUN_STARTED", {"plan_sha": sha}, NOW)
    host.stage("TASK_COMPLETE", {"task_id": "1.2"}, NOW, task=TaskId("1.2"))
    host.stage("TASK_FAILED", {"task_id": "1.3", "error": "exit 3"}, NOW, task=TaskId("1.3"))
    host.commit()
    assert bus("wait", "1.2") == 0
    assert bus("wait", "1.2", "1.3") == 1
    assert capsys.readouterr().err == "task 1.3 is failed: exit 3\n"
    assert bus("wait", "9") == 2
    assert bus("wait", "1.1") == 2
    host.stage("RUN_STARTED", {"plan_sha": sha}, NOW)
    host.commit()
    assert bus("wait", "1.3", "--timeout", "0.01") == 75


def test_a_question_prints_its_answer(host: FileHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert bus("ask", "Which?", "--timeout", "0.01") == 75
    (question,) = [item.message.payload for item in host.scan().messages]
    host.deliver(ATTEMPT, layout.answer_name(question["id"]), b"blue\n")
    capsys.readouterr()
    assert bus("ask", "Which?") == 0
    assert capsys.readouterr().out == "blue\n"
    assert bus("ask", "") == 2


def test_a_question_whose_answer_would_be_lost_is_not_asked(
    host: FileHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`conductor bus ask Q >&-`: an answer can be taken once."""
    monkeypatch.setattr(sys, "__stdout__", None)
    assert bus("ask", "Which?") == 2
    assert "the answer has nowhere to go" in capsys.readouterr().err
    assert host.scan().messages == ()


@pytest.mark.parametrize(
    "usage", ['{"cost_usd":"much"}', '{"cost_usd":-1}', '{"input_tokens":1.5}', '{"output_tokens":true}']
)
def test_a_usage_that_would_be_put_aside_is_refused(
    host: FileHost, capsys: pytest.CaptureFixture[str], usage: str
) -> None:
    assert bus("post", "USAGE", usage) == 2
    assert "of a USAGE is a" in capsys.readouterr().err
    assert host.scan().messages == ()
    assert bus("post", "USAGE", '{"cost_usd":1,"input_tokens":2,"output_tokens":null,"model":"x"}') == 0
    assert len(host.scan().messages) == 1


def test_what_people_sent_is_printed(host: FileHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert bus("inbox") == 1
    host.deliver(ATTEMPT, layout.steer_name(1), b"faster\n")
    host.deliver(ATTEMPT, layout.steer_name(2), b"\x1b[1mbetter")
    capsys.readouterr()
    assert bus("inbox") == 0
    assert capsys.readouterr().out == "faster\n\x1b[1mbetter\n"
    assert bus("inbox", "--json") == 0
    texts = json.loads(capsys.readouterr().out)
    assert [text["name"] for text in texts] == ["00000001-steer.md", "00000002-steer.md"]


def test_a_limit_of_a_provider_is_reported(host: FileHost) -> None:
    assert bus("fail", "--class", "rate_limit", "--retry-after", "2m", "429") == 0
    (item,) = host.scan().messages
    assert item.message.payload == {"verb": "fail", "message": "429", "class": "rate_limit", "retry_after": 120.0}
    assert bus("fail", "--class", "mine", "x") == 2
    assert bus("fail", "--retry-after", "1", "x") == 2


@pytest.mark.parametrize("arguments", [["lock"], ["lock", ""], ["unlock"], ["unlock", "--all", "a"], ["wait"], ["ask"]])
def test_wrong_usage_locks_nothing(host: FileHost, arguments: list[str]) -> None:
    assert bus(*arguments) == 2
    assert bus("lock", "a", "--timeout", "soon") == 2
    assert keys(host) == []


def test_a_program_that_locks_loads_next_to_nothing_and_one_that_does_not_not_even_the_mutex(host: FileHost) -> None:
    heavy = {"pydantic", "watchdog", "rich", "psutil", "yaml", "asyncio", "subprocess", "bus.schema", "bus.host"}
    for arguments, more in ((["lock", "a"], set()), (["inbox"], {"filelock"}), (["progress", "1"], {"filelock"})):
        code = (
            f"import sys; sys.argv[1:] = {['bus', *arguments]!r}; import conductor_bus_start as start\n"
            "try:\n start.main()\nexcept SystemExit: print(*sys.modules, file=sys.stderr)"
        )
        argv = [sys.executable, "-E", "-c", code]
        root = Path(conductor_bus_start.__file__).parent
        env = {**os.environ, "PYTHONPATH": ""}
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=root, env=env)
        loaded = set(done.stderr.split())
        assert "bus.client" in loaded
        assert not (heavy | more) & loaded
