"""What a worker writes about its command: code, signal, output, environment, errors of starting."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.tools import wait_for
from tests.integration.worker.conftest import Bench


def test_exit_code_output_and_identity_are_kept(bench: Bench) -> None:
    spec = bench.shell("echo out; echo err >&2; exit 3", outputs=("made", "missing"))
    (bench.work / "made").touch()
    record = bench.wait(spec)
    assert record.started
    assert record.ended_by == "self"
    assert record.command == {"code": 3, "signal": None}
    assert record.tree_empty
    assert record.tail == "err\n"
    assert record.log_bytes == {"stdout": 4, "stderr": 4}
    assert [output["exists"] for output in record.outputs] == [True, False]
    assert (bench.read(spec, "log"), bench.read(spec, "log.err")) == ("out\n", "err\n")
    proc, command = bench.host.read_proc(spec.attempt), bench.host.read_command(spec.attempt)
    assert proc is not None
    assert command is not None
    assert command["session"] == proc.pid


def test_the_result_is_announced_by_a_message_with_the_same_body(bench: Bench) -> None:
    record = bench.run(("true",))
    (incoming,) = bench.host.scan().messages
    assert incoming.message.type == "RESULT"
    assert incoming.message.payload["command"] == record.command


def test_a_silent_quick_command_makes_no_log_and_no_heartbeat(bench: Bench) -> None:
    spec = bench.launch(("true",))
    bench.wait(spec)
    assert sorted(os.listdir(bench.folder(spec))) == ["exit.json", "live", "proc.json"]
    assert bench.host.heartbeat(spec.attempt) is None


def test_death_by_a_signal_is_recorded_as_such(bench: Bench) -> None:
    assert bench.run(("sh", "-c", "kill -SEGV $$")).command == {"code": None, "signal": signal.SIGSEGV}


def test_a_heartbeat_is_made_after_the_first_period_and_changes(bench: Bench) -> None:
    spec = bench.shell("while [ ! -e go ]; do sleep 0.02; done", heartbeat=0.05)
    seen: set[int | None] = set()

    def beats() -> int:
        seen.add(bench.host.heartbeat(spec.attempt))
        return len(seen - {None})

    wait_for(lambda: beats() >= 3, "three beats")
    (bench.work / "go").touch()
    assert bench.wait(spec).command == {"code": 0, "signal": None}


def test_a_missing_command_is_not_started_and_says_why(bench: Bench) -> None:
    record = bench.run(("no-such-program-anywhere",))
    assert not record.started
    assert record.why == "spawn: no-such-program-anywhere: command not found on PATH"
    assert record.command is None


def test_a_file_that_is_not_executable_is_not_started(bench: Bench) -> None:
    (bench.work / "plain").write_text("text")
    record = bench.run(("./plain",))
    assert (record.started, record.why) == (False, "spawn: ./plain: permission denied (not executable)")


def test_a_missing_interpreter_is_named_as_the_reason(bench: Bench) -> None:
    script = bench.work / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    record = bench.run(("./script",))
    assert not record.started
    assert "interpreter" in (record.why or "")


def test_a_missing_project_folder_is_not_started(bench: Bench) -> None:
    record = bench.run(("true",), cwd="/no/such/folder")
    assert (record.started, record.why) == (False, "spawn: /no/such/folder: No such file or directory")


def test_the_path_of_the_command_is_searched(bench: Bench, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "mytool").write_text("#!/bin/sh\nexit 7\n")
    (tools / "mytool").chmod(0o755)
    record = bench.run(("mytool",), env={"PATH": f"/nowhere:{tools}:/usr/bin:/bin"})
    assert record.command == {"code": 7, "signal": None}


def test_arguments_never_reach_a_shell(bench: Bench) -> None:
    spec = bench.launch(("printf", "%s|", "$HOME", "a b", "`id`", "*"))
    bench.wait(spec)
    assert bench.read(spec, "log") == "$HOME|a b|`id`|*|"


def test_verify_commands_follow_a_success_and_share_the_log(bench: Bench) -> None:
    spec = bench.shell("echo work", verify=(("echo", "one"), ("sh", "-c", "echo two; exit 4"), ("echo", "three")))
    record = bench.wait(spec)
    assert record.command == {"code": 0, "signal": None}
    assert [(entry["argv"][0], entry["code"]) for entry in record.verify] == [("echo", 0), ("sh", 4)]
    assert bench.read(spec, "log") == "work\none\ntwo\n"


def test_a_verify_that_cannot_be_started_has_failed(bench: Bench) -> None:
    record = bench.run(("true",), verify=(("no-such-program-anywhere",),))
    assert record.verify[0]["code"] is None
    assert "not found" in record.verify[0]["error"]


def test_the_last_report_is_in_the_result(bench: Bench) -> None:
    spec = bench.spec(("true",))
    live = bench.host.create_attempt(spec.attempt, {"report.json": b'{"verb":"complete","commit":"abc"}'})
    bench.send(spec, live)
    assert bench.wait(spec).report == {"verb": "complete", "commit": "abc"}


@pytest.mark.parametrize("content", ["[1]", "{", "[" * 100_000])
def test_a_report_that_is_no_object_counts_for_nothing(bench: Bench, content: str) -> None:
    spec = bench.spec(("true",))
    live = bench.host.create_attempt(spec.attempt, {"report.json": content.encode()})
    bench.send(spec, live)
    assert bench.wait(spec).report is None
