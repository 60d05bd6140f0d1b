"""Output of commands: kept up to a cap, never in anybody's way."""

from __future__ import annotations

import sys

from tests.integration.tools import Project

CAP = 8 << 20
"""Bytes kept of the beginning; the end is kept in whole parts of this size, so up to two of them."""


def test_requirement_17_a_task_that_prints_40_megabytes_ends_and_the_kept_log_is_bounded(project: Project) -> None:
    code = (
        "import sys\n"
        "line = b'x' * 1023 + b'\\n'\n"
        "sys.stdout.buffer.write(b'FIRST\\n')\n"
        "for _ in range(40 * 1024): sys.stdout.buffer.write(line)\n"
        "sys.stdout.buffer.write(b'LAST\\n')\n"
    )
    project.plan([{"id": "a", "name": "Loud", "run": [sys.executable, "-I", "-S", "-c", code]}])
    project.run("--durability", "process").expect(0)
    (attempt,) = project.bus.glob("attempts/*/a~*")
    kept = sum(path.stat().st_size for path in attempt.iterdir())
    assert CAP <= kept < 3 * CAP + (1 << 20)
    shown = project.call("logs", str(project.track), "a").expect(0)
    assert shown.out.startswith("FIRST\n")
    assert shown.out.endswith("LAST\n")
    assert len(shown.out) < 3 * CAP + (1 << 20)
    (result,) = project.recorded("RESULT")
    total = len("FIRST\nLAST\n") + 40 * 1024 * 1024
    assert result["payload"]["log_bytes"]["stdout"] == total
    note = (shown.out + shown.err).replace("x" * 1023 + "\n", "")
    assert any(word in note for word in ("left out", "omitted", "dropped", "not kept")), note


def test_a_small_cap_keeps_beginning_and_end(project: Project) -> None:
    project.config("log_cap = 4096\n")
    project.plan([project.shell("a", "i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done")])
    project.run("--durability", "process").expect(0)
    shown = project.call("logs", str(project.track), "a").expect(0).out
    assert shown.startswith("line 0\nline 1\n")
    assert shown.endswith("line 3998\nline 3999\n")
    assert len(shown) < 3 * 4096 + 500


def test_requirement_17_a_child_that_keeps_the_pipe_open_blocks_nobody(project: Project) -> None:
    project.plan(
        [
            project.shell(
                "a", f"{' '.join(project.recorder('--gates', str(project.gates)))} & echo $! >pid; echo said"
            ),
            project.task("b", after=["a"]),
        ]
    )
    project.run().expect(0)
    assert project.printed("a") == "said\n"
    assert project.starts("b") == ["b"]


def test_output_without_a_final_newline_and_without_meaning_is_kept_as_it_is(project: Project) -> None:
    project.plan([project.shell("a", "printf 'a\\377\\376\\r\\nb'")])
    project.run().expect(0)
    (log,) = project.bus.glob("attempts/*/a~*/log")
    assert log.read_bytes() == b"a\xff\xfe\r\nb"


def test_the_end_of_stderr_is_in_the_error(project: Project) -> None:
    project.plan([project.shell("a", "echo noise; echo the cause >&2; exit 2", retries=0)])
    finished = project.run().expect(1)
    assert "the cause" in finished.out + finished.err
    assert "the cause" in project.call("why", str(project.track), "a").expect(0).out
